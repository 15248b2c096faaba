// cpu.ref of moert.router/1: logits in f64, the rule of routing.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "scratch.hpp"

namespace moert::cpu {
namespace {

std::string refusal(const moert_routing_t& r) {
  if (r.device.kind != MOERT_DEVICE_CPU) return "the layer's device is not the cpu";
  if (!is_float(r.activation_dtype))
    return "hidden rows of type " + std::string(dtype_name(r.activation_dtype)) +
           ", only f32, bf16, f16, f64";
  if (r.hidden_size < 1) return "hidden_size " + std::to_string(r.hidden_size) + ": at least 1";
  if (r.max_tokens < 0) return "max_tokens " + std::to_string(r.max_tokens) + " is negative";
  int64_t size = 0;
  if (std::string reason = Routing::refusal(r); !reason.empty()) return reason;
  if (!product({r.num_experts, r.hidden_size, 8}, &size) ||
      !product({r.max_tokens, std::max(r.num_experts, r.hidden_size), 8}, &size))
    return "the sizes do not fit 64 bits";
  return {};
}

moert_routing_t accepted(const moert_routing_t& routing) {
  if (const std::string reason = refusal(routing); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return routing;
}

struct Tensor {
  const char* name;
  uint32_t needed_by;  // flag of the rule; 0: always needed
};
constexpr Tensor kTensors[] = {{"gate weight", 0},
                               {"gate bias", MOERT_ROUTING_GATE_BIAS},
                               {"selection bias", MOERT_ROUTING_SELECTION_BIAS}};

bool needed(uint32_t which, uint32_t flags) {
  return kTensors[which].needed_by == 0 || (flags & kTensors[which].needed_by) != 0;
}

}  // namespace

Support RefRouter::supports(const Host&, const moert_routing_t& routing) {
  if (const std::string reason = refusal(routing); !reason.empty()) return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC);
  answer.persistent_bytes = static_cast<uint64_t>(routing.num_experts) *
                            static_cast<uint64_t>(routing.hidden_size) * sizeof(double);
  return answer;
}

RefRouter::RefRouter(const Host& host, const moert_routing_t& routing, const Options& options)
    : host_(host),
      rule_(accepted(routing)),
      flags_(routing.flags),
      activation_dtype_(routing.activation_dtype),
      hidden_size_(routing.hidden_size),
      max_tokens_(routing.max_tokens) {
  options.allow({});
}

void RefRouter::load(uint32_t which, const moert_tensor_t& tensor) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  if (which >= std::size(kTensors) || !needed(which, flags_))
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "tensor " + std::to_string(which) + " is not used by this rule of routing");
  const char* name = kTensors[which].name;
  if ((loaded_ & (1u << which)) != 0)
    throw PluginError(MOERT_ALREADY_EXISTS, "the " + std::string(name) + " was loaded before");
  const int64_t experts = rule_.num_experts();
  if (which == MOERT_ROUTER_SELECTION_BIAS) {
    // f64 is refused: f32 could not keep it as it is.
    const Matrix bias = matrix(&tensor, name, {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16},
                               1, experts, MOERT_DATA_LOSS);
    std::vector<float> values(static_cast<size_t>(experts));
    for (int64_t e = 0; e < experts; ++e) {
      values[static_cast<size_t>(e)] = static_cast<float>(bias.number(0, e));
      if (std::isnan(values[static_cast<size_t>(e)]))
        throw PluginError(MOERT_DATA_LOSS, "selection bias [" + std::to_string(e) + "] is NaN");
    }
    rule_.set_bias(std::move(values));
  } else {
    const bool weight = which == MOERT_ROUTER_GATE_WEIGHT;
    const int64_t rows = weight ? experts : 1;
    const int64_t cols = weight ? hidden_size_ : experts;
    const Matrix source = matrix(&tensor, name, kFloats, rows, cols, MOERT_DATA_LOSS);
    std::vector<double> values(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        values[static_cast<size_t>(r * cols + c)] = source.number(r, c);
    (weight ? gate_ : gate_bias_) = std::move(values);
  }
  loaded_ |= 1u << which;
}

void RefRouter::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  for (uint32_t which = 0; which < std::size(kTensors); ++which)
    if (needed(which, flags_) && (loaded_ & (1u << which)) == 0)
      throw PluginError(MOERT_FAILED_PRECONDITION,
                        "the " + std::string(kTensors[which].name) + " was never loaded");
  finished_ = true;
}

uint64_t RefRouter::workspace(int64_t tokens) {
  // `logits` needs a row of hidden, `route` the rule's scratch, a row of logits and k weights.
  return Scratch::bytes(host_, tokens,
                        {hidden_size_, rule_.scratch(), rule_.num_experts(), rule_.top_k()});
}

void RefRouter::expect_finished() const {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "a call before finish");
}

void RefRouter::expect_tokens(int64_t tokens) const {
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
}

