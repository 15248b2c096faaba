// The page of `moert report`: one HTML file that needs nothing else and loads nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "report/report_capture.hpp"

namespace moert::report {

// UTF-8. What comes from files is escaped; the same captures give the same bytes.
std::string report_page(const std::vector<ReportCapture>& captures);

}  // namespace moert::report
