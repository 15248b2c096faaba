// Which numbers meet in a problem's matrix products: how weights are kept, and what becomes of rows before.
// SPDX-License-Identifier: Apache-2.0
#include "treatment.hpp"

#include <moert/abi/tensor.h>

namespace moert::gpu {
namespace {

constexpr int64_t kChunk = 32;

// Sums of codes are scaled by both at once, so that groups must be whole chunks, and whole parts of each other.
bool groups_fit(const RowRule& rule, const WeightFormat& format) {
  const int64_t rows = rule.group, weights = format.block_cols;
  if (rows == 0) return true;
  return rows % kChunk == 0 && (weights == 0 || rows % weights == 0 || weights % rows == 0);
}

bool becomes_codes(const RowRule& rule, const WeightFormat& format) {
  const bool code_weights = format.codec == Codec::fp8 || format.codec == Codec::mxfp4;
  return code_weights && rule.has_codes() && groups_fit(rule, format);
}

}  // namespace

bool treat(std::string_view weight_scheme, std::string_view activations, uint32_t activation_dtype,
           Treatment* treatment) {
  Treatment made;
  if (!row_rule(weight_scheme, activations, &made.rule)) return false;
  const WeightFormat stored = weight_format(weight_scheme, Element::bf16);
  made.codes = becomes_codes(made.rule, stored);
  const bool as_they_are = !made.rule.quantises() && activation_dtype == MOERT_DTYPE_BF16;
  if (stored.codec != Codec::f32 && (made.codes || as_they_are)) made.element = Element::bf16;
  made.format = weight_format(weight_scheme, made.element);
  *treatment = made;
  return true;
}

std::string treatment_text(const Treatment& treatment, std::string_view weight_scheme,
                           std::string_view activations) {
  constexpr const char* kCodecs[] = {"bf16", "f32", "fp8", "mxfp4"};
  const bool stored = treatment.format.codec != Codec::f32;
  std::string text =
      stored ? "weights as " + std::string(kCodecs[static_cast<int>(treatment.format.codec)])
      : weight_scheme == "f32" ? "weights as f32"
                               : "weights decoded to f32";
  if (treatment.codes)
    text += ", rows as codes of '" + std::string(activations) + "'";
  else
    text += treatment.element == Element::bf16 ? ", rows as bf16" : ", rows as f32";
  if (treatment.rule.quantises() && !treatment.codes)
    text += " after '" + std::string(activations) + "'";
  return stored ? text : text + ": right, not fast";
}

}  // namespace moert::gpu
