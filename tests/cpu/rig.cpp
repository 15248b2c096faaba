// SPDX-License-Identifier: Apache-2.0
#include "cpu/rig.hpp"

#include <cstring>
#include <moert/sdk/tensor.hpp>
#include <stdexcept>

#include "conformance/plain_quant.hpp"
#include "loader/loader.hpp"

namespace moert::cpu::testing {

const void* feature_table(const std::string& kind, const std::string& feature) {
  static const loader::Result result = [] {
    loader::Options options;
    options.search.push_back({MOERT_CPU_PLUGIN, "test"});
    options.search.push_back({MOERT_QUANT_PLUGIN, "test"});
    return loader::load(options, ignore_log);
  }();
  for (const loader::Plugin& plugin : result.plugins) {
    for (uint32_t i = 0; i < plugin.descriptor.n_features; ++i) {
      const moert_feature_t& found = *plugin.descriptor.features[i];
      if (feature == found.name && kind == found.kind) return found.table;
    }
  }
  throw std::runtime_error("no feature " + feature +
                           " in " MOERT_CPU_PLUGIN " and " MOERT_QUANT_PLUGIN);
}

namespace {

const moert_routed_experts_t& table_of(const std::string& feature) {
  return *static_cast<const moert_routed_experts_t*>(
      feature_table(MOERT_KIND_ROUTED_EXPERTS, feature));
}

// The method of a scheme of codes; null for plain numbers.
const moert_quant_method_t* quant_of(const std::string& scheme) {
  const char* feature = scheme == kMxfp4              ? "quant.fp4"
                        : scheme.starts_with("fp8_")  ? "quant.fp8"
                        : scheme.starts_with("int8.") ? "quant.int8"
                                                      : nullptr;
  if (feature == nullptr) return nullptr;
  return static_cast<const moert_quant_method_t*>(feature_table(MOERT_KIND_QUANT_METHOD, feature));
}

void expect(moert_code_t code, const moert_error_t& error) {
  if (code != MOERT_OK) throw std::runtime_error(error.message);
}

moert_error_t no_error() {
  moert_error_t error{};
  error.struct_size = sizeof error;
  return error;
}

}  // namespace

std::vector<unsigned char> random_numbers(std::mt19937_64& random, uint32_t dtype, int64_t count,
                                          double scale) {
  std::vector<unsigned char> bytes(dtype_bytes(dtype, count));
  const TensorView view(bytes.data(), dtype, {count});
  std::uniform_real_distribution<double> spread(-scale, scale);
  for (int64_t i = 0; i < count; ++i) write_f32(*view.get(), i, static_cast<float>(spread(random)));
  return bytes;
}

moert_moe_problem_t problem_of(const Case& c) {
  moert_moe_problem_t p{};
  p.struct_size = sizeof p;
  p.flags = c.flags;
  p.device = kCpu;
  p.max_tokens = 512;
  p.hidden_size = c.sizes.hidden;
  p.intermediate_size = c.sizes.intermediate;
  p.num_experts = p.num_physical_experts = p.num_local_experts = c.sizes.experts;
  p.top_k = c.sizes.top_k;
  p.activation_dtype = c.rows;
  p.output_dtype = c.out;
  p.weight_scheme = c.scheme;
  p.act_scheme = c.act_scheme;
  p.activation = &c.activation;
  p.ep_size = p.tp_size = 1;
  return p;
}

Batch Batch::row(const Case& c, int64_t token) const {
  const auto t = static_cast<std::ptrdiff_t>(token);
  const auto k = static_cast<std::ptrdiff_t>(c.sizes.top_k);
  const auto bytes = static_cast<std::ptrdiff_t>(dtype_bytes(c.rows, c.sizes.hidden));
  const auto part = [t](const auto& all, std::ptrdiff_t size) {
    return std::remove_cvref_t<decltype(all)>(all.begin() + t * size, all.begin() + (t + 1) * size);
  };
  return {1, part(hidden, bytes), part(ids, k), part(weights, k)};
}

Batch make_batch(const Case& c, int64_t tokens, Routing routing) {
  std::mt19937_64 random(static_cast<uint64_t>(tokens) * 7 + static_cast<uint64_t>(routing));
  Batch batch{tokens, random_numbers(random, c.rows, tokens * c.sizes.hidden, 1), {}, {}};
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < c.sizes.top_k; ++j) {
      // Distinct experts of a token, by a stride that starts anywhere.
      const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(c.sizes.experts));
      const int64_t last = j == 0 ? first : batch.ids.back() + 1;
      int64_t id = last % c.sizes.experts;
      if (routing == Routing::one_expert) id = j == 0 ? c.sizes.experts - 1 : -1;
      batch.ids.push_back(static_cast<int32_t>(id));
      batch.weights.push_back(0.25f + static_cast<float>(random() % 1024) / 1024);
    }
  }
  if (routing == Routing::with_gaps)
    for (size_t slot = 0; slot < batch.ids.size(); ++slot)
      if (slot % 3 == 1 || slot / static_cast<size_t>(c.sizes.top_k) == 2) batch.ids[slot] = -1;
  return batch;
}

