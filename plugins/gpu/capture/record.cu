// Launches of the capturer's kernels.
// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include "../kernels/capture.cuh"

namespace moert::gpu {
namespace {

Grid grid_of(int64_t rows) {
  return {static_cast<unsigned>((rows + capture::kThreads - 1) / capture::kThreads), 1};
}

}  // namespace

void launch_start_rows(void* stream, const StepPlaces& places, int64_t rows, uint32_t row_bytes,
                       unsigned char* ring) {
  if (rows == 0) return;
  launch<capture::start_rows>(grid_of(rows), capture::kThreads, uint32_t{0}, stream, places,
                              row_bytes, ring);
}

void launch_record(void* stream, const RecordArgs& args) {
  if (args.rows == 0) return;
  launch<capture::record>(grid_of(args.rows), capture::kThreads, uint32_t{0}, stream, args);
}

}  // namespace moert::gpu
