// quant_method: what remains of activations. Scales are computed from their formulas in f64 and rounded to f32,
// as a stored scale would be; what remains must be a code x scale, of the code nearest to the number.
// SPDX-License-Identifier: Apache-2.0
#include "quant_activations.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "fp8_weight.hpp"
#include "numbers.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

constexpr int64_t kTokens = 8, kCols = 200;  // a part of a group of 16, 32 and 128 at the end
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kInputScale = 0.01f;

// Magnitudes of codes in their order.
using Grid = std::vector<double>;

Grid floats(const std::string& scheme) {
  const Fp8Format f = format_of(scheme);
  Grid grid;
  for (uint32_t code = 0; code < 128 && std::isfinite(f.value(code)); ++code)
    grid.push_back(f.value(code));
  return grid;
}
Grid e4m3fn() { return floats("fp8_e4m3fn.tensor.f32"); }
Grid e2m1() { return {0, 0.5, 1, 1.5, 2, 3, 4, 6}; }
Grid integers() {
  Grid grid;
  for (int i = 0; i <= 127; ++i) grid.push_back(i);
  return grid;
}

double nearest(const Grid& grid, double magnitude) {
  magnitude = std::min(magnitude, grid.back());
  size_t best = 0;
  for (size_t i = 1; i < grid.size(); ++i) {
    const double near = std::fabs(grid[best] - magnitude), away = std::fabs(grid[i] - magnitude);
    if (away < near || (away == near && i % 2 == 0)) best = i;
  }
  return grid[best];
}

float f32(double value) {
  return static_cast<float>(std::clamp(value, -double{kMax}, double{kMax}));
}

// The least power of two that is not below.
double power_above(double value) {
  const double below = std::ldexp(1.0, std::ilogb(value));
  return below < value ? 2 * below : below;
}

// A code stands for `unit`, and numbers are divided by `step`, which is that rounded to f32. 0: zeros remain.
struct Scale {
  double unit, step;
};
Scale by(double scale) { return {double{f32(scale)}, double{f32(scale)}}; }

struct Way {
  Options options;
  int64_t group;
  Grid grid;
  std::function<Scale(double amax)> scale;
  const float* input_scale = nullptr;
};

std::vector<float> rows_to_quantise(const std::string& name) {
  std::vector<float> rows(kTokens * kCols);
  Random random(name);
  constexpr double kSize[kTokens] = {4, 0, 1, 1e-6, 1e30, 448, 1e-39, 1};
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<float>(kSize[i / kCols] * random.uniform());
  float* odd = rows.data();
  odd[5] = HUGE_VALF, odd[6] = kNan, odd[7] = -HUGE_VALF;
  rows[kCols + 3] = -0.0f;
  for (size_t c = 0; c < kCols; ++c) rows[2 * kCols + c] *= std::ldexp(1.0f, int(c % 40) - 20);
  rows[4 * kCols] = kMax;
  // Halfway between two codes if the scale is a power of two, and beyond the largest.
  const float ties[] = {500, 17, -19, 21, 27, 34, 38, 0x1p-10f, 0x3p-10f, -464, 448, 2.5f, -5};
  std::copy(std::begin(ties), std::end(ties), &rows[5 * kCols]);
  for (size_t c = 0; c < 32; ++c) rows[7 * kCols + c] = c % 2 == 0 ? kNan : 0.0f;
  return rows;
}

void expect_remains(float got, float from, const Scale& scale, const Grid& grid,
                    const std::string& where) {
  if (!std::isfinite(from)) {
    EXPECT_TRUE(std::isnan(from) ? std::isnan(got) : got == from)
        << where << ": " << from << " became " << got;
    return;
  }
  if (scale.step == 0) {
    EXPECT_EQ(got, 0.0f) << where << ": " << from;
    return;
  }
  const double ratio = std::fabs(double{from}) / scale.step;
  const double want = nearest(grid, ratio);
  // The quotient is rounded to f32: what is that near a tie may fall to either side.
  const double near = nearest(grid, ratio * (1 - 0x1p-23)),
               far = nearest(grid, ratio * (1 + 0x1p-23));
  const auto number = [&](double code) { return f32(std::copysign(code * scale.unit, from)); };
  EXPECT_TRUE(got == number(want) || got == number(near) || got == number(far))
      << where << ": " << from << " became " << got << ", want " << number(want);
}

void quantise(const ScaledFormat& method, const Way& way) {
  const Optioned object(method, way.options);
  const ScaledFormat format = object.format();
  if (method.table.quantize_activations == nullptr) throw Skip{"activations are left alone"};
  std::vector<float> rows = rows_to_quantise(way.options.front().second);
  const std::vector<float> before = rows;
  const TensorView scalar(static_cast<const void*>(way.input_scale), MOERT_DTYPE_F32, {});
  must("quantize_activations", [&](auto* e) {
    return format.table.quantize_activations(format.self, rows.data(), kTokens, kCols,
                                             way.input_scale != nullptr ? scalar.get() : nullptr,
                                             e);
  });
  for (int64_t first = 0; first < kTokens * kCols;) {
    const int64_t count = std::min(way.group == 0 ? kCols : way.group, kCols - first % kCols);
    double amax = 0;
    for (int64_t i = first; i < first + count; ++i)
      if (const double x = before[static_cast<size_t>(i)]; std::isfinite(x))
        amax = std::max(amax, std::fabs(x));
    const Scale scale = way.scale(amax);
    for (int64_t i = first; i < first + count; ++i)
      expect_remains(rows[static_cast<size_t>(i)], before[static_cast<size_t>(i)], scale, way.grid,
                     "row " + std::to_string(i / kCols) + ", column " + std::to_string(i % kCols));
    first += count;
  }
  must("no rows", [&](auto* e) {
    return format.table.quantize_activations(
        format.self, nullptr, 0, kCols, way.input_scale != nullptr ? scalar.get() : nullptr, e);
  });
  must_fail("fewer rows than none", {MOERT_INVALID_ARGUMENT}, [&](auto* e) {
    return format.table.quantize_activations(format.self, rows.data(), -1, kCols, scalar, e);
  });
}

