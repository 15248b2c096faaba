// The formats of a layer's weights, as the plan found them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/fused_moe.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {

// In the order in which they occur.
std::vector<FormatUse> formats_of(const weights::Plan& plan, const weights::LayerPlan& layer);

// How rows are quantised before weights of `word`: "none", one word, or "mixed".
std::string act_scheme_of(const std::vector<FormatUse>& formats, const std::string& word);

// Does `asked` name the scheme, or begin its name ("mxfp4", "fp8_e4m3fn")?
bool names_scheme(const std::string& asked, const std::string& scheme);

}  // namespace moert::runtime
