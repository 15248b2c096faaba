// cpu.simd of moert.routed_experts/1: experts at the speed of the machine.
// SPDX-License-Identifier: Apache-2.0
#include "experts.hpp"

#include <cmath>
#include <optional>
#include <string_view>

#include "scratch.hpp"

namespace moert::cpu {
namespace {

using namespace simd;

std::string_view text(const char* word) { return word == nullptr ? "" : word; }

}  // namespace

const Kernels& simd::kernels_of(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
#if defined(MOERT_CPU_AMX)
    case Isa::amx_bf16: return kAmxBf16Kernels;
#else
    case Isa::amx_bf16: break;  // is never chosen
#endif
    case Isa::avx512_bf16: return kAvx512Bf16Kernels;
    case Isa::avx512: return kAvx512Kernels;
    case Isa::avx2: return kAvx2Kernels;
    case Isa::portable: break;
  }
#else
  static_cast<void>(isa);
#endif
  return kPortableKernels;
}

namespace {

PackedWeights::RowsAre rows_of(const moert_moe_problem_t& p) {
  const std::string_view rows = text(p.act_scheme);
  if (rows.empty() || rows == "none") return PackedWeights::RowsAre::plain;
  // By what is in a row alone, and all in the same way. With `static` or `nvfp4` a row depends on the weight's own
  // scale, with `mixed` on the part; whatever else there may be may do so too. And weights of several formats may
  // mean several things by one word.
  const bool alike = rows == "fp8" || row_scheme_of(rows, Storage::fp8);
  return alike && text(p.weight_scheme) != "mixed" ? PackedWeights::RowsAre::quantised
                                                   : PackedWeights::RowsAre::by_weight;
}

// How rows become codes, if they do so here; the scheme is then cut to match them.
std::optional<RowScheme> codes_of(const moert_moe_problem_t& p, WeightScheme* scheme) {
  const std::optional<RowScheme> rows = row_scheme_of(text(p.act_scheme), scheme->format.storage);
  const bool able = kernels_of(choose_isa().isa).code_rows != nullptr;
  return able && rows && fit_rows(*rows, scheme) ? rows : std::nullopt;
}

WeightScheme stored_scheme(const moert_moe_problem_t& p) {
  return scheme_of(text(p.weight_scheme),
                   p.hidden_size % kGroup == 0 && p.intermediate_size % kGroup == 0);
}

WeightScheme weights_of(const moert_moe_problem_t& p) {
  WeightScheme scheme = stored_scheme(p);
  codes_of(p, &scheme);
  return scheme;
}

bool packed_layout(const moert_moe_problem_t& p, Layout* layout) {
  int64_t total = 0;
  return Layout::make(shape_of(p), weights_of(p).format, layout) &&
         product({layout->bytes, p.num_local_experts}, &total);
}

// Whether the sizes of a workspace for the most tokens fit 62 bits, with room for all its small parts.
bool workspace_fits(const moert_moe_problem_t& p) {
  int64_t rows = 0;
  int64_t bytes = 0;
  return product({p.max_tokens, p.top_k}, &rows) &&
         product({rows, std::max(p.hidden_size, p.intermediate_size) + 1024, 32}, &bytes);
}

std::string simd_refusal(const moert_moe_problem_t& p) {
  if (std::string reason = experts_refusal(p); !reason.empty()) return reason;
  for (uint32_t dtype : {p.activation_dtype, p.output_dtype})
    if (dtype == MOERT_DTYPE_F64) return "rows of type f64, only f32, bf16, f16";
  const bool by_weight = rows_of(p) == PackedWeights::RowsAre::by_weight;
  if (by_weight && (p.flags & MOERT_PROBLEM_BUNDLES) != 0)
    return "experts that move while rows are quantised by each one's own scales ('" +
           std::string(text(p.act_scheme)) + "')";
  Layout layout;
  if (!packed_layout(p, &layout) || !workspace_fits(p)) return "the sizes do not fit 64 bits";
  return choose_isa().refusal;
}

moert_moe_problem_t accepted(const moert_moe_problem_t& problem) {
  if (const std::string reason = simd_refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return problem;
}

std::optional<Curve> curve_of(std::string_view name) {
  constexpr std::pair<std::string_view, Curve> kCurves[] = {
      {"silu", Curve::silu},   {"gelu_tanh", Curve::gelu_tanh}, {"relu", Curve::relu},
      {"relu2", Curve::relu2}, {"swigluoai", Curve::swigluoai}, {"swiglustep", Curve::swiglustep}};
  for (const auto& [known, curve] : kCurves)
    if (known == name) return curve;
  return std::nullopt;
}

Method method_of(const moert_moe_problem_t& p, const Activation& activation) {
  const moert_activation_t a = intake(p.activation);
  const std::optional<Curve> curve = curve_of(a.name);
  Method method;
  method.kernels = &kernels_of(choose_isa().isa);
  method.weight_on_input = (p.flags & MOERT_PROBLEM_WEIGHT_ON_INPUT) != 0;
  method.rows_by_expert = rows_of(p) == PackedWeights::RowsAre::by_weight;
  WeightScheme scheme = stored_scheme(p);
  method.codes = codes_of(p, &scheme);
  const auto storage = static_cast<size_t>(scheme.format.storage);
  // A row times its weight is no bf16 any more, so it is multiplied as f32.
  method.pairs =
      method.codes || (method.kernels->bf16_rows[storage] != nullptr &&
                       rows_of(p) == PackedWeights::RowsAre::plain &&
                       p.activation_dtype == MOERT_DTYPE_BF16 && !method.weight_on_input);
  method.bend = {curve.value_or(Curve::done), (p.flags & MOERT_PROBLEM_NON_GATED) == 0,
                 static_cast<float>(a.alpha), static_cast<float>(a.beta),
                 a.limit > 0 ? static_cast<float>(a.limit) : HUGE_VALF};
  method.exact = curve ? nullptr : &activation;
  return method;
}

}  // namespace

Support SimdExperts::supports(const Host&, const moert_moe_problem_t& problem) {
  if (const std::string reason = simd_refusal(problem); !reason.empty()) return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_CONCURRENT_LOAD);
  Layout layout;
  packed_layout(problem, &layout);
  answer.persistent_bytes =
      static_cast<uint64_t>(layout.bytes) * static_cast<uint64_t>(problem.num_local_experts);
  answer.reason = std::string(stored_scheme(problem).dtype == 0 ? "weights decoded to f32, " : "") +
                  "instructions " + std::string(isa_name(choose_isa().isa));
  return answer;
}

