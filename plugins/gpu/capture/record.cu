// Launches of the capturer's kernels.
// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include "../kernels/capture.cuh"
#include "../kernels/pieces.cuh"

namespace moert::gpu {
namespace {

Blocks blocks_of(int64_t rows) { return {(rows + capture::kThreads - 1) / capture::kThreads}; }

}  // namespace

void launch_start_rows(void* stream, const StepPlaces& places, int64_t rows, uint32_t row_bytes,
                       unsigned char* ring) {
  if (rows == 0) return;
  launch_blocks<capture::start_rows>(blocks_of(rows), capture::kThreads, uint32_t{0}, stream,
                                     places, row_bytes, ring);
}

void launch_record(void* stream, const RecordArgs& args) {
  if (args.rows == 0) return;
  launch_blocks<capture::record>(blocks_of(args.rows), capture::kThreads, uint32_t{0}, stream,
                                 args);
}

}  // namespace moert::gpu
