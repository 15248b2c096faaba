// Tests of eight-bit integers with scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quant_object.hpp"

namespace moert::conformance {

// Is the scheme one of "int8.<tensor|channel>.<f32|bf16|f16>"?
bool is_int8(const std::string& scheme);
const FormatTests& int8_tests();

}  // namespace moert::conformance