void RefRouter::logits(const moert_router_args_t& args) {
  expect_finished();
  must_understand(args.flags, 0, "arguments of logits");
  const Matrix hidden = matrix(args.hidden, "hidden", {activation_dtype_}, -1, hidden_size_);
  const int64_t tokens = hidden.rows();
  const int64_t experts = rule_.num_experts();
  expect_tokens(tokens);
  const Matrix out = matrix(args.logits, "logits", {MOERT_DTYPE_F32}, tokens, experts);
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(tokens));
  const Scratch scratch(args.workspace, {hidden_size_, rule_.scratch(), experts, rule_.top_k()});
  host_.parallel_for(tokens, 1, [&](int64_t begin, int64_t end, int32_t worker) {
    double* x = scratch.of(worker);
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t c = 0; c < hidden_size_; ++c) x[c] = hidden.number(t, c);
      for (int64_t e = 0; e < experts; ++e) {
        const double* gate = gate_.data() + e * hidden_size_;
        double sum = 0;
        for (int64_t c = 0; c < hidden_size_; ++c) sum += gate[c] * x[c];
        if (!gate_bias_.empty()) sum += gate_bias_[static_cast<size_t>(e)];
        out.set(t, e, sum);
      }
    }
  });
}

struct RefRouter::Rows {
  Matrix logits, ids, weights;
  std::optional<Matrix> margins, forced;
};

RefRouter::Rows RefRouter::check_route(const moert_router_args_t& args) {
  expect_finished();
  must_understand(args.flags, 0, "arguments of route");
  const int64_t k = rule_.top_k();
  Rows rows{
      matrix(args.logits, "logits", {MOERT_DTYPE_F32}, -1, rule_.num_experts()), {}, {}, {}, {}};
  const int64_t tokens = rows.logits.rows();
  expect_tokens(tokens);
  rows.ids = matrix(args.ids, "ids", {MOERT_DTYPE_I32}, tokens, k);
  rows.weights = matrix(args.weights, "weights", {MOERT_DTYPE_F32}, tokens, k);
  if (args.margins != nullptr)
    rows.margins = matrix(args.margins, "margins", {MOERT_DTYPE_F32}, 1, tokens);
  if (args.forced_ids != nullptr)
    rows.forced = matrix(args.forced_ids, "forced ids", {MOERT_DTYPE_I32}, tokens, k);
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(tokens));
  for (int64_t t = 0; t < tokens; ++t) forced(rows, t);
  return rows;
}

bool RefRouter::forced(const Rows& rows, int64_t t) const {
  if (!rows.forced) return false;
  const int64_t k = rule_.top_k();
  int64_t absent = 0;
  for (int64_t j = 0; j < k; ++j) absent += rows.forced->integer(t, j) == -1 ? 1 : 0;
  if (absent == k) return false;
  for (int64_t j = 0; j < k; ++j) {
    const int32_t id = rows.forced->integer(t, j);
    bool repeated = false;
    for (int64_t i = 0; i < j; ++i) repeated |= rows.forced->integer(t, i) == id;
    if (id < 0 || id >= rule_.num_experts() || repeated)
      throw PluginError(MOERT_INVALID_ARGUMENT,
                        "forced ids[" + std::to_string(t) + ", " + std::to_string(j) + "] is " +
                            std::to_string(id) + (repeated ? " again" : "") +
                            ", expected distinct experts below " +
                            std::to_string(rule_.num_experts()) + ", or -1 in the whole row");
  }
  return true;
}

void RefRouter::route_row(const Rows& rows, int64_t t, double* scratch) const {
  const int64_t k = rule_.top_k();
  const int64_t experts = rule_.num_experts();
  double* weights = scratch + rule_.scratch();
  auto* logits = reinterpret_cast<float*>(weights + k);
  auto* ids = reinterpret_cast<int32_t*>(logits + experts);  // the two together fill E + k doubles
  for (int64_t e = 0; e < experts; ++e) logits[e] = static_cast<float>(rows.logits.number(t, e));
  Routing::Row row = {ids, weights, 0};
  if (forced(rows, t)) {
    for (int64_t j = 0; j < k; ++j) ids[j] = rows.forced->integer(t, j);
    rule_.weigh(logits, scratch, row);
  } else {
    rule_.route(logits, scratch, row);
  }
  for (int64_t j = 0; j < k; ++j) {
    rows.ids.set_integer(t, j, ids[j]);
    rows.weights.set(t, j, weights[j]);
  }
  if (rows.margins) rows.margins->set(0, t, row.margin);
}

void RefRouter::route(const moert_router_args_t& args) {
  const Rows rows = check_route(args);
  const Scratch scratch(args.workspace,
                        {hidden_size_, rule_.scratch(), rule_.num_experts(), rule_.top_k()});
  host_.parallel_for(rows.logits.rows(), 1, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t t = begin; t < end; ++t) route_row(rows, t, scratch.of(worker));
  });
}

}  // namespace moert::cpu
