// Scales of blocks: checked, read and written.
// SPDX-License-Identifier: Apache-2.0
#include "scales.hpp"

#include <cmath>
#include <cstring>
#include <moert/sdk/small_floats.hpp>
#include <string>

#include "view.hpp"

namespace moert::quant {
namespace {

constexpr double kLeastScale = 0x1p-100;

[[noreturn]] void damaged(const std::string& message) {
  throw PluginError(MOERT_DATA_LOSS, message);
}

int significant_bits(uint32_t dtype) {
  if (dtype == MOERT_DTYPE_F8_E8M0) return 1;
  return dtype == MOERT_DTYPE_BF16 ? 8 : 20;
}

}  // namespace

Scales::Scales(const moert_tensor_t* scale, const Blocks& blocks, uint32_t dtype,
               int64_t weight_rows, int64_t weight_cols, State state)
    : scale_(scale),
      blocks_(blocks),
      down_(blocks.down(weight_rows)),
      right_(blocks.right(weight_cols)) {
  if (scale == nullptr)
    damaged("the weight came without its scale, expected " + std::string(dtype_name(dtype)) + " [" +
            std::to_string(down_) + ", " + std::to_string(right_) + "]");
  expect_array(*scale, "the scale", dtype);
  expect_shape();
  if (state == written) expect_finite();
}

void Scales::expect_shape() const {
  const moert_tensor_t& t = *scale_;
  const bool matrix = t.rank == 2 && t.shape[0] == down_ && t.shape[1] == right_;
  const bool vector = t.rank == 1 && blocks_.cols == 0 && t.shape[0] == down_;
  const bool scalar = t.rank == 0 && blocks_.cols == 0 && blocks_.rows == 0;
  if (!matrix && !vector && !scalar)
    damaged("the scale is " + tensor_text(t) + ", expected [" + std::to_string(down_) + ", " +
            std::to_string(right_) + "]");
}

void Scales::expect_finite() const {
  for (int64_t down = 0; down < down_; ++down)
    for (int64_t right = 0; right < right_; ++right)
      if (const float value = of_block(down, right); !std::isfinite(value))
        damaged("the scale at [" + std::to_string(down) + ", " + std::to_string(right) + "] is " +
                std::to_string(value) + ", expected a finite number");
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
  if (scale_->dtype == MOERT_DTYPE_F8_E8M0) return e8m0_to_f32(*at);
  if (scale_->dtype == MOERT_DTYPE_F8_E4M3FN) return e4m3fn_to_f32(*at);
  if (scale_->dtype == MOERT_DTYPE_BF16) {
    uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return bf16_to_f32(bits);
  }
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void Scales::set(int64_t down, int64_t right, float value) const {
  unsigned char* at = address(down, right);
  if (scale_->dtype == MOERT_DTYPE_F8_E8M0) {
    *at = static_cast<unsigned char>(std::ilogb(value) + 127);
  } else if (scale_->dtype == MOERT_DTYPE_BF16) {
    const uint16_t bits = f32_to_bf16(value);
    std::memcpy(at, &bits, sizeof bits);
  } else {
    std::memcpy(at, &value, sizeof value);
  }
}

float scale_not_below(double least, uint32_t dtype) {
  if (least == 0) return 1;
  int exponent = 0;
  const double fraction = std::frexp(std::max(least, kLeastScale), &exponent);
  const int bits = significant_bits(dtype);
  return static_cast<float>(std::ldexp(std::ceil(std::ldexp(fraction, bits)), exponent - bits));
}

}  // namespace moert::quant
