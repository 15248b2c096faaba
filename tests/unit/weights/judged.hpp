// A weight made up for the judge of formats: what is announced, and what its tensors are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>

#include <map>

#include "unit/weights/support.hpp"
#include "weights/formats.hpp"

namespace moert::weights {
inline constexpr uint32_t kF32 = MOERT_DTYPE_F32, kBf16 = MOERT_DTYPE_BF16, kF16 = MOERT_DTYPE_F16,
                          kE8m0 = MOERT_DTYPE_F8_E8M0, kE4m3 = MOERT_DTYPE_F8_E4M3FN,
                          kU8 = MOERT_DTYPE_U8, kI8 = MOERT_DTYPE_I8, kI32 = MOERT_DTYPE_I32;
inline constexpr uint32_t kScale = MOERT_PARAM_SCALE, kScale2 = MOERT_PARAM_SCALE2,
                          kZeros = MOERT_PARAM_ZERO_POINT, kIndex = MOERT_PARAM_GROUP_INDEX,
                          kInput = MOERT_PARAM_INPUT_SCALE;
using Shape = std::vector<int64_t>;

struct Stored {
  uint32_t dtype;
  Shape shape;
};

// A weight of [64, 96] unless the case says more.
struct Case {
  const char* name;
  std::vector<std::string> announced;  // kind, blocks, activations, global, zeros; none: nothing is
  Stored weight;
  std::map<uint32_t, Stored> beside;
  std::string want;  // a scheme's text, or the words of a refusal
  bool as_announced = true;
  int64_t out = 64, in = 96;
  bool stacked = false, transposed = false, pair = false;
};
inline void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

inline Judgement judged(const Case& tested) {
  std::map<uint32_t, TensorInfo> tensors;
  StoredWeight stored;
  spec::TensorRule rule;
  rule.stacked = tested.stacked;
  rule.transposed = tested.transposed;
  rule.parts.assign(tested.pair ? 2 : 1, 0);
  tensors[0] = {"w", tested.weight.dtype, tested.weight.shape, 0, 0, 0};
  for (const auto& [param, info] : tested.beside)
    tensors[param] = {"beside", info.dtype, info.shape, 0, 0, 0};
  for (const auto& [param, info] : tensors)
    if (param != 0) stored.companions[param] = &info;
  stored.weight = &tensors[0];
  stored.rule = &rule;
  stored.out = tested.out;
  stored.in = tested.in;
  stored.experts = tested.stacked ? 3 : 1;
  spec::WeightFormat format;
  std::string* const words[] = {&format.kind, &format.blocks, &format.activations, &format.global,
                                &format.zeros};
  for (size_t i = 0; i < tested.announced.size(); ++i) *words[i] = tested.announced[i];
  return judge(stored, tested.announced.empty() ? nullptr : &format);
}

inline std::string name_of(const ::testing::TestParamInfo<Case>& tested) {
  return tested.param.name;
}

inline const std::vector<std::string> kBlock = {"fp8", "block32x32", "group128"};
inline const std::map<uint32_t, Stored> kBlockScale = {{kScale, {kF32, {2, 3}}}};

}  // namespace moert::weights
