// What the report shows of one capture file: plain data, so that a page can be made without files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/capture_file.hpp"
#include "capture/capture_info.hpp"
#include "capture/statistics.hpp"

namespace moert::report {

struct ReportCapture {
  std::string path;
  capture::CaptureInfo info;
  int64_t rows = 0;
  int64_t absent = 0;     // (row, layer) pairs without decisions
  bool complete = false;  // none absent, none lost
  std::vector<capture::LayerStatistics> layers;
  std::optional<int64_t> sequences = std::nullopt;          // how many; not known
  std::optional<int64_t> sequence = std::nullopt;           // all numbers are of this one alone
  double near_tie = capture::StatisticsOptions{}.near_tie;  // the limit that `layers` counted by
};

// Rows and absent decisions are those of `options.sequence` where there is one; `complete` is of the file.
ReportCapture summarise(const capture::CaptureFile& file,
                        const capture::StatisticsOptions& options = {});

}  // namespace moert::report
