// A run's numbers against a folder's golden ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "unit/golden/support.hpp"

namespace moert::golden {

// With every float row f32 there is nothing to round but the sums.
inline constexpr double kF32Tolerance = 1e-5;

// The chosen experts, in the order of their slots.
inline std::vector<int32_t> ids_of(const weights::Checkpoint& file, int64_t layer) {
  const std::string name = "layers." + std::to_string(layer) + ".topk_ids";
  const weights::TensorInfo* info = file.find(name);
  if (info == nullptr || info->dtype != MOERT_DTYPE_I32) {
    ADD_FAILURE() << file.path() << " has no i32 tensor " << name;
    return {};
  }
  std::vector<int32_t> ids(info->bytes / sizeof(int32_t));
  std::memcpy(ids.data(), file.view(*info).get()->data, info->bytes);
  return ids;
}

inline bool is_f32(const weights::Checkpoint& golden, int64_t layer) {
  const auto* info = golden.find("layers." + std::to_string(layer) + ".hidden_states");
  return info != nullptr && info->dtype == MOERT_DTYPE_F32;
}

inline void expect_numbers(const runtime::LayerReport& layer, const weights::Checkpoint& golden) {
  ASSERT_TRUE(layer.comparison.has_value());
  const runtime::Comparison& c = *layer.comparison;
  EXPECT_GT(c.tokens, 0);
  EXPECT_EQ(c.wrong_ids, 0) << c.first_wrong_ids;
  EXPECT_LE(c.output.error, is_f32(golden, layer.layer_id) ? kF32Tolerance : c.output_tolerance)
      << "token " << c.output.token << ", column " << c.output.column << ": got " << c.output.got
      << ", want " << c.output.want;
  EXPECT_LE(c.weight.error, c.weight_tolerance)
      << "token " << c.weight.token << ", expert " << c.weight.column << ": got " << c.weight.got
      << ", want " << c.weight.want;
  EXPECT_TRUE(c.passed);
}

}  // namespace moert::golden