std::string reason_of(const char* candidate, const moert_moe_problem_t& problem) {
  runtime::HostServices host(1, ignore_log);
  moert_support_t support{};
  support.struct_size = sizeof support;
  moert_error_t error = no_error();
  expect(table_of(candidate).supports(host.table(), &problem, &support, &error), error);
  return support.verdict != 0 ? "" : support.reason;
}

bool level_is_absent() {
  const Case plain{"", {8, 8, 2, 1}};
  const std::string reason = reason_of("cpu.simd", problem_of(plain));
  return reason.starts_with("MOERT_CPU_ISA asks for") &&
         reason.find("this machine has") != std::string::npos;
}

Layer::Layer(const char* candidate, const Case& c, int32_t threads, Weights weights, Sink sink)
    : case_(c), sink_(std::move(sink)), host_(threads, ignore_log), table_(table_of(candidate)) {
  const moert_moe_problem_t problem = problem_of(case_);
  moert_error_t error = no_error();
  expect(table_.create(host_.table(), &problem, nullptr, 0, &self_, &error), error);
  quant_ = quant_of(c.scheme);
  if (quant_ != nullptr) {
    const moert_kv_t options[] = {{"activations", c.act_scheme}, {"global", c.global}};
    const uint32_t count = std::string(c.global) == "none" ? 1 : 2;
    expect(quant_->create(host_.table(), c.scheme, options, count, &quant_self_, &error), error);
  }
  std::mt19937_64 random(11);
  for (int64_t e = 0; e < c.sizes.experts; ++e) {
    for (uint32_t role : {MOERT_ROLE_WEIGHT, MOERT_ROLE_BIAS}) {
      if (role == MOERT_ROLE_BIAS && (c.flags & MOERT_PROBLEM_BIAS) == 0) continue;
      for (uint32_t part : {MOERT_PART_GATE, MOERT_PART_UP, MOERT_PART_DOWN})
        if (part != MOERT_PART_GATE || (c.flags & MOERT_PROBLEM_NON_GATED) == 0)
          load(random, weights, e, part, role);
    }
  }
  expect(table_.finish(self_, &error), error);
}

Layer::~Layer() {
  table_.destroy(self_);
  if (quant_ != nullptr) quant_->destroy(quant_self_);
}

void Layer::put(const moert_piece_t& piece) const {
  moert_error_t error = no_error();
  expect(table_.load(self_, &piece, &error), error);
  if (sink_) sink_(piece);
}

