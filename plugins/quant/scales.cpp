// Scales of blocks: checked, read and written.
// SPDX-License-Identifier: Apache-2.0
#include "scales.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <moert/sdk/small_floats.hpp>
#include <string>

#include "view.hpp"

namespace moert::quant {
namespace {

// What scales of a dtype are when something is encoded.
struct Kind {
  uint32_t dtype;
  int bits;
  double least;   // a power of two
  double normal;  // below it only powers of two
  double largest;
};
constexpr double kUnbounded = std::numeric_limits<double>::max();
constexpr Kind kKinds[] = {
    {MOERT_DTYPE_F32, 20, 0x1p-100, 0, kUnbounded},
    {MOERT_DTYPE_BF16, 8, 0x1p-100, 0, kUnbounded},
    {MOERT_DTYPE_F16, 11, 0x1p-24, 0x1p-14, 65504},
    {MOERT_DTYPE_F8_E8M0, 1, 0x1p-100, 0, kUnbounded},
    {MOERT_DTYPE_F8_E4M3FN, 4, 0x1p-9, 0x1p-6, 448},
};

[[noreturn]] void damaged(const std::string& message) {
  throw PluginError(MOERT_DATA_LOSS, message);
}

const Kind& kind_of(uint32_t dtype) {
  for (const Kind& kind : kKinds)
    if (kind.dtype == dtype) return kind;
  throw PluginError(MOERT_INTERNAL, "no scales of " + std::string(dtype_name(dtype)));
}

double rounded_with(double (*round)(double), double value, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(round(std::ldexp(fraction, bits)), exponent - bits);
}

double floor_of(double value) { return std::floor(value); }
double ceiling(double value) { return std::ceil(value); }
double nearest(double value) { return std::nearbyint(value); }

// The largest scale whose product with the largest code is a finite f32.
double most(const Kind& kind, double largest) {
  const double finite = double{std::numeric_limits<float>::max()} / largest;
  return std::min(kind.largest, rounded_with(&floor_of, finite, kind.bits));
}

template <class Bits>
Bits bits_at(const unsigned char* at) {
  Bits bits{};
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

}  // namespace

Scales::Scales(const moert_tensor_t* scale, const Blocks& blocks, uint32_t dtype,
               int64_t weight_rows, int64_t weight_cols, State state, const char* name)
    : scale_(scale),
      name_(name),
      blocks_(blocks),
      down_(blocks.down(weight_rows)),
      right_(blocks.right(weight_cols)) {
  if (scale == nullptr)
    damaged("the weight came without its " + std::string(name) + ", expected " +
            std::string(dtype_name(dtype)) + " [" + std::to_string(down_) + ", " +
            std::to_string(right_) + "]");
  expect_array(*scale, ("the " + std::string(name)).c_str(), dtype);
  expect_shape();
  if (state == written) expect_finite();
}

void Scales::expect_shape() const {
  const moert_tensor_t& t = *scale_;
  const bool matrix = t.rank == 2 && t.shape[0] == down_ && t.shape[1] == right_;
  const bool vector = t.rank == 1 && blocks_.cols == 0 && t.shape[0] == down_;
  const bool scalar = t.rank == 0 && blocks_.cols == 0 && blocks_.rows == 0;
  if (!matrix && !vector && !scalar)
    damaged("the " + std::string(name_) + " is " + tensor_text(t) + ", expected [" +
            std::to_string(down_) + ", " + std::to_string(right_) + "]");
}

void Scales::expect_finite() const {
  for (int64_t down = 0; down < down_; ++down)
    for (int64_t right = 0; right < right_; ++right)
      if (const float value = of_block(down, right); !std::isfinite(value))
        damaged("the " + std::string(name_) + " at [" + std::to_string(down) + ", " +
                std::to_string(right) + "] is " + std::to_string(value) +
                ", expected a finite number");
}

unsigned char* Scales::address(int64_t down, int64_t right) const {
  int64_t index = 0;
  if (scale_->rank > 0) index += down * scale_->strides[0];
  if (scale_->rank > 1) index += right * scale_->strides[1];
  return static_cast<unsigned char*>(scale_->data) +
         static_cast<size_t>(index) * dtype_bytes(scale_->dtype, 1);
}

float Scales::of_block(int64_t down, int64_t right) const {
  const unsigned char* at = address(down, right);
  switch (scale_->dtype) {
    case MOERT_DTYPE_F8_E8M0: return e8m0_to_f32(*at);
    case MOERT_DTYPE_F8_E4M3FN: return e4m3fn_to_f32(*at);
    case MOERT_DTYPE_BF16: return bf16_to_f32(bits_at<uint16_t>(at));
    case MOERT_DTYPE_F16: return f16_to_f32(bits_at<uint16_t>(at));
    default: return bits_at<float>(at);
  }
}

void Scales::set(int64_t down, int64_t right, float value) const {
  unsigned char* at = address(down, right);
  const auto put = [at](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  switch (scale_->dtype) {
    case MOERT_DTYPE_F8_E8M0: return put(static_cast<uint8_t>(std::ilogb(value) + 127));
    case MOERT_DTYPE_F8_E4M3FN: return put(f32_to_e4m3fn(value));
    case MOERT_DTYPE_BF16: return put(f32_to_bf16(value));
    case MOERT_DTYPE_F16: return put(f32_to_f16(value));
    default: return put(value);
  }
}

float positive_scalar(const moert_tensor_t* scalar, const char* name) {
  const float value =
      Scales(scalar, {}, MOERT_DTYPE_F32, 1, 1, Scales::written, name).of_block(0, 0);
  if (!(value > 0))
    damaged("the " + std::string(name) + " is " + std::to_string(value) +
            ", expected a number above 0");
  return value;
}

float scale_not_below(double value, uint32_t dtype, double largest) {
  if (value == 0) return 1;
  const Kind& kind = kind_of(dtype);
  const double within = std::max(value, kind.least);
  const double scale = rounded_with(&ceiling, within, within < kind.normal ? 1 : kind.bits);
  return static_cast<float>(std::min(scale, most(kind, largest)));
}

float scale_near(double value, uint32_t dtype, double largest) {
  const Kind& kind = kind_of(dtype);
  // 16 bits: what was decoded may be a rounding of f32 beside the power of two that it stood for.
  if (value == 0 || kind.bits == 1 || value < kind.normal)
    return scale_not_below(value == 0 ? 0 : rounded_to(value, 16), dtype, largest);
  const double scale = rounded_to(std::max(value, kind.least), kind.bits);
  return static_cast<float>(std::min(scale, most(kind, largest)));
}

double rounded_to(double value, int bits) { return rounded_with(&nearest, value, bits); }

}  // namespace moert::quant
