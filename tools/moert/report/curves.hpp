// The load of a layer's experts in falling order: each one's, and all so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/report_capture.hpp"

namespace moert::report {

// Ranks 1, 2, 4 ... and `experts`: where the table of the curves is read.
std::vector<int64_t> table_ranks(int64_t experts);

// Two pictures with a line for each layer, and their table.
std::string curves(const ReportCapture& capture);

}  // namespace moert::report
