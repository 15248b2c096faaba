// A run's report as tables and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.hpp"
#include "json.hpp"
#include "runtime/run.hpp"

namespace moert::tool {

void print_report(Console& console, const runtime::RunReport& report);
Json report_json(const runtime::RunReport& report);

}  // namespace moert::tool
