// SPDX-License-Identifier: Apache-2.0
#include "runtime/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moert::runtime {

namespace {

double unit_roundoff(uint32_t dtype) {
  switch (dtype) {
    case MOERT_DTYPE_BF16: return 0x1p-8;
    case MOERT_DTYPE_F16: return 0x1p-11;
    default: return 0x1p-24;
  }
}

std::string ids_text(const int32_t* ids, int64_t k) {
  std::string text = "[";
  for (int64_t j = 0; j < k; ++j) text += (j != 0 ? ", " : "") + std::to_string(ids[j]);
  return text + "]";
}

// Slots of a row in order of expert, so that rows are compared as sets.
std::vector<int64_t> by_expert(const int32_t* ids, int64_t k) {
  std::vector<int64_t> order(static_cast<size_t>(k));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [ids](int64_t a, int64_t b) { return ids[a] < ids[b]; });
  return order;
}

// true if `error` is worse than the worst so far; NaN is worse than everything.
bool is_worse(double error, const Worst& worst) {
  return worst.token < 0 || (!std::isnan(worst.error) && !(error <= worst.error));
}

void compare_routing_row(const Routing& routing, const Golden& golden, int64_t t,
                         Comparison& result) {
  const int64_t k = routing.top_k;
  const int32_t* got = &routing.ids[static_cast<size_t>(t * k)];
  const int32_t* want = &golden.ids[static_cast<size_t>(t * k)];
  const std::vector<int64_t> got_order = by_expert(got, k), want_order = by_expert(want, k);
  for (int64_t j = 0; j < k; ++j) {
    const int64_t g = got_order[static_cast<size_t>(j)], w = want_order[static_cast<size_t>(j)];
    if (got[g] != want[w]) {
      if (result.wrong_ids++ == 0)
        result.first_wrong_ids = "token " + std::to_string(t) + ": got " + ids_text(got, k) +
                                 ", want " + ids_text(want, k);
      return;
    }
    const double a = routing.weights[static_cast<size_t>(t * k + g)];
    const double b = golden.weights[static_cast<size_t>(t * k + w)];
    if (is_worse(std::fabs(a - b), result.weight))
      result.weight = {t, got[g], a, b, std::fabs(a - b)};
  }
}

void compare_output_row(const float* got, const float* want, int64_t columns, int64_t t,
                        Comparison& result) {
  double difference = 0, norm = 0, largest = -1;
  int64_t at = 0;
  for (int64_t h = 0; h < columns; ++h) {
    const double d = static_cast<double>(got[h]) - static_cast<double>(want[h]);
    difference += d * d;
    norm += static_cast<double>(want[h]) * static_cast<double>(want[h]);
    if (!(std::fabs(d) <= largest) && !std::isnan(largest)) {
      largest = std::fabs(d);
      at = h;
    }
  }
  const double error = difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(norm);
  if (is_worse(error, result.output)) result.output = {t, at, got[at], want[at], error};
}

}  // namespace

double derived_output_tolerance(uint32_t dtype, int64_t top_k) {
  if (dtype == MOERT_DTYPE_F32) return 1e-5;
  return 2 * unit_roundoff(dtype) * std::sqrt(static_cast<double>(top_k) + 6);
}

double derived_weight_tolerance(uint32_t dtype) {
  return dtype == MOERT_DTYPE_F32 ? 1e-5 : 4 * unit_roundoff(dtype);
}

Comparison compare_layer(const Routing& routing, const std::vector<float>& output,
                         int64_t hidden_size, const Golden& golden, double output_tolerance,
                         double weight_tolerance) {
  Comparison result;
  result.tokens = routing.tokens;
  result.output_tolerance = output_tolerance;
  result.weight_tolerance = weight_tolerance;
  for (int64_t t = 0; t < routing.tokens; ++t) {
    compare_routing_row(routing, golden, t, result);
    const auto row = static_cast<size_t>(t * hidden_size);
    compare_output_row(&output[row], &golden.output[row], hidden_size, t, result);
  }
  result.passed = result.wrong_ids == 0 && result.output.error <= output_tolerance &&
                  result.weight.error <= weight_tolerance;
  return result;
}

}  // namespace moert::runtime
