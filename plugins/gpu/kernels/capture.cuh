// Captured rows: emptied, and filled layer by layer. A thread for each row of a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../capture/record.hpp"
#include "fault.cuh"

namespace moert::gpu::capture {

constexpr int kThreads = 128;

// Where row t of the step lies; NULL where it has no place, or is no token.
MOERT_DEVICE unsigned char* place_of(const StepPlaces& places, int64_t t, uint32_t row_bytes,
                                     unsigned char* ring) {
  if (t >= *places.tokens) return nullptr;
  const int32_t slot = places.slots[t];
  return slot == StepPlaces::kNowhere ? nullptr : ring + static_cast<int64_t>(slot) * row_bytes;
}

// Rows are multiples of 8 bytes.
MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void start_rows(int64_t first, StepPlaces places,
                                                       uint32_t row_bytes, unsigned char* ring) {
  const int64_t t = (first + block_x()) * threads() + thread();
  auto* row = reinterpret_cast<uint64_t*>(place_of(places, t, row_bytes, ring));
  if (row == nullptr) return;
  for (uint32_t i = 0; i < row_bytes / 8; ++i) row[i] = 0;
}

MOERT_DEVICE int32_t id_at(const RecordArgs& args, int64_t t, int j) {
  return args.ids.data[t * args.ids.row_stride + j * args.ids.col_stride];
}

MOERT_DEVICE void put_id(unsigned char* to, uint32_t bytes, int j, int32_t id) {
  if (bytes == 1)
    to[j] = static_cast<unsigned char>(id);
  else if (bytes == 2)
    reinterpret_cast<uint16_t*>(to)[j] = static_cast<uint16_t>(id);
  else
    reinterpret_cast<int32_t*>(to)[j] = id;
}

// A row of -1 alone had no token, and stays without decisions; so does one with an id that is no expert, which is a
// fault.
MOERT_DEVICE bool has_experts(const RecordArgs& args, int64_t t) {
  bool nothing = true, wrong = false;
  int32_t first = 0;
  for (int j = args.top_k; j-- > 0;) {
    const int32_t id = id_at(args, t, j);
    nothing &= id == -1;
    if (id >= 0 && id < args.experts) continue;
    wrong = true;
    first = id;
  }
  if (wrong && !nothing) report_fault(args.fault, FaultCode::captured_id, t, first);
  return !wrong;
}

MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void record(int64_t first, RecordArgs args) {
  const int64_t t = (first + block_x()) * threads() + thread();
  if (t >= args.rows) return;
  const RowPart& part = args.part;
  unsigned char* row = place_of(args.places, t, part.row_bytes, args.ring);
  if (row == nullptr || !has_experts(args, t)) return;
  for (int j = 0; j < args.top_k; ++j) put_id(row + part.ids, part.id_bytes, j, id_at(args, t, j));
  if (args.weights.data != nullptr) {
    auto* weights = reinterpret_cast<float*>(row + part.weights);
    for (int j = 0; j < args.top_k; ++j)
      weights[j] = args.weights.data[t * args.weights.row_stride + j * args.weights.col_stride];
  }
  if (args.margins != nullptr)
    *reinterpret_cast<float*>(row + part.margin) = args.margins[t * args.margin_stride];
  row[part.present] |= static_cast<unsigned char>(1u << part.present_bit);
}

}  // namespace moert::gpu::capture
