// Which experts: the busiest, the dead, and those that are chosen together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/report_capture.hpp"

namespace moert::report {

std::string experts(const ReportCapture& capture);  // busiest and dead
std::string pairs(const ReportCapture& capture);    // empty where none were counted

}  // namespace moert::report
