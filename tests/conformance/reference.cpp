// What a layer's output must be, written down once more from the headers, in f64, with a tolerance
// derived from the numbers themselves.
// SPDX-License-Identifier: Apache-2.0
#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "fp4_weight.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

constexpr double kSlack = 4;           // c of the header
constexpr double kSumError = 0x1p-24;  // of one f32 operation

double activated(const Act& act, bool gated, double g, double u) {
  const std::string_view name(act.name);
  const double limit = act.limit == 0 ? HUGE_VAL : act.limit;
  const double x = gated ? g : u;
  const double factor = gated ? u : 1.0;
  if (name == "gelu") return x * 0.5 * std::erfc(-x / std::sqrt(2.0)) * factor;
  if (name == "gelu_tanh") {
    const double inner = std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3));
    return x / (1.0 + std::exp(-2.0 * inner)) * factor;
  }
  if (name == "relu") return std::max(x, 0.0) * factor;
  if (name == "situ") {
    const double bent = act.alpha > 0 ? act.alpha * std::tanh(factor / act.alpha) : factor;
    return act.beta * std::tanh(x / act.beta) / (1.0 + std::exp(-x)) * bent;
  }
  if (name == "relu2") return std::pow(std::max(x, 0.0), 2) * factor;
  const double clamped = std::max(-limit, std::min(limit, factor));
  if (name == "swiglustep") return std::min(x / (1.0 + std::exp(-x)), limit) * clamped;
  const double low = std::min(x, limit);
  if (name == "swigluoai") return low / (1.0 + std::exp(-act.alpha * low)) * (clamped + act.beta);
  if (name != "silu") stop("the suite does not know activation " + std::string(name));
  return low / (1.0 + std::exp(-low)) * clamped;
}

struct Sum {
  double value = 0, error = 0;
};

Sum product(const double* a, const double* x, int64_t n, double bias, double x_error) {
  Sum sum;
  double size = std::fabs(bias);
  for (int64_t i = 0; i < n; ++i) {
    sum.value += a[i] * x[i];
    size += std::fabs(a[i] * x[i]);
  }
  sum.value += bias;
  sum.error = size * (kSlack * std::sqrt(static_cast<double>(n)) * kSumError + x_error);
  return sum;
}

double at(const Values& values, int64_t index) {
  return values.number.empty() ? 0.0 : values.number[static_cast<size_t>(index)];
}

// The activation's value, and how far it moves when its arguments do.
Sum middle(const Mlp& mlp, const Sum& g, const Sum& u, uint32_t dtype) {
  Sum m;
  m.value = activated(mlp.act, mlp.gated, g.value, u.value);
  for (const double sg : {-1.0, 1.0})
    for (const double su : {-1.0, 1.0})
      m.error = std::max(m.error, std::fabs(activated(mlp.act, mlp.gated, g.value + sg * g.error,
                                                      u.value + su * u.error) -
                                            m.value));
  m.error += std::fabs(m.value) * (2 * roundoff(dtype) + 8 * kSumError) + underflow(dtype);
  return m;
}

Values random_values(Random& random, uint32_t dtype, int64_t count, double scale) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) number = random.uniform() * scale;
  return rounded(dtype, numbers);
}

// Codes at random, two a byte, behind them a scale for each 32: the largest number is near `scale`, or a half or a
// quarter of that, or in every ninth group next to nothing.
Values random_mxfp4(Random& random, int64_t count, double scale) {
  constexpr int64_t kGroup = 32;
  const int largest = 127 + static_cast<int>(std::floor(std::log2(scale / 6)));
  Values values;
  Bytes scales;
  for (int64_t i = 0; i < count; ++i) {
    if (i % kGroup == 0)
      scales.push_back(i / kGroup % 9 == 4 ? static_cast<unsigned char>(0)
                                           : static_cast<unsigned char>(largest - random.below(3)));
    const auto code = static_cast<uint32_t>(random.below(16));
    if (i % 2 == 0) values.bytes.push_back(0);
    values.bytes.back() |= static_cast<unsigned char>(code << (i % 2 * 4));
    values.number.push_back(std::ldexp(e2m1_value(code), scales.back() - 127));
  }
  values.bytes.insert(values.bytes.end(), scales.begin(), scales.end());
  return values;
}

}  // namespace

Mlp make_mlp(Random& random, int64_t h, int64_t i, bool gated, bool biased, const Act& act,
             uint32_t weight_dtype) {
  Mlp mlp;
  mlp.h = h;
  mlp.i = i;
  mlp.gated = gated;
  mlp.act = act;
  // Wide enough that sums reach the bent parts and the clamps of the activations.
  const double in = 6.0 / std::sqrt(static_cast<double>(h));
  const double out = 2.0 / std::sqrt(static_cast<double>(i));
  const auto weights = [&](double scale) {
    return weight_dtype == MOERT_DTYPE_F4_E2M1 ? random_mxfp4(random, i * h, scale)
                                               : random_values(random, weight_dtype, i * h, scale);
  };
  if (gated) mlp.gate = weights(in);
  mlp.up = weights(in);
  mlp.down = weights(out);
  if (!biased) return mlp;
  if (gated) mlp.gate_bias = random_values(random, MOERT_DTYPE_F32, i, 1);
  mlp.up_bias = random_values(random, MOERT_DTYPE_F32, i, 1);
  mlp.down_bias = random_values(random, MOERT_DTYPE_F32, h, 1);
  return mlp;
}

Expected mlp_row(const Mlp& mlp, const double* x, double x_error, uint32_t dtype) {
  std::vector<double> mid;
  std::vector<double> mid_error;
  for (int64_t i = 0; i < mlp.i; ++i) {
    const auto row = static_cast<size_t>(i * mlp.h);
    const Sum u = product(&mlp.up.number[row], x, mlp.h, at(mlp.up_bias, i), x_error);
    Sum g;
    if (mlp.gated) g = product(&mlp.gate.number[row], x, mlp.h, at(mlp.gate_bias, i), x_error);
    const Sum m = middle(mlp, g, u, dtype);
    mid.push_back(m.value);
    mid_error.push_back(m.error);
  }
  Expected y;
  for (int64_t h = 0; h < mlp.h; ++h) {
    const double* down = &mlp.down.number[static_cast<size_t>(h * mlp.i)];
    const Sum sum = product(down, mid.data(), mlp.i, at(mlp.down_bias, h), 0);
    double error = sum.error;
    for (int64_t i = 0; i < mlp.i; ++i)
      error += std::fabs(down[i]) * mid_error[static_cast<size_t>(i)];
    y.value.push_back(sum.value);
    y.tolerance.push_back(error);
  }
  return y;
}

void add_rounding(Expected& row, uint32_t dtype) {
  for (size_t c = 0; c < row.value.size(); ++c)
    row.tolerance[c] += std::fabs(row.value[c]) * roundoff(dtype) * 1.0001 + underflow(dtype) +
                        row.tolerance[c] * 0.01;
}

}  // namespace moert::conformance
