// cpu.ref of moert.routed_experts/1: the oracle. Plain loops, f64, one rounding at the end.
// SPDX-License-Identifier: Apache-2.0
#include "experts.hpp"

#include <moert/sdk/tensor.hpp>

#include "scratch.hpp"

namespace moert::cpu {
namespace {

moert_moe_problem_t accepted(const moert_moe_problem_t& problem) {
  if (const std::string reason = experts_refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return problem;
}

}  // namespace

Support RefExperts::supports(const Host&, const moert_moe_problem_t& problem) {
  if (const std::string reason = experts_refusal(problem); !reason.empty())
    return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_CONCURRENT_LOAD);
  int64_t floats = 0;
  shape_of(problem).count(&floats);
  answer.persistent_bytes = static_cast<uint64_t>(floats) * sizeof(float) *
                            static_cast<uint64_t>(problem.num_local_experts);
  return answer;
}

RefExperts::RefExperts(const Host& host, const moert_moe_problem_t& problem, const Options& options)
    : host_(host),
      limits_(accepted(problem)),
      weight_on_input_((problem.flags & MOERT_PROBLEM_WEIGHT_ON_INPUT) != 0),
      activation_(intake(problem.activation)),
      weights_(host, shape_of(problem), problem.num_local_experts) {
  options.allow({});
}

void RefExperts::load(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  weights_.load(piece);
}

void RefExperts::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  weights_.expect_complete();
  finished_ = true;
}

uint64_t RefExperts::workspace(int64_t tokens) {
  const int64_t h = weights_.shape().hidden;
  return Scratch::bytes(host_, tokens, {h, h, h, weights_.scratch()});
}

ExpertsRows RefExperts::check(const moert_experts_args_t& args) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  const ExpertsRows rows = expect_rows(args, limits_);
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(rows.tokens()));
  return rows;
}

void RefExperts::token(const ExpertsRows& rows, int64_t t, double* scratch) const {
  const int64_t h = weights_.shape().hidden;
  double* x = scratch;
  double* scaled = x + h;
  double* sum = scaled + h;
  double* spare = sum + h;
  for (int64_t c = 0; c < h; ++c) {
    x[c] = rows.hidden.number(t, c);
    sum[c] = 0;
  }
  for (int64_t j = 0; j < limits_.top_k; ++j) {
    const int32_t id = rows.ids.integer(t, j);
    if (id < 0) continue;  // not "times zero": 0 * inf would be NaN
    const double weight = rows.weights.number(t, j);
    if (weight_on_input_)
      for (int64_t c = 0; c < h; ++c) scaled[c] = weight * x[c];
    const double factor = weight_on_input_ ? 1.0 : weight;
    weights_.row(id, activation_, weight_on_input_ ? scaled : x, spare,
                 [&](int64_t c, double y) { sum[c] += factor * y; });
  }
  for (int64_t c = 0; c < h; ++c) rows.out.set(t, c, sum[c]);
}

void RefExperts::forward(const moert_experts_args_t& args) {
  const ExpertsRows rows = check(args);
  const int64_t h = weights_.shape().hidden;
  const Scratch scratch(args.workspace, {h, h, h, weights_.scratch()});
  host_.parallel_for(rows.hidden.rows(), 1, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t t = begin; t < end; ++t) token(rows, t, scratch.of(worker));
  });
}

uint64_t RefExperts::bundle_bytes() { return weights_.bundle_bytes(); }

void RefExperts::expect_bundle(int64_t expert, const void* bundle, uint64_t bytes) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "a bundle before finish");
  cpu::expect_bundle(expert, weights_.count(), bundle, bytes, bundle_bytes());
}

void RefExperts::read_expert(int64_t expert, void* bundle, uint64_t bytes, const moert_stream_t*) {
  expect_bundle(expert, bundle, bytes);
  weights_.read(expert, bundle);
}

void RefExperts::write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                              const moert_stream_t*) {
  expect_bundle(expert, bundle, bytes);
  weights_.write(expert, bundle);
}

}  // namespace moert::cpu
