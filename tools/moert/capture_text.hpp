// What captures hold and how they differ, as text and JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capture/difference.hpp"
#include "capture/statistics.hpp"
#include "console.hpp"
#include "json.hpp"

namespace moert::tool {

// A capture's facts; `rows` of its rows, of one sequence if it is named.
void print_capture_file(Console& console, const capture::CaptureFile& file, int64_t rows,
                        std::optional<int64_t> sequence);
Json capture_file_json(const capture::CaptureFile& file, int64_t rows,
                       std::optional<int64_t> sequence);

void print_statistics(Console& console, const capture::CaptureFile& file,
                      const std::vector<capture::LayerStatistics>& layers);
Json statistics_json(const capture::CaptureFile& file,
                     const std::vector<capture::LayerStatistics>& layers);

// `other`: what the routing was compared with.
void print_difference(Console& console, const capture::Difference& difference,
                      const std::string& other);
Json difference_json(const capture::Difference& difference);

}  // namespace moert::tool
