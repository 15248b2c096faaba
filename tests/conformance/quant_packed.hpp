// Tests of formats with two codes to a byte: MXFP4 and NVFP4.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quant_scaled.hpp"

namespace moert::conformance {

// Is the scheme one of those that the suite knows?
bool is_packed(const std::string& scheme);
// Name and body of each, for such schemes.
const std::vector<std::pair<const char*, void (*)(const ScaledFormat&)>>& packed_tests();

}  // namespace moert::conformance
