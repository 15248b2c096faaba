// Writing decisions into captured rows, as host code sees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "../experts/strided.hpp"
#include "../faults.hpp"

namespace moert::gpu {

// Where a step's rows lie. The device reads it, so that a recorded graph serves one step after another.
struct StepPlaces {
  static constexpr int32_t kNowhere = -1;  // kept without decisions
  const int64_t* tokens = nullptr;         // [1]
  const int32_t* slots = nullptr;          // [max_tokens]: in the ring, or kNowhere
};

// A layer's part of a captured row, in bytes from the row's begin; moert/sdk/capture_row.hpp has the whole.
struct RowPart {
  uint32_t row_bytes = 0, present = 0, present_bit = 0, ids = 0, weights = 0, margin = 0;
  uint32_t id_bytes = 1;
};

struct RecordArgs {
  int64_t rows = 0;  // of the tensors; those behind the step's tokens are padding
  int32_t top_k = 0;
  int32_t experts = 0;
  StridedSlots<int32_t> ids;
  StridedSlots<float> weights;     // no data: they are not captured
  const float* margins = nullptr;  // the same
  int64_t margin_stride = 1;
  StepPlaces places;
  RowPart part;
  unsigned char* ring = nullptr;
  Fault* fault = nullptr;
};

// The step's rows become rows without decisions.
void launch_start_rows(void* stream, const StepPlaces& places, int64_t rows, uint32_t row_bytes,
                       unsigned char* ring);
void launch_record(void* stream, const RecordArgs& args);

}  // namespace moert::gpu
