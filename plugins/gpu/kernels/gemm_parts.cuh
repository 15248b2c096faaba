// What both matrix kernels do alike: rows of the batch, sums and their scales, and what becomes of a sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bend.cuh"
#include "codecs.cuh"

namespace moert::gpu {

// bf16 of the nearest even; NaN stays NaN.
MOERT_DEVICE uint16_t nearest_bf16(float value) {
  const uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Row of the batch that stands at a position.
MOERT_DEVICE int row_at(const RowsView& rows, int position) {
  return rows.slots == nullptr ? position : rows.slots[position] / rows.divisor;
}

// Where that row's numbers begin.
template <int kBytes>
MOERT_DEVICE const unsigned char* row_bytes(const RowsView& rows, int position) {
  return static_cast<const unsigned char*>(rows.data) +
         row_at(rows, position) * rows.stride * kBytes;
}

// The columns of a tile in which a lane has sums: positions, and where the scales of their rows begin.
template <class L>
struct LaneCols {
  int position[L::kLaneCols];
  int scales[L::kLaneCols];

  // Of the tile whose first column is position `first`. Behind `end` there are no rows: the item's first one stands in.
  MOERT_DEVICE void set(const RowsView& rows, int first, int lane, int end, int stand_in) {
    MOERT_UNROLL
    for (int i = 0; i < L::kLaneCols; ++i) {
      position[i] = first + L::lane_col(lane, i);
      scales[i] = rows.scales == nullptr
                      ? 0
                      : row_at(rows, position[i] < end ? position[i] : stand_in) * rows.groups;
    }
  }
};

// Bytes of the scales of one panel.
MOERT_DEVICE int64_t panel_scales(const Projection& w) {
  return w.scale_kind == ScaleKind::powers      ? int64_t{w.chunks} * kPanelRows
         : w.scale_kind == ScaleKind::per_panel ? int64_t{w.scale_blocks} * 4
         : w.scale_kind == ScaleKind::per_row   ? int64_t{w.scale_blocks} * kPanelRows * 4
                                                : 0;
}

// Scales of a weight's panel at one of its chunks, for the rows of a lane's sums.
template <class L, Codec kCodec>
MOERT_DEVICE void weight_scales(const Projection& w, const unsigned char* panel, int chunk,
                                int lane, float (&scales)[L::kC]) {
  if constexpr (kCodec == Codec::mxfp4) {
    MOERT_UNROLL
    for (int i = 0; i < L::kC; ++i)
      scales[i] = power_of_two(panel[chunk * kPanelRows + PowerPlace<L>::of(L::c_row(lane, i))]);
  } else {
    const bool by_row = w.scale_kind == ScaleKind::per_row;
    const int block = w.scale_chunks == 0 ? 0 : chunk / w.scale_chunks;
    const auto* numbers = reinterpret_cast<const float*>(panel) + block * (by_row ? kPanelRows : 1);
    MOERT_UNROLL
    for (int i = 0; i < L::kC; ++i) scales[i] = numbers[by_row ? L::c_row(lane, i) : 0];
  }
}

// Adds sums of codes, times the scales of weights and of rows, and begins new ones.
template <class L>
MOERT_DEVICE void add_scaled(const RowsView& rows, const LaneCols<L>& cols,
                             const float (&scales)[L::kC], int group, float (&sums)[L::kC],
                             float (&total)[L::kC]) {
  float of_rows[L::kLaneCols];
  MOERT_UNROLL
  for (int i = 0; i < L::kLaneCols; ++i)
    of_rows[i] = rows.scales == nullptr ? 1.0f : rows.scales[cols.scales[i] + group];
  MOERT_UNROLL
  for (int i = 0; i < L::kC; ++i) {
    total[i] = fma_f32(sums[i], scales[i] * of_rows[i % L::kLaneCols], total[i]);
    sums[i] = 0.0f;
  }
}

MOERT_DEVICE void put_number(const GemmArgs& args, int position, int row, float value) {
  const int64_t at = position * args.out_stride + row;
  if (args.out_element == Element::bf16)
    static_cast<uint16_t*>(args.out)[at] = nearest_bf16(value);
  else
    static_cast<float*>(args.out)[at] = value;
}

// Writes what a lane's sums of a panel (of a pair of panels, gate and up) come to. `panel` counts those that write:
// pairs where there are halves.
template <class L, int kPanels>
MOERT_DEVICE void finish_sums(const GemmArgs& args, int expert, int panel, int lane, int end,
                              const LaneCols<L>& cols, const float (&sums)[kPanels][L::kC]) {
  const float* bias =
      args.weights.bias == nullptr
          ? nullptr
          : args.weights.bias +
                (int64_t{expert} * args.weights.panels + int64_t{panel} * kPanels) * kPanelRows;
  MOERT_UNROLL
  for (int i = 0; i < L::kC; ++i) {
    const int position = cols.position[i % L::kLaneCols];
    const int in_panel = L::c_row(lane, i), row = panel * kPanelRows + in_panel;
    if (position >= end || (row >= args.out_rows && !args.bends)) continue;
    float value = sums[0][i] + (bias == nullptr ? 0.0f : bias[in_panel]);
    if constexpr (kPanels == 2)
      value = bent(args.bend, value,
                   sums[1][i] + (bias == nullptr ? 0.0f : bias[kPanelRows + in_panel]));
    else if (args.bends)
      value = bent_alone(args.bend, value);
    put_number(args, position, row, row < args.out_rows ? value : 0.0f);
  }
}

}  // namespace moert::gpu