// What rows become: the weight's own element, or beside FP4 e4m3fn.
std::string element_of(const std::string& scheme) {
  return scheme.rfind("fp8_", 0) == 0 ? scheme : "fp8_e4m3fn.tensor.f32";
}
double largest(const std::string& scheme) { return format_of(element_of(scheme)).largest(); }

void none(const ScaledFormat& method) {
  std::vector<float> rows = rows_to_quantise("none");
  const Bytes before = bytes_of(rows);
  if (method.table.quantize_activations == nullptr) throw Skip{"activations are left alone"};
  must("quantize_activations", [&](auto* e) {
    return method.table.quantize_activations(method.self, rows.data(), kTokens, kCols, nullptr, e);
  });
  EXPECT_EQ(bytes_of(rows), before) << "activations are left alone unless an option says how";
  must_not_take(method, "activations", "no_such_way");
  must_not_take(method, "activations", "");
}

void fp8_static(const ScaledFormat& method) {
  quantise(method, {{{"activations", "static"}},
                    0,
                    floats(method.scheme),
                    [](double) { return by(double{kInputScale}); },
                    &kInputScale});
}
void fp8_token(const ScaledFormat& method) {
  const double top = largest(method.scheme);
  quantise(method, {{{"activations", "token"}}, 0, floats(method.scheme), [top](double amax) {
                      return by(std::max(amax / top, 1 / (512 * top)));
                    }});
}
void by_group128(const ScaledFormat& method) {
  const double top = largest(method.scheme);
  quantise(method, {{{"activations", "group128"}},
                    128,
                    floats(element_of(method.scheme)),
                    [top](double amax) { return by(std::max(amax, double{1e-4f}) / top); }});
}
void by_group48(const ScaledFormat& method) {
  const double top = largest(method.scheme);
  quantise(method, {{{"activations", "group48"}},
                    48,
                    floats(element_of(method.scheme)),
                    [top](double amax) { return by(std::max(amax, double{1e-4f}) / top); }});
}
void by_group128_ue8m0(const ScaledFormat& method) {
  const double top = largest(method.scheme);
  quantise(method, {{{"activations", "group128_ue8m0"}},
                    128,
                    floats(element_of(method.scheme)),
                    [top](double amax) { return by(power_above(std::max(amax, 1e-4) / top)); }});
}
void mxfp8(const ScaledFormat& method) {
  quantise(method, {{{"activations", "mxfp8"}}, 32, e4m3fn(), [](double amax) {
                      return amax == 0 ? by(0)
                                       : by(std::ldexp(1.0, std::max(std::ilogb(amax) - 8, -127)));
                    }});
}
void fp8_of_fp4(const ScaledFormat& method) {
  quantise(method, {{{"activations", "fp8"}}, 0, e4m3fn(), [](double amax) {
                      return by(std::max(amax / 448, 1.0 / (512 * 448)));
                    }});
}
void nvfp4_by(const ScaledFormat& method, const char* global, const float* given, float used) {
  quantise(method, {{{"activations", "nvfp4"}, {"global", global}},
                    16,
                    e2m1(),
                    [used](double amax) {
                      const double block = nearest(e4m3fn(), amax / 6 / double{used});
                      return Scale{block * double{used}, double{f32(block * double{used})}};
                    },
                    given});
}
void nvfp4(const ScaledFormat& method) {
  static const float scale = static_cast<float>(4.0 / (6 * 448)), reciprocal = 448.0f * 6 / 4;
  nvfp4_by(method, "multiply", &scale, scale);
  nvfp4_by(method, "divide", &reciprocal, 1 / reciprocal);
}
void int8_static(const ScaledFormat& method) {
  quantise(method, {{{"activations", "static"}},
                    0,
                    integers(),
                    [](double) { return by(double{kInputScale}); },
                    &kInputScale});
}
void int8_token(const ScaledFormat& method) {
  quantise(method,
           {{{"activations", "token"}}, 0, integers(), [](double amax) { return by(amax / 127); }});
}

}  // namespace

const FormatTests& fp8_activations() {
  static const FormatTests tests = {{"ActivationsNone", none},
                                    {"ActivationsStatic", fp8_static},
                                    {"ActivationsToken", fp8_token},
                                    {"ActivationsGroup48", by_group48},
                                    {"ActivationsGroup128", by_group128},
                                    {"ActivationsGroup128Ue8m0", by_group128_ue8m0},
                                    {"ActivationsMxfp8", mxfp8}};
  return tests;
}
const FormatTests& mxfp4_activations() {
  static const FormatTests tests = {{"ActivationsNone", none},
                                    {"ActivationsMxfp8", mxfp8},
                                    {"ActivationsFp8", fp8_of_fp4},
                                    {"ActivationsGroup48", by_group48},
                                    {"ActivationsGroup128", by_group128},
                                    {"ActivationsGroup128Ue8m0", by_group128_ue8m0}};
  return tests;
}
const FormatTests& nvfp4_activations() {
  static const FormatTests tests = {{"ActivationsNone", none}, {"ActivationsNvfp4", nvfp4}};
  return tests;
}
const FormatTests& int8_activations() {
  static const FormatTests tests = {{"ActivationsNone", none},
                                    {"ActivationsStatic", int8_static},
                                    {"ActivationsToken", int8_token}};
  return tests;
}

}  // namespace moert::conformance
