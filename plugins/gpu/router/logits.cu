// Launches the gate: logits of all experts.
// SPDX-License-Identifier: Apache-2.0
#include "../kernels/dense.cuh"
#include "../kernels/widths.cuh"
#include "route.hpp"

namespace moert::gpu {
namespace {

struct ToLogits {
  Strided<float> logits;
  const double* bias;
  MOERT_DEVICE void operator()(int64_t t, int64_t e, double sum) const {
    logits.data[t * logits.row_stride + e * logits.col_stride] =
        static_cast<float>(bias != nullptr ? sum + bias[e] : sum);
  }
};

}  // namespace

void launch_logits(int warp, void* stream, const LogitsArgs& args) {
  const ToLogits finish = {args.logits, args.bias};
  with_warp(warp, [&](auto width) {
    constexpr int W = decltype(width)::value;
    switch (args.gate.type) {
      case Float::bf16:
        return launch_dense<W, Bf16Matrix>(stream, args.rows, args.norm, args.gate, finish);
      case Float::f16:
        return launch_dense<W, F16Matrix>(stream, args.rows, args.norm, args.gate, finish);
      case Float::f32:
        return launch_dense<W, F32Matrix>(stream, args.rows, args.norm, args.gate, finish);
      default: return launch_dense<W, F64Matrix>(stream, args.rows, args.norm, args.gate, finish);
    }
  });
}

}  // namespace moert::gpu
