// FP4: four-bit floats, two to a byte, with a scale for each group of a row: MXFP4 and NVFP4.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/quant_method.hpp>
#include <string>

#include "activations.hpp"
#include "scales.hpp"

namespace moert::quant {

// `mxfp4.g32.e8m0`: a number is code x scale, groups of 32 with exponents as scales.
// `nvfp4.g16.e4m3fn`: groups of 16, and a second scale, one f32 for the whole weight. With the option
// `global: multiply` (the default; ModelOpt) a number is code x scale x global, with `global: divide`
// (compressed-tensors) code x scale / global.
//
// Activations are left alone, or with the option `activations` quantised (activations.hpp). Of MXFP4: `mxfp8`, or
// to e4m3fn as Fp8 does: `fp8`, each row by its own scale, `group128`, `group128_ue8m0` (DeepSeek-V4). Of NVFP4: `nvfp4`, by the layer's input scale, which the weight then
// has as a companion; with `global: divide` that is stored as its reciprocal, too.
//
// The first of two codes is in the low nibble, or with MOERT_TENSOR_HIGH_NIBBLE_FIRST in the high one.
// Rows are whole groups: round_sizes gives what a size must be padded to.
class Fp4 final : public QuantMethod {
 public:
  struct Scheme {
    std::string_view name;
    int64_t group;
    uint32_t scale_dtype;
    bool has_global;
  };
  static Support supports(const Host& host, std::string_view scheme);
  Fp4(const Host& host, std::string_view scheme, const Options& options);

  std::vector<moert_quant_param_t> parameters(int64_t rows, int64_t cols) const override;
  void round_sizes(int64_t& hidden, int64_t& intermediate) const override;
  void check(const moert_tensor_t& weight) const override;
  void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
              int64_t out_stride) const override;
  // Throws MOERT_DATA_LOSS for a number that is not finite. The global scale of NVFP4 becomes
  // amax / (6 x 448) of the whole source, to 16 bits.
  void encode(const moert_tensor_t& source, const moert_tensor_t& weight) const override;
  void quantize_activations(float* rows, int64_t tokens, int64_t cols,
                            const moert_tensor_t* given) const override;

  static constexpr moert_kv_t kCaps[] = {{"schemes", "mxfp4.g32.e8m0, nvfp4.g16.e4m3fn"}};
  static constexpr FeatureInfo kFeature = {"quant.fp4", MOERT_RANK_GOOD, 0, kCaps, 1};

 private:
  enum class Way { none, mxfp8, fp8, groups, nvfp4 };
  void expect_codes(const moert_tensor_t& weight) const;
  Scales scales(const moert_tensor_t& weight) const;
  // What code x scale is multiplied, or with `global: divide` divided, by.
  float global(const moert_tensor_t& weight) const;
  // What x is divided by, from what is stored.
  float input_scale(const moert_tensor_t* given) const;
  // Writes the global scale; returns what code x scale is multiplied by.
  double encode_global(const moert_tensor_t& source, const moert_tensor_t* scale2) const;
  void encode_group(const moert_tensor_t& source, const moert_tensor_t& weight,
                    const Scales& scales, double whole, int64_t row, int64_t group) const;

  const Scheme* scheme_ = nullptr;
  bool divides_ = false;
  Way activations_ = Way::none;
  Fp8Groups groups_;
};

}  // namespace moert::quant
