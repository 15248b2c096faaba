// Tests of formats with two codes to a byte: MXFP4 and NVFP4.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quant_object.hpp"

namespace moert::conformance {

// Is the scheme one of those that the suite knows?
bool is_packed(const std::string& scheme);
// Name and body of each, for such a scheme.
const FormatTests& packed_tests(const std::string& scheme);
// Those of them that write.
const FormatTests& fp4_encoding();

}  // namespace moert::conformance
