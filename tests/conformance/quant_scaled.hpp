// Tests of formats of eight-bit floats with scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quant_object.hpp"

namespace moert::conformance {

// Is the scheme one of those that the suite can read the name of?
bool is_scaled(const std::string& scheme);
// Name and body of each, for such schemes.
const FormatTests& scaled_tests();
// Those of them that write.
const FormatTests& fp8_encoding();

}  // namespace moert::conformance
