// INT8: eight-bit integers with a scale for the tensor or for each row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/quant_method.hpp>
#include <optional>
#include <string>

#include "scales.hpp"

namespace moert::quant {

// `int8.<tensor, channel>.<f32, bf16, f16>`: a number is code x scale, one f32 product; codes are symmetric, without
// a zero point. Activations are left alone, or with the option `activations` quantised (activations.hpp):
//   token  each row by its own scale, amax / 127,
//   static by the layer's input scale, which the weight then has as a companion.
class Int8 final : public QuantMethod {
 public:
  static Support supports(const Host& host, std::string_view scheme);
  Int8(const Host& host, std::string_view scheme, const Options& options);

  std::vector<moert_quant_param_t> parameters(int64_t rows, int64_t cols) const override;
  void check(const moert_tensor_t& weight) const override;
  void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
              int64_t out_stride) const override;
  // Codes -127 to 127; the scale is the number nearest to amax / 127 (scale_near). Throws MOERT_DATA_LOSS
  // for a number that is not finite.
  void encode(const moert_tensor_t& source, const moert_tensor_t& weight) const override;
  void quantize_activations(float* rows, int64_t tokens, int64_t cols,
                            const moert_tensor_t* input_scale) const override;

  static constexpr moert_kv_t kCaps[] = {
      {"schemes",
       "int8.tensor.f32, int8.tensor.bf16, int8.tensor.f16, int8.channel.f32, int8.channel.bf16, "
       "int8.channel.f16"}};
  static constexpr FeatureInfo kFeature = {"quant.int8", MOERT_RANK_GOOD, 0, kCaps, 1};

 private:
  struct Scheme {
    Blocks blocks;
    uint32_t scale_dtype;
  };
  enum class Way { none, token, fixed };
  static std::optional<Scheme> parse(std::string_view name);
  Scales scales(const moert_tensor_t& weight, Scales::State state) const;

  std::string name_;
  Scheme scheme_;
  Way activations_ = Way::none;
};

}  // namespace moert::quant
