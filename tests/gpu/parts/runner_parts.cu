// SPDX-License-Identifier: Apache-2.0
#include "runner_parts.hpp"

#include "gpu/kernels/fault.cuh"
#include "gpu/kernels/floats.cuh"

namespace moert::gpu {
namespace parts {

constexpr int kThreads = 64;
constexpr Grid kOneBlock = {1, 1};

MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void fill_logits(float* logits, int64_t count) {
  for (int64_t i = thread(); i < count; i += threads()) logits[i] = 7;
}

MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void fill_slots(int32_t* ids, float* weights, Told told,
                                                       int64_t tokens) {
  for (int64_t slot = thread(); slot < tokens * kSlots; slot += threads()) {
    const int64_t t = slot / kSlots, j = slot % kSlots;
    const bool forced = told.forced != nullptr;
    ids[slot] = forced ? told.forced[slot] : static_cast<int32_t>((t + j) % kExperts);
    weights[slot] = j == 0 ? 0.75f : 0.25f;
    if (ids[slot] < -1 || ids[slot] >= told.experts)
      report_fault(told.fault, FaultCode::forced_id, t, ids[slot]);
    if (told.tokens != nullptr && (told.tokens[t] < -1 || told.tokens[t] >= kVocabulary))
      report_fault(told.fault, FaultCode::token_id, t, told.tokens[t]);
  }
}

MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void scale_rows(FloatRows in, FloatRows out,
                                                       const int32_t* ids, const float* weights) {
  for (int64_t at = thread(); at < in.tokens * in.cols; at += threads()) {
    const int64_t t = at / in.cols, c = at % in.cols;
    double sum = 0;
    for (int64_t slot = t * kSlots; slot < (t + 1) * kSlots; ++slot)
      if (ids[slot] >= 0)
        sum += static_cast<double>(weights[slot]) * (ids[slot] + 1) * floats::number(in, t, c);
    floats::set_number(out, t, c, sum);
  }
}

MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void fill_shared(float* out, int64_t tokens, int64_t cols) {
  for (int64_t at = thread(); at < tokens * cols; at += threads())
    out[at] = 100 + static_cast<float>(at / cols);
}

}  // namespace parts

void launch_fill_logits(void* stream, float* logits, int64_t count) {
  launch<parts::fill_logits>(parts::kOneBlock, parts::kThreads, 0, stream, logits, count);
}

void launch_fill_slots(void* stream, int32_t* ids, float* weights, const Told& told,
                       int64_t tokens) {
  launch<parts::fill_slots>(parts::kOneBlock, parts::kThreads, 0, stream, ids, weights, told,
                            tokens);
}

void launch_scale_rows(void* stream, const FloatRows& in, const FloatRows& out, const int32_t* ids,
                       const float* weights) {
  launch<parts::scale_rows>(parts::kOneBlock, parts::kThreads, 0, stream, in, out, ids, weights);
}

void launch_fill_shared(void* stream, float* out, int64_t tokens, int64_t cols) {
  launch<parts::fill_shared>(parts::kOneBlock, parts::kThreads, 0, stream, out, tokens, cols);
}

}  // namespace moert::gpu
