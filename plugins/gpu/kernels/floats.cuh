// Floats of a type that the kernel learns at run time: read as f64, which is exact, and written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../dense/records.hpp"
#include "numbers.cuh"

namespace moert::gpu::floats {

// kRun numbers from 16-byte aligned memory.
MOERT_DEVICE void read_run(const float* from, float (&to)[kRun]) {
  MOERT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Word16 word = load16(from + half * 4);
    MOERT_UNROLL
    for (int i = 0; i < 4; ++i) to[half * 4 + i] = float_of(word.part[i]);
  }
}
MOERT_DEVICE void read_run(const double* from, double (&to)[kRun]) {
  MOERT_UNROLL
  for (int pair = 0; pair < 4; ++pair) {
    const Word16 word = load16(from + pair * 2);
    MOERT_UNROLL
    for (int i = 0; i < 2; ++i)
      to[pair * 2 + i] = __builtin_bit_cast(
          double, static_cast<uint64_t>(word.part[i * 2 + 1]) << 32 | word.part[i * 2]);
  }
}
// Of bf16, or f16 with `half`.
MOERT_DEVICE void read_run(const uint16_t* from, bool half, float (&to)[kRun]) {
  const Word16 word = load16(from);
  MOERT_UNROLL
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = (word.part[i / 2] >> (i % 2 * 16)) & 0xffffu;
    to[i] = half ? f16_number(bits) : bf16_number(bits);
  }
}

// One element of any type; exact.
MOERT_DEVICE double number(const FloatRows& rows, int64_t t, int64_t c) {
  const int64_t at = t * rows.row_stride + c * rows.col_stride;
  switch (rows.type) {
    case Float::f64: return static_cast<const double*>(rows.data)[at];
    case Float::f32: return static_cast<double>(static_cast<const float*>(rows.data)[at]);
    case Float::bf16:
      return static_cast<double>(bf16_number(static_cast<const uint16_t*>(rows.data)[at]));
    default: return static_cast<double>(f16_number(static_cast<const uint16_t*>(rows.data)[at]));
  }
}

// Rounded to f32, and from there to the type of the rows.
MOERT_DEVICE void set_number(const FloatRows& rows, int64_t t, int64_t c, double value) {
  const int64_t at = t * rows.row_stride + c * rows.col_stride;
  const auto once = static_cast<float>(value);
  switch (rows.type) {
    case Float::f64: static_cast<double*>(rows.data)[at] = value; return;
    case Float::f32: static_cast<float*>(rows.data)[at] = once; return;
    case Float::bf16:
      static_cast<uint16_t*>(rows.data)[at] = static_cast<uint16_t>(bf16_bits(once));
      return;
    default: static_cast<uint16_t*>(rows.data)[at] = static_cast<uint16_t>(f16_bits(once)); return;
  }
}

// Run number `run` of row t, of a type up to f32; zeros behind the columns. Numbers that don't lie in runs are read one
// after another, for side by side their addresses would want more registers than all that is done with them; each goes
// to its place by choice, since an array that is indexed lies in memory.
MOERT_DEVICE void read_run(const FloatRows& rows, int64_t t, int64_t run, float (&to)[kRun]) {
  if (!rows.runs) {
    MOERT_UNROLL
    for (int i = 0; i < kRun; ++i) to[i] = 0;
    MOERT_ROLL
    for (int i = 0; i < kRun && run * kRun + i < rows.cols; ++i) {
      const auto x = static_cast<float>(number(rows, t, run * kRun + i));
      MOERT_UNROLL
      for (int place = 0; place < kRun; ++place) to[place] = place == i ? x : to[place];
    }
    return;
  }
  const int64_t at = t * rows.row_stride + run * kRun;
  if (rows.type == Float::f32)
    read_run(static_cast<const float*>(rows.data) + at, to);
  else
    read_run(static_cast<const uint16_t*>(rows.data) + at, rows.type == Float::f16, to);
}

}  // namespace moert::gpu::floats
