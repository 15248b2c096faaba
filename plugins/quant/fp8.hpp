// FP8: eight-bit floats with a scale for the tensor, for each row, or for each block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/quant_method.hpp>
#include <optional>
#include <string>

#include "scales.hpp"

namespace moert::quant {

// What `fp8_<element>.<blocks>.<scale>` stands for: element e4m3fn, e4m3fnuz or e5m2; blocks `tensor`,
// `channel` (one scale for each row) or `block<rows>x<cols>`; scale f32, bf16 or e8m0.
struct Fp8Scheme {
  struct Element {
    std::string_view name;
    uint32_t dtype;
    float largest;
    float (*widen)(uint8_t);
    uint8_t (*narrow)(float);
  };
  const Element* element = nullptr;
  Blocks blocks;
  uint32_t scale_dtype = 0;

  // nullopt, and in `reason` why, for a name that is none.
  static std::optional<Fp8Scheme> parse(std::string_view name, std::string* reason);
};

// A weight is code x scale. Activations are left alone, or with the option `activations`:
//   static   by the layer's input scale,
//   token    each row by its own scale, amax / largest, at least 1 / (512 largest) (as vLLM),
//   group128 each 128 columns of a row by theirs, amax / largest with amax at least 1e-4 (as DeepSeek).
// Numbers that are not finite stay what they are, and have no say in a scale.
class Fp8 final : public QuantMethod {
 public:
  static Support supports(const Host& host, std::string_view scheme);
  Fp8(const Host& host, std::string_view scheme, const Options& options);

  std::vector<moert_quant_param_t> parameters(int64_t rows, int64_t cols) const override;
  void check(const moert_tensor_t& weight) const override;
  void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
              int64_t out_stride) const override;
  // Throws MOERT_DATA_LOSS for a number that is not finite: no scale would hold it.
  void encode(const moert_tensor_t& source, const moert_tensor_t& weight) const override;
  void quantize_activations(float* rows, int64_t tokens, int64_t cols,
                            const moert_tensor_t* input_scale) const override;

  static constexpr moert_kv_t kCaps[] = {
      {"schemes",
       "fp8_e4m3fn.tensor.f32, fp8_e4m3fn.channel.f32, fp8_e4m3fn.channel.bf16, "
       "fp8_e4m3fn.block128x128.f32, fp8_e4m3fn.block128x128.bf16, fp8_e4m3fn.block128x128.e8m0, "
       "fp8_e4m3fn.block1x32.e8m0, fp8_e4m3fnuz.block128x128.f32, fp8_e5m2.tensor.f32"}};
  static constexpr FeatureInfo kFeature = {"quant.fp8", MOERT_RANK_GOOD, 0, kCaps, 1};

 private:
  enum class Activations { none, fixed, token, group128 };
  Scales scales(const moert_tensor_t& weight) const;
  void encode_block(const moert_tensor_t& source, const moert_tensor_t& weight,
                    const Scales& scales, int64_t down, int64_t right) const;
  void quantize(float* values, int64_t count, float scale) const;
  float scale_of(const float* values, int64_t count) const;

  std::string name_;
  Fp8Scheme scheme_;
  Activations activations_ = Activations::none;
};

}  // namespace moert::quant
