// FP8: eight-bit floats with a scale for the tensor, for each row, or for each block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/quant_method.hpp>
#include <optional>
#include <string>

#include "activations.hpp"
#include "scales.hpp"

namespace moert::quant {

// What `fp8_<element>.<blocks>.<scale>` stands for: element e4m3fn, e4m3fnuz or e5m2; blocks `tensor`,
// `channel` (one scale for each row) or `block<rows>x<cols>`; scale f32, bf16, f16 or e8m0. MXFP8 is
// `fp8_e4m3fn.block1x32.e8m0`.
struct Fp8Scheme {
  const Fp8Element* element = nullptr;
  Blocks blocks;
  uint32_t scale_dtype = 0;

  // nullopt, and in `reason` why, for a name that is none.
  static std::optional<Fp8Scheme> parse(std::string_view name, std::string* reason);
};

// A weight is code x scale; with the option `global: multiply` that times a second scale, one f32 for the whole
// weight, with `global: divide` divided by it. Activations are left alone, or with the option `activations`
// quantised (activations.hpp):
//   static         by the layer's input scale, which the weight then has as a companion,
//   token          each row by its own scale,
//   group128       each 128 columns of a row by theirs; any other number, too,
//   group128_ue8m0 the same, scales rounded up to powers of two,
//   mxfp8          each 32 columns of a row by a power of two, to e4m3fn whatever the weight's element is.
class Fp8 final : public QuantMethod {
 public:
  static Support supports(const Host& host, std::string_view scheme);
  Fp8(const Host& host, std::string_view scheme, const Options& options);

  std::vector<moert_quant_param_t> parameters(int64_t rows, int64_t cols) const override;
  void check(const moert_tensor_t& weight) const override;
  void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
              int64_t out_stride) const override;
  // Only where there is no global scale. Throws MOERT_DATA_LOSS for a number that is not finite: no scale would
  // hold it.
  void encode(const moert_tensor_t& source, const moert_tensor_t& weight) const override;
  void quantize_activations(float* rows, int64_t tokens, int64_t cols,
                            const moert_tensor_t* input_scale) const override;

  static constexpr moert_kv_t kCaps[] = {
      {"schemes",
       "fp8_e4m3fn.tensor.f32, fp8_e4m3fn.channel.f32, fp8_e4m3fn.channel.bf16, "
       "fp8_e4m3fn.block128x128.f32, fp8_e4m3fn.block128x128.bf16, fp8_e4m3fn.block128x128.e8m0, "
       "fp8_e4m3fn.block1x32.e8m0, fp8_e4m3fn.channel.f16, fp8_e4m3fnuz.block128x128.f32, "
       "fp8_e5m2.tensor.f32, fp8_e5m2.block128x128.f16"}};
  static constexpr FeatureInfo kFeature = {"quant.fp8", MOERT_RANK_GOOD, 0, kCaps, 1};

 private:
  enum class Way { none, fixed, token, groups, mxfp8 };
  enum class Global { none, multiply, divide };
  Scales scales(const moert_tensor_t& weight) const;
  float global(const moert_tensor_t& weight) const;
  void encode_block(const moert_tensor_t& source, const moert_tensor_t& weight,
                    const Scales& scales, int64_t down, int64_t right) const;

  std::string name_;
  Fp8Scheme scheme_;
  Way activations_ = Way::none;
  Fp8Groups groups_;
  Global global_ = Global::none;
};

}  // namespace moert::quant
