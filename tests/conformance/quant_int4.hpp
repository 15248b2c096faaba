// Tests of four-bit integers, eight to a word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quant_object.hpp"

namespace moert::conformance {

// Is the scheme one of "int4_<packed|gptq|awq>.<g<size>|channel>.<f32|bf16|f16>"?
bool is_int4(const std::string& scheme);
const FormatTests& int4_tests();
// Those of them about what is refused and what is written.
const FormatTests& int4_rules();

}  // namespace moert::conformance