// Codes and scales at random, in the order of nibbles and the layout of rows that the expert's number says.
void Layer::load_mxfp4(std::mt19937_64& random, moert_piece_t piece, int64_t rows,
                       int64_t cols) const {
  std::vector<unsigned char> codes(static_cast<size_t>(rows * cols / 2));
  std::vector<unsigned char> scales(static_cast<size_t>(rows * cols / 32));
  for (unsigned char& code : codes) code = static_cast<unsigned char>(random());
  for (unsigned char& scale : scales) scale = static_cast<unsigned char>(121 + random() % 5);
  const bool transposed = piece.expert % 3 == 1;
  TensorView scale(static_cast<const void*>(scales.data()), MOERT_DTYPE_F8_E8M0, {rows, cols / 32});
  TensorView weight(codes.data(), MOERT_DTYPE_F4_E2M1, {rows, cols},
                    piece.expert % 3 == 2 ? uint32_t{MOERT_TENSOR_HIGH_NIBBLE_FIRST} : 0u);
  if (transposed) {
    weight.set_stride(0, 1, codes.size());
    weight.set_stride(1, rows, codes.size());
    scale.set_stride(0, 1, scales.size());
    scale.set_stride(1, rows, scales.size());
  }
  load_coded(piece, weight, scale);
}

// Any codes but those that are NaN in e4m3fn, now and then in rows of a transposed matrix.
void Layer::load_bytes(std::mt19937_64& random, moert_piece_t piece, int64_t rows,
                       int64_t cols) const {
  moert_quant_param_t params[4]{};
  uint32_t count = 0;
  moert_error_t error = no_error();
  expect(quant_->parameters(quant_self_, rows, cols, params, 4, &count, &error), error);
  const moert_quant_param_t& scales_as = params[1];
  const int64_t n_scales = scales_as.shape[0] * scales_as.shape[1];
  std::vector<unsigned char> codes(static_cast<size_t>(rows * cols));
  for (unsigned char& code : codes)
    while (((code = static_cast<unsigned char>(random())) & 127) == 127) continue;
  std::vector<unsigned char> bytes(dtype_bytes(scales_as.dtype, n_scales));
  const TensorView flat(bytes.data(), scales_as.dtype, {n_scales});
  for (int64_t i = 0; i < n_scales; ++i) {
    if (scales_as.dtype == MOERT_DTYPE_F8_E8M0)
      bytes[static_cast<size_t>(i)] = static_cast<unsigned char>(114 + random() % 5);
    else
      write_f32(*flat.get(), i, static_cast<float>(random() % 1000 + 50) * 0x1p-20f);
  }
  TensorView weight(codes.data(), params[0].dtype, {rows, cols});
  if (piece.expert % 3 == 1) {
    weight.set_stride(0, 1, codes.size());
    weight.set_stride(1, rows, codes.size());
  }
  load_coded(piece, weight,
             TensorView(static_cast<const void*>(bytes.data()), scales_as.dtype,
                        {scales_as.shape[0], scales_as.shape[1]}));
}

void Layer::load_coded(moert_piece_t piece, TensorView& weight, const TensorView& scale) const {
  moert_quant_view_t view{};
  view.struct_size = sizeof view;
  view.scheme = case_.scheme;
  view.layout = "canonical";
  view.scale = scale;
  if (std::string(case_.act_scheme) != "none") view.flags = MOERT_QUANT_ROWS;
  // Gate and up of every third expert share one; the middle is smaller than a row.
  const int64_t part = piece.expert % 3 == 0 && piece.part == MOERT_PART_UP ? 0 : piece.part;
  const float step = 0x1p-8f * static_cast<float>(1 + piece.expert % 4 + part);
  const TensorView input_scale(static_cast<const void*>(&step), MOERT_DTYPE_F32, {});
  if (std::string(case_.act_scheme) == "static") view.input_scale = input_scale;
  const float second = 0.375f + static_cast<float>(piece.expert);
  const TensorView second_scale(static_cast<const void*>(&second), MOERT_DTYPE_F32, {});
  if (std::string(case_.global) != "none") view.scale2 = second_scale;
  weight.set_quant(&view);
  piece.tensor = weight;
  piece.quant = quant_;
  piece.quant_self = quant_self_;
  put(piece);
}

