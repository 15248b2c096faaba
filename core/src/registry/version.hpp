// The order of semantic versions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace moert::registry {

// -1, 0 or 1. By numbers ("1.10.0" > "1.9.0"); a pre-release comes before its release ("1.0.0-rc.1" <
// "1.0.0"); what follows '+' does not count. Total for any text: what is no number compares bytewise.
int compare_versions(std::string_view a, std::string_view b);

}  // namespace moert::registry
