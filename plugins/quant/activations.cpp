// What remains of activations after they were quantised, one function for each way.
// SPDX-License-Identifier: Apache-2.0
#include "activations.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "words.hpp"

namespace moert::quant {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

// Calls back with the first number and the length of each `width` columns of a row.
template <class Body>
void for_groups(const Activations& of, int64_t width, Body body) {
  for (int64_t t = 0; t < of.tokens; ++t)
    for (int64_t c = 0; c < of.cols; c += width)
      body(of.rows + t * of.cols + c, std::min(width, of.cols - c));
}
template <class Body>
void for_rows(const Activations& of, Body body) {
  for_groups(of, std::max<int64_t>(of.cols, 1), body);
}

float amax_of(const float* values, int64_t count) {
  float amax = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(values[i])) amax = std::max(amax, std::fabs(values[i]));
  return amax;
}

// Replaces what is finite.
template <class Remains>
void replace(float* values, int64_t count, Remains remains) {
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(values[i])) values[i] = std::clamp(remains(values[i]), -kLargest, kLargest);
}

float power_not_below(float value) {
  const float power = std::ldexp(1.0f, std::ilogb(value));
  return power < value ? 2 * power : power;
}

void fp8(float* values, int64_t count, const Fp8Element& element, float scale) {
  replace(values, count, [&](float value) {
    const float within = std::clamp(value / scale, -element.largest, element.largest);
    return element.widen(element.narrow(within)) * scale;
  });
}

void int8(float* values, int64_t count, float scale) {
  if (scale == 0) return replace(values, count, [](float) { return 0.0f; });
  replace(values, count, [scale](float value) {
    return std::nearbyint(std::clamp(value / scale, -127.0f, 127.0f)) * scale;
  });
}

}  // namespace

Activations::Activations(float* first, int64_t token_count, int64_t col_count)
    : rows(first), tokens(token_count), cols(col_count) {
  if (tokens < 0 || cols < 0 || (rows == nullptr && tokens > 0 && cols > 0))
    throw PluginError(MOERT_INVALID_ARGUMENT, "activations of " + std::to_string(tokens) + " x " +
                                                  std::to_string(cols) + " elements");
}

void fp8_by_scale(const Activations& of, const Fp8Element& element, float scale) {
  for_rows(of, [&](float* values, int64_t count) { fp8(values, count, element, scale); });
}

void fp8_by_token(const Activations& of, const Fp8Element& element) {
  for_rows(of, [&](float* values, int64_t count) {
    const float least = 1 / (element.largest * 512);
    fp8(values, count, element, std::max(amax_of(values, count) / element.largest, least));
  });
}

std::optional<Fp8Groups> Fp8Groups::parse(std::string_view word) {
  constexpr std::string_view kGroup = "group", kPowers = "_ue8m0";
  if (word.substr(0, kGroup.size()) != kGroup) return std::nullopt;
  word.remove_prefix(kGroup.size());
  Fp8Groups groups;
  if (word.size() > kPowers.size() && word.substr(word.size() - kPowers.size()) == kPowers) {
    groups.powers_of_two = true;
    word.remove_suffix(kPowers.size());
  }
  const std::optional<int64_t> cols = size_word(word);
  if (!cols) return std::nullopt;
  groups.cols = *cols;
  return groups;
}

void fp8_by_group(const Activations& of, const Fp8Element& element, const Fp8Groups& groups) {
  for_groups(of, groups.cols, [&](float* values, int64_t count) {
    const float amax = std::max(amax_of(values, count), 1e-4f);
    const float scale =
        groups.powers_of_two ? power_not_below(amax / element.largest) : amax / element.largest;
    fp8(values, count, element, scale);
  });
}

void mxfp8(const Activations& of) {
  for_groups(of, 32, [&](float* values, int64_t count) {
    const float amax = amax_of(values, count);
    if (amax == 0) return;
    constexpr int kTop = 8;  // exponent of e4m3fn's largest
    fp8(values, count, kE4M3FN, std::ldexp(1.0f, std::max(std::ilogb(amax) - kTop, -127)));
  });
}

void nvfp4(const Activations& of, float scale) {
  for_groups(of, 16, [&](float* values, int64_t count) {
    const float block = e4m3fn_to_f32(f32_to_e4m3fn(amax_of(values, count) / 6 / scale));
    const float step = block * scale;
    replace(values, count, [&](float value) {
      if (step == 0) return 0.0f;
      // Only the last product rounds.
      return e2m1_to_f32(f32_to_e2m1(value / step)) * block * scale;
    });
  });
}

void int8_by_scale(const Activations& of, float scale) {
  for_rows(of, [&](float* values, int64_t count) { int8(values, count, scale); });
}

void int8_by_token(const Activations& of) {
  for_rows(
      of, [&](float* values, int64_t count) { int8(values, count, amax_of(values, count) / 127); });
}

}  // namespace moert::quant
