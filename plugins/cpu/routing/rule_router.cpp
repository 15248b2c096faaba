// A router but for its logits: tensors, arguments, and the rule behind the logits.
// SPDX-License-Identifier: Apache-2.0
#include "rule_router.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "scratch.hpp"

namespace moert::cpu {
namespace {

moert_routing_t accepted(const moert_routing_t& routing, const std::string& refusal) {
  if (!refusal.empty()) throw PluginError(MOERT_UNIMPLEMENTED, refusal);
  return routing;
}

// I64 [T] that was checked; elements need not be aligned.
int64_t token_id(const moert_tensor_t& ids, int64_t t) {
  int64_t id = 0;
  std::memcpy(&id, static_cast<const unsigned char*>(ids.data) + t * ids.strides[ids.rank - 1] * 8,
              sizeof id);
  return id;
}

}  // namespace

std::string RuleRouter::refusal(const moert_routing_t& r) {
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

RuleRouter::RuleRouter(const Host& host, const moert_routing_t& routing, const Options& options)
    : host_(host),
      rule_(accepted(routing, refusal(routing))),
      tensors_(routing),
      activation_dtype_(routing.activation_dtype),
      hidden_size_(routing.hidden_size),
      max_tokens_(routing.max_tokens) {
  options.allow({});
}

void RuleRouter::load(uint32_t which, const moert_tensor_t& tensor) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  tensors_.load(which, tensor);
}

void RuleRouter::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  tensors_.expect_complete();
  take_gate(std::move(tensors_.gate));
  rule_.set_bias(std::move(tensors_.selection_bias));
  rule_.set_expert_scale(std::move(tensors_.expert_scale));
  finished_ = true;
}

// `route` needs the rule's scratch, a row of logits and k weights.
uint64_t RuleRouter::workspace(int64_t tokens) {
  return std::max(Scratch::bytes(host_, tokens, {rule_.scratch(), experts(), rule_.top_k()}),
                  logits_workspace(tokens));
}

void RuleRouter::expect_finished() const {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "a call before finish");
}

void RuleRouter::expect_tokens(int64_t tokens) const {
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
}

double RuleRouter::input_factor(const Matrix& hidden, int64_t t) const {
  if (!normed()) return 1.0;
  double squares = 0;
  for (int64_t c = 0; c < hidden_size_; ++c) {
    const double x = hidden.number(t, c);
    squares += x * x;
  }
  const RoutingParams& params = rule_.params();
  return params.input_gain /
         std::sqrt(squares / static_cast<double>(hidden_size_) + params.input_norm_eps);
}

void RuleRouter::read_input(const Matrix& hidden, int64_t t, double factor, int64_t first,
                            int64_t count, double* to) const {
  hidden.numbers(t, first, count, to);
  if (!normed()) return;
  for (int64_t i = 0; i < count; ++i)
    to[i] *= factor * tensors_.input_scale[static_cast<size_t>(first + i)];
}

void RuleRouter::logits(const moert_router_args_t& args) {
  expect_finished();
  must_understand(args.flags, 0, "arguments of logits");
  const Matrix hidden = matrix(args.hidden, "hidden", {activation_dtype_}, -1, hidden_size_);
  const int64_t tokens = hidden.rows();
  expect_tokens(tokens);
  const Matrix out = matrix(args.logits, "logits", {MOERT_DTYPE_F32}, tokens, experts());
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(tokens));
  compute(hidden, out, args.workspace);
}

struct RuleRouter::Rows {
  Matrix logits, ids, weights;
  std::optional<Matrix> margins, forced;
  std::optional<moert_tensor_t> tokens;
};

RuleRouter::Rows RuleRouter::check_route(const moert_router_args_t& args) {
  expect_finished();
  must_understand(args.flags, 0, "arguments of route");
  const int64_t k = rule_.top_k();
  Rows rows{matrix(args.logits, "logits", {MOERT_DTYPE_F32}, -1, rule_.num_experts()),
            {},
            {},
            {},
            {},
            {}};
  const int64_t tokens = rows.logits.rows();
  expect_tokens(tokens);
  rows.ids = matrix(args.ids, "ids", {MOERT_DTYPE_I32}, tokens, k);
  rows.weights = matrix(args.weights, "weights", {MOERT_DTYPE_F32}, tokens, k);
  if (args.margins != nullptr)
    rows.margins = matrix(args.margins, "margins", {MOERT_DTYPE_F32}, 1, tokens);
  if (args.forced_ids != nullptr)
    rows.forced = matrix(args.forced_ids, "forced ids", {MOERT_DTYPE_I32}, tokens, k);
  if (rule_.by_token()) {
    matrix(args.token_ids, "token ids", {MOERT_DTYPE_I64}, 1, tokens);
    rows.tokens = intake(args.token_ids);
  }
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(tokens));
  for (int64_t t = 0; t < tokens; ++t) {
    forced(rows, t);
    check_token(rows, t);
  }
  return rows;
}

void RuleRouter::check_token(const Rows& rows, int64_t t) const {
  if (!rows.tokens) return;
  const int64_t id = token_id(*rows.tokens, t);
  if (id < -1 || id >= tensors_.vocabulary())
    throw PluginError(MOERT_INVALID_ARGUMENT, "token ids[" + std::to_string(t) + "] is " +
                                                  std::to_string(id) + ", expected one below " +
                                                  std::to_string(tensors_.vocabulary()) +
                                                  ", or -1");
}

bool RuleRouter::forced(const Rows& rows, int64_t t) const {
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

RuleRouter::Given RuleRouter::given_ids(const Rows& rows, int64_t t, int32_t* ids) const {
  const int64_t k = rule_.top_k();
  if (forced(rows, t)) {
    for (int64_t j = 0; j < k; ++j) ids[j] = rows.forced->integer(t, j);
    return Given::all;
  }
  if (!rows.tokens) return Given::none;
  const int64_t token = token_id(*rows.tokens, t);
  if (token == -1) return Given::absent;
  std::copy_n(tensors_.token_table.begin() + token * k, k, ids);
  return Given::all;
}

void RuleRouter::route_row(const Rows& rows, int64_t t, double* scratch) const {
  const int64_t k = rule_.top_k();
  const int64_t experts = rule_.num_experts();
  double* weights = scratch + rule_.scratch();
  auto* logits = reinterpret_cast<float*>(weights + k);
  auto* ids = reinterpret_cast<int32_t*>(logits + experts);  // both lie where E + k doubles are
  for (int64_t e = 0; e < experts; ++e) logits[e] = static_cast<float>(rows.logits.number(t, e));
  Routing::Row row = {ids, weights, 0};
  switch (given_ids(rows, t, ids)) {
    case Given::none: rule_.route(logits, scratch, row); break;
    case Given::all: rule_.weigh(logits, scratch, row); break;
    case Given::absent:
      std::fill(ids, ids + k, -1);
      std::fill(weights, weights + k, 0.0);
      row.margin = HUGE_VAL;
      break;
  }
  for (int64_t j = 0; j < k; ++j) {
    rows.ids.set_integer(t, j, ids[j]);
    rows.weights.set(t, j, weights[j]);
  }
  if (rows.margins) rows.margins->set(0, t, row.margin);
}

void RuleRouter::route(const moert_router_args_t& args) {
  const Rows rows = check_route(args);
  const Scratch scratch(args.workspace, {rule_.scratch(), experts(), rule_.top_k()});
  host_.parallel_for(rows.logits.rows(), 1, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t t = begin; t < end; ++t) route_row(rows, t, scratch.of(worker));
  });
}

}  // namespace moert::cpu