SimdExperts::SimdExperts(const Host& host, const moert_moe_problem_t& problem,
                         const Options& options)
    : host_(host),
      limits_(accepted(problem)),
      activation_(intake(problem.activation)),
      method_(method_of(problem, activation_)),
      weights_(host, shape_of(problem), weights_of(problem), rows_of(problem),
               problem.num_local_experts) {
  options.allow({});
}

void SimdExperts::load(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  weights_.load(piece);
}

void SimdExperts::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  weights_.expect_complete();
  finished_ = true;
}

BatchShape SimdExperts::batch_shape(int64_t tokens) const {
  const Layout& layout = weights_.layout();
  return {tokens,
          limits_.top_k,
          limits_.experts,
          host_.num_threads(),
          layout.up_panels,
          layout.down_panels,
          method_.row_bytes(layout.shape.hidden),
          method_.rows_of_token(limits_.top_k),
          method_.row_bytes(layout.middle())};
}

uint64_t SimdExperts::workspace(int64_t tokens) {
  // Rows may come with their numbers apart, so there is always room for copies.
  return Batch::bytes(batch_shape(tokens));
}

void SimdExperts::forward(const moert_experts_args_t& args) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  const ExpertsRows rows = expect_rows(args, limits_);
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(rows.tokens()));
  if (rows.tokens() == 0) return;
  Batch batch(batch_shape(rows.tokens()), args.workspace);
  Forward(method_, weights_, rows, batch).run(host_);
}

uint64_t SimdExperts::bundle_bytes() { return weights_.bundle_bytes(); }

void SimdExperts::expect_moved(int64_t expert, const void* bundle, uint64_t bytes) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "a bundle before finish");
  expect_bundle(expert, weights_.experts(), bundle, bytes, bundle_bytes());
}

void SimdExperts::read_expert(int64_t expert, void* bundle, uint64_t bytes, const moert_stream_t*) {
  expect_moved(expert, bundle, bytes);
  weights_.read(expert, bundle);
}

void SimdExperts::write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                               const moert_stream_t*) {
  expect_moved(expert, bundle, bytes);
  weights_.write(expert, bundle);
}

}  // namespace moert::cpu
