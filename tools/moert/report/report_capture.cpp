// SPDX-License-Identifier: Apache-2.0
#include "report/report_capture.hpp"

namespace moert::report {
namespace {

// Rows stand in order of sequences.
void count_rows(const capture::CaptureFile& file, ReportCapture& result) {
  int64_t sequences = 0;
  std::optional<int64_t> last;
  for (int64_t row = 0; row < file.rows(); ++row) {
    const int64_t sequence = file.key(row).sequence;
    if (result.sequence && sequence != *result.sequence) continue;
    ++result.rows;
    if (last != sequence) ++sequences;
    last = sequence;
  }
  result.sequences = sequences;
}

}  // namespace

ReportCapture summarise(const capture::CaptureFile& file,
                        const capture::StatisticsOptions& options) {
  ReportCapture result;
  result.path = file.path().string();
  result.info = file.info();
  result.complete = file.complete();
  result.layers = capture::statistics(file, options);
  for (const capture::LayerStatistics& layer : result.layers) result.absent += layer.absent;
  result.sequence = options.sequence;
  count_rows(file, result);
  result.near_tie = options.near_tie;
  return result;
}

}  // namespace moert::report
