// How releases call a weight that is not one tensor of plain floats, and what stands beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace moert::weights {

// What a tensor is to a weight: MOERT_PARAM_* numbers, and one that only tells the shape.
inline constexpr uint32_t kShapeParam = 6;
inline constexpr uint32_t kParams = 7;

// How a weight's elements are kept, as its name tells.
enum class Spelling : uint8_t {
  plain,   // one element in each place, or packed, as the shape tells
  packed,  // "weight_packed"
  words,   // "qweight": eight of four bits in an i32
};

struct BaseName {
  std::string name;  // of the weight in a family's rules
  uint32_t param = 0;
  Spelling spelling = Spelling::plain;
};

// Calls `try_name` for each weight that a tensor called `name` may belong to, the likeliest first, until
// it answers true.
bool for_each_base(std::string_view name, const std::function<bool(const BaseName&)>& try_name);

// "scale", "second scale", "zero point" ...
const char* param_text(uint32_t param);

// The tensor that would be the companion of a weight called `weight`, in the words that `beside`, a
// companion of that kind of another weight, has; empty: the usual ones.
std::string companion_name(const std::string& weight, uint32_t param, std::string_view beside);

}  // namespace moert::weights
