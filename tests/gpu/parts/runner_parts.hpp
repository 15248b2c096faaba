// What the runner's parts in runner_rig.hpp run on a device: their kernels, each in one block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpu/dense/records.hpp"
#include "gpu/faults.hpp"

namespace moert::gpu {

constexpr int64_t kExperts = 4, kSlots = 2, kVocabulary = 100;

// What the router is told of its rows. Numbers that make no sense are reported.
struct Told {
  const int32_t* forced;  // [tokens, kSlots], or null
  const int64_t* tokens;  // [tokens], or null
  int64_t experts;
  Fault* fault;
};

void launch_fill_logits(void* stream, float* logits, int64_t count);
void launch_fill_slots(void* stream, int32_t* ids, float* weights, const Told& told,
                       int64_t tokens);
void launch_scale_rows(void* stream, const FloatRows& in, const FloatRows& out, const int32_t* ids,
                       const float* weights);
void launch_fill_shared(void* stream, float* out, int64_t tokens, int64_t cols);

}  // namespace moert::gpu
