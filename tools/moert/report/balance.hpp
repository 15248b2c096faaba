// How evenly each layer spreads its slots: busiest expert against the mean, and entropy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/report_capture.hpp"

namespace moert::report {

// Two pictures over the layers, and the table of each layer's figures.
std::string balance(const ReportCapture& capture);

}  // namespace moert::report
