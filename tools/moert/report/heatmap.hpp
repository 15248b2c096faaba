// The picture of every expert's load: layers by experts, coloured by load against an even one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "capture/statistics.hpp"
#include "report/report_capture.hpp"

namespace moert::report {

// Steps of the colour scale: 0 to kSteps - 1, the middle one is about even.
inline constexpr int kSteps = 9;
inline constexpr int kDead = kSteps;         // not one token
inline constexpr int kNothing = kSteps + 1;  // the layer has no decisions, so nothing can be said

// Mean number of tokens of an expert; 0 without experts.
double even_count(const capture::LayerStatistics& layer);
// An expert's load against an even one; 0 where the layer has no decisions.
double relative_load(const capture::LayerStatistics& layer, int64_t count);
int load_step(const capture::LayerStatistics& layer, int64_t count);

// Picture, legend and the table of all counts.
std::string heatmap(const ReportCapture& capture);

}  // namespace moert::report
