// What remains of activations after they were quantised, one function for each way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/small_floats.hpp>
#include <moert/sdk/tensor.hpp>
#include <optional>
#include <string_view>

namespace moert::quant {

struct Fp8Element {
  std::string_view name;
  uint32_t dtype;
  float largest;
  float (*widen)(uint8_t);
  uint8_t (*narrow)(float);
};
inline constexpr Fp8Element kE4M3FN = {"e4m3fn", MOERT_DTYPE_F8_E4M3FN, 448, &e4m3fn_to_f32,
                                       &f32_to_e4m3fn};

// f32, dense, row after row.
struct Activations {
  // Throws MOERT_INVALID_ARGUMENT for sizes below 0, and for rows that are not there.
  Activations(float* rows, int64_t tokens, int64_t cols);

  float* rows;
  int64_t tokens, cols;
};

// In all of them: codes are the nearest, even of two; a number beyond the largest code becomes that one;
// numbers that are not finite stay what they are and have no say in a scale; a last group may be partial.
// A number that remains is finite, also where code x scale lies beyond f32.

void fp8_by_scale(const Activations& of, const Fp8Element& element, float scale);
// amax / largest for each row, at least 1 / (512 largest), as vLLM does.
void fp8_by_token(const Activations& of, const Fp8Element& element);
// "group128", "group32_ue8m0".
struct Fp8Groups {
  int64_t cols = 0;
  bool powers_of_two = false;
  static std::optional<Fp8Groups> parse(std::string_view word);
};
// amax / largest for each group of columns of a row, amax at least 1e-4, as DeepSeek does with 128; powers of
// two are rounded up to (scale_fmt ue8m0).
void fp8_by_group(const Activations& of, const Fp8Element& element, const Fp8Groups& groups);
// OCP MX: e4m3fn, 2^(floor(log2(amax)) - 8) for each 32 columns of a row, the exponent -127 to 127.
void mxfp8(const Activations& of);
// e2m1, for each 16 columns of a row e4m3fn(amax / 6 / scale) x scale. Where that is 0, zeros remain.
void nvfp4(const Activations& of, float scale);

// Codes -127 to 127.
void int8_by_scale(const Activations& of, float scale);
// amax / 127 for each row. Where that is 0, zeros remain.
void int8_by_token(const Activations& of);

}  // namespace moert::quant