void Layer::load(std::mt19937_64& random, Weights weights, int64_t expert, uint32_t part,
                 uint32_t role) const {
  const bool down = part == MOERT_PART_DOWN;
  const bool weight = role == MOERT_ROLE_WEIGHT;
  const int64_t rows = down ? case_.sizes.hidden : case_.sizes.intermediate;
  const int64_t cols = down ? case_.sizes.intermediate : case_.sizes.hidden;
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  piece.expert = expert;
  piece.part = part;
  piece.role = role;
  if (weight && std::string(case_.scheme) == kMxfp4) return load_mxfp4(random, piece, rows, cols);
  if (weight && quant_ != nullptr) return load_bytes(random, piece, rows, cols);
  const uint32_t dtype = weight ? dtype_from_name(case_.scheme) : uint32_t{MOERT_DTYPE_F32};
  const double scale = weight ? 4.0 / std::sqrt(static_cast<double>(cols)) : 0.5;
  auto bytes = random_numbers(random, dtype, weight ? rows * cols : rows, scale);
  if (weights == Weights::ones) {
    const TensorView all(bytes.data(), dtype, {rows * cols});
    for (int64_t i = 0; weight && i < rows * cols; ++i) write_f32(*all.get(), i, 1.0f);
  }
  const void* data = bytes.data();
  const TensorView view =
      weight ? TensorView(data, dtype, {rows, cols}) : TensorView(data, dtype, {rows});
  piece.tensor = view;
  piece.quant = &conformance::plain_quant();
  put(piece);
}

std::vector<unsigned char> Layer::forward(const Batch& batch, int64_t gap) const {
  const int64_t h = case_.sizes.hidden;
  const int64_t k = case_.sizes.top_k;
  const int64_t step = gap + 1;
  moert_error_t error = no_error();
  uint64_t bytes = 0;
  expect(table_.workspace(self_, batch.tokens, &bytes, &error), error);
  // Memory of before must not matter: it is full of NaN.
  std::vector<unsigned char> memory(bytes + 64, 0xff);
  unsigned char* workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  const size_t in_size = dtype_bytes(case_.rows, 1);
  const size_t out_size = dtype_bytes(case_.out, 1);
  std::vector<unsigned char> in(batch.hidden.size() * static_cast<size_t>(step), 0xff);
  for (size_t i = 0; i < batch.hidden.size() / in_size; ++i)
    std::memcpy(&in[i * in_size * static_cast<size_t>(step)], &batch.hidden[i * in_size], in_size);
  std::vector<unsigned char> out(static_cast<size_t>(batch.tokens * h * step) * out_size, 0xff);
  TensorView hidden(in.data(), case_.rows, {batch.tokens, h * step});
  TensorView result(out.data(), case_.out, {batch.tokens, h * step});
  const int64_t shape[] = {batch.tokens, h};
  moert_tensor_t hidden_view = *hidden.get();
  moert_tensor_t out_view = *result.get();
  const int64_t strides[] = {h * step, step};
  for (moert_tensor_t* view : {&hidden_view, &out_view}) {
    view->shape = shape;
    view->strides = strides;
  }
  const TensorView ids(static_cast<const void*>(batch.ids.data()), MOERT_DTYPE_I32,
                       {batch.tokens, k});
  const TensorView weights(static_cast<const void*>(batch.weights.data()), MOERT_DTYPE_F32,
                           {batch.tokens, k});
  moert_experts_args_t args{};
  args.struct_size = sizeof args;
  args.hidden = &hidden_view;
  args.ids = ids;
  args.weights = weights;
  args.out = &out_view;
  args.workspace = workspace;
  args.workspace_bytes = bytes;
  expect(table_.forward(self_, &args, &error), error);
  std::vector<unsigned char> dense(static_cast<size_t>(batch.tokens * h) * out_size);
  for (size_t i = 0; i < dense.size() / out_size; ++i)
    std::memcpy(&dense[i * out_size], &out[i * out_size * static_cast<size_t>(step)], out_size);
  return dense;
}

std::vector<double> Layer::numbers(const Batch& batch) const {
  const std::vector<unsigned char> bytes = forward(batch);
  std::vector<double> numbers(bytes.size() / dtype_bytes(case_.out, 1));
  const void* data = bytes.data();
  const TensorView view(data, case_.out, {static_cast<int64_t>(numbers.size())});
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<double>(read_f32(*view.get(), static_cast<int64_t>(i)));
  return numbers;
}

}  // namespace moert::cpu::testing
