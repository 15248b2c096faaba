// What `moert quantize` says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.hpp"
#include "json.hpp"
#include "runtime/quantize.hpp"

namespace moert::tool {

void print_report(Console& console, const runtime::QuantizeReport& report);
Json report_json(const runtime::QuantizeReport& report);

}  // namespace moert::tool
