// What stands above a capture's pictures: what it is, its key figures, and what its reader must be warned of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/report_capture.hpp"

namespace moert::report {

// The model's name, else the file's; markup.
std::string capture_name(const ReportCapture& capture);
// What tells it from the others of a report: its name, or its file where another one has the same name; markup.
std::string distinct_name(const std::vector<ReportCapture>& captures, size_t number);
std::string overview(const ReportCapture& capture);
// One row for each capture.
std::string comparison(const std::vector<ReportCapture>& captures);

}  // namespace moert::report
