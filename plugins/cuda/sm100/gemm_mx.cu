// Block-scaled products on sm_100a: one tile a block, one stage at a time. It compiles; it has run nowhere, and no option
// leads to it.
// SPDX-License-Identifier: Apache-2.0
#include "gemm_mx.hpp"

#include "../../gpu/kernels/gemm_mx.cuh"
#include "../../gpu/kernels/pieces.cuh"
#include "tcgen05.cuh"

namespace moert::gpu {
namespace {

using F = Fragments<LayoutNv, Codec::mxfp4>;
constexpr int kThreads = 128;
constexpr int kRows = 128, kCols = 128, kPanelsOfTile = kRows / kPanelRows;
constexpr int kStageChunks = 4;          // one byte of a word of scales for each
constexpr int kStripBytes = 16 * kRows;  // 16 numbers of K of every row or column
constexpr int kTileBytes = 2 * kStageChunks * kStripBytes;
constexpr int kScaleBytes = kStageChunks * kRows;
constexpr int kScaleAt = 2 * kTileBytes, kBarrierAt = kScaleAt + 2 * kScaleBytes;
constexpr int kShared = kBarrierAt + 16;
constexpr int kColumns = 256;  // of tensor memory: sums, and scales behind them
constexpr int kScaleA = kCols, kScaleB = kCols + 4;
static_assert(kRows == kCols, "strips of A and B are alike");

// Where a scale lies: 32 lanes of four words, a word's bytes are those of four chunks.
MOERT_DEVICE int scale_place(int row, int chunk) { return row % 32 * 16 + row / 32 * 4 + chunk; }

struct Tile {
  const Projection& w;
  const unsigned char* codes;  // of the first panel
  const unsigned char* powers;
  int panels;  // that there are, of eight
};

// A stage's codes of A, 16 of four bits in 8 bytes and 8 of nothing, and its powers. A packed part is eight neighbours.
MOERT_DEVICE void stage_weights(const Tile& tile, int stage, unsigned char* shared_bytes) {
  const int lane = thread() % 32, units = tile.w.chunks / F::kShape.unit_chunks;
  const int64_t panel_bytes = int64_t{units} * (32 * 16);
  for (int i = thread() / 32; i < kPanelsOfTile * 2; i += kThreads / 32) {
    const int panel = i / 2, unit = stage * 2 + i % 2;
    Word16 word[1] = {};
    if (panel < tile.panels && unit < units)
      load_unit<LayoutNv, F>(tile.codes + panel * panel_bytes, unit, lane, word);
    for (int part = 0; part < 4; ++part) {
      const int row = panel * kPanelRows + lane / 4 + part % 2 * 8;
      const int k = (i % 2 * 2 + part / 2) * kChunk + lane % 4 * 8;
      memcpy(shared_bytes + k / 16 * kStripBytes + row * 16 + k % 16 / 2, &word[0].part[part], 4);
    }
  }
  for (int i = thread(); i < kRows * kStageChunks; i += kThreads) {
    const int row = i / kStageChunks, chunk = stage * kStageChunks + i % kStageChunks;
    const int panel = row / kPanelRows;
    const bool there = panel < tile.panels && chunk < tile.w.chunks;
    shared_bytes[kScaleAt + scale_place(row, i % kStageChunks)] =
        there ? tile.powers[panel * panel_scales(tile.w) + chunk * kPanelRows +
                            PowerPlace<LayoutNv>::of(row % kPanelRows)]
              : 127;
  }
}

// A stage's codes of B, and its scales: a thread has a column.
MOERT_DEVICE void stage_rows(const RowsView& rows, int position, int stage, int chunks,
                             unsigned char* shared_bytes) {
  const unsigned char* row = row_bytes<2>(rows, position);
  const float* scales = rows.scales + int64_t{row_at(rows, position)} * rows.groups;
  for (int c = 0; c < kStageChunks; ++c) {
    const int chunk = stage * kStageChunks + c;
    for (int strip = 0; strip < 2; ++strip) {
      Word16 codes = {};
      for (int i = 0; i < 2 && chunk < chunks; ++i) {
        const Word16 pairs = load16(row + (chunk * kChunk + strip * 16 + i * 8) * int64_t{2});
        codes.part[i * 2] = e4m3_codes(pairs.part[0], pairs.part[1]);
        codes.part[i * 2 + 1] = e4m3_codes(pairs.part[2], pairs.part[3]);
      }
      memcpy(shared_bytes + kTileBytes + (c * 2 + strip) * kStripBytes + thread() * 16, &codes, 16);
    }
    shared_bytes[kScaleAt + kScaleBytes + scale_place(thread(), c)] =
        static_cast<unsigned char>(chunk < chunks ? e8m0_of(scales[chunk]) : 127);
  }
}

// By one thread: a stage's four products.
MOERT_DEVICE void multiply_stage(const unsigned char* shared_bytes, uint32_t sums, int stage) {
  tcgen05::copy_scales(sums + kScaleA, tcgen05::matrix(shared_bytes + kScaleAt, 16, 128));
  tcgen05::copy_scales(sums + kScaleB,
                       tcgen05::matrix(shared_bytes + kScaleAt + kScaleBytes, 16, 128));
  MOERT_UNROLL
  for (int c = 0; c < kStageChunks; ++c) {
    const unsigned char* strips = shared_bytes + 2 * c * kStripBytes;
    tcgen05::multiply(sums, tcgen05::matrix(strips, kStripBytes, 128),
                      tcgen05::matrix(strips + kTileBytes, kStripBytes, 128),
                      tcgen05::mx_instruction(kRows, kCols, c), sums + kScaleA, sums + kScaleB,
                      stage + c > 0);
  }
}

// A thread has a row of the tile; gate and up of a pair of panels are 16 lanes apart.
MOERT_DEVICE void finish_columns(const GemmArgs& args, const Item& item, int panel, int first,
                                 const float (&columns)[8]) {
  const int in_panel = thread() % kPanelRows;
  const float* bias =
      args.weights.bias == nullptr
          ? nullptr
          : args.weights.bias + (int64_t{item.expert} * args.weights.panels + panel) * kPanelRows;
  const bool writes = panel < args.weights.panels && (!args.gated || panel % 2 == 0);
  const int row = (args.gated ? panel / 2 : panel) * kPanelRows + in_panel;
  for (int i = 0; i < 8; ++i) {
    float value = columns[i];
    if (bias != nullptr && panel < args.weights.panels) value += bias[in_panel];
    const float other = shuffle_xor<32>(value, kPanelRows);
    if (!writes || first + i >= item.rows || (row >= args.out_rows && !args.bends)) continue;
    if (args.gated)
      value = bent(args.bend, value, other);
    else if (args.bends)
      value = bent_alone(args.bend, value);
    put_number(args, item.first + first + i, row, row < args.out_rows ? value : 0.0f);
  }
}

// Block (x, y): item x, eight panels from 8y on.
MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void gemm_mx_tile(int64_t first_item, GemmArgs args) {
  const int64_t number = first_item + block_x();
  if (number >= *args.n_items) return;
  const Projection& w = args.weights;
  const Item item = args.items[number];
  const int panel = block_y() * kPanelsOfTile;
  const int units = w.chunks / F::kShape.unit_chunks;
  const Tile tile = {
      w, w.codes + item.expert * w.codes_per_expert + int64_t{panel} * units * (32 * 16),
      w.scales + item.expert * w.scales_per_expert + panel * panel_scales(w), w.panels - panel};
  const int position = item.first + (thread() < item.rows ? thread() : 0);
  auto* barrier = reinterpret_cast<uint64_t*>(shared() + kBarrierAt);
  auto* address = reinterpret_cast<uint32_t*>(shared() + kBarrierAt + 8);

  if (thread() < 32) tcgen05::allocate<kColumns>(address);
  if (thread() == 0) tcgen05::start(barrier);
  tcgen05::before_sync();
  sync_block();
  tcgen05::after_sync();
  const uint32_t sums = *address;

  const int stages = (w.chunks + kStageChunks - 1) / kStageChunks;
  for (int stage = 0; stage < stages; ++stage) {
    stage_weights(tile, stage, shared());
    stage_rows(args.rows, position, stage, w.chunks, shared());
    tcgen05::shared_written();
    sync_block();
    if (thread() == 0) {
      multiply_stage(shared(), sums, stage);
      tcgen05::commit(barrier);
    }
    tcgen05::wait(barrier, stage);
  }
  tcgen05::after_sync();

  for (int first = 0; first < kCols; first += 8) {
    float columns[8];
    tcgen05::load(sums + (static_cast<uint32_t>(thread() / 32 * 32) << 16) + first, columns);
    finish_columns(args, item, panel + thread() / kPanelRows, first, columns);
  }
  tcgen05::before_sync();
  sync_block();
  if (thread() < 32) tcgen05::release<kColumns>(sums);
}

}  // namespace

void launch_mx_tile(const GemmLaunch& go, const GemmArgs& args) {
  const int groups = (args.weights.panels + kPanelsOfTile - 1) / kPanelsOfTile;
  launch_blocks<gemm_mx_tile>({go.most_items, groups}, kThreads, kShared, go.stream, args);
}

}  // namespace moert::gpu
