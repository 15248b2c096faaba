// Tests of formats whose elements have scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>

#include <string>
#include <utility>
#include <vector>

namespace moert::conformance {

struct ScaledFormat {
  const moert_quant_method_t& table;
  void* self;
  const std::string& scheme;
};

// Is the scheme one of those that the suite can read the name of?
bool is_scaled(const std::string& scheme);
// Name and body of each, for such schemes.
const std::vector<std::pair<const char*, void (*)(const ScaledFormat&)>>& scaled_tests();

}  // namespace moert::conformance
