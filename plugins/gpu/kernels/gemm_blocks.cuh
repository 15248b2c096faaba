// Many rows an expert: blocks stage weights and rows in shared memory, and every number is used many times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm_stream.cuh"

namespace moert::gpu {

constexpr int kBlockWarps = 8;

// Eight warps, four of them over panels and two over columns. What a block stages of K is a whole number of units.
template <class L, Codec kCodec>
struct BlockTile {
  using F = Fragments<L, kCodec>;
  static constexpr int kThreads = kBlockWarps * L::kWarp;
  static constexpr int kPanels = 8, kWarpPanels = 2;
  static constexpr int kCols = L::kCols == 8 ? 128 : 64;
  static constexpr int kWarpTiles = kCols / 2 / L::kCols;
  static constexpr int kUnit = F::kShape.unit_chunks;
  static constexpr int kChunks = kUnit < 2 ? 2 : kUnit;  // of a stage
  static constexpr int kUnits = kChunks / kUnit;
  static constexpr int kStages = L::kCols == 8 ? 3 : 2;
  static constexpr int kUnitBytes = F::kShape.words * L::kWarp * 16;
  static constexpr int kWeightBytes = kPanels * kUnits * kUnitBytes;
  static constexpr int kRowBytes = kCols * kChunks * 64;
  static constexpr int kStageBytes = kWeightBytes + kRowBytes;
  static constexpr int kShared = kStages * kStageBytes;
};

// Where 16 bytes of a row lie among those of a chunk's rows, such that lanes that read together meet no bank twice.
MOERT_DEVICE int row_place(int row, int quarter) {
  return (row * 4 + (quarter ^ (row >> 1 & 3))) * 16;
}

// Copies a stage: units of every panel as they are, and 64 bytes of every row for each chunk.
template <class T>
MOERT_DEVICE void stage(const unsigned char* codes, int64_t panel_bytes, int panels, int stage_unit,
                        int units, const unsigned char* const (&rows)[2], unsigned char* to) {
  constexpr int kPieces = T::kUnits * T::kUnitBytes / 16;  // of a panel
  for (int i = thread(); i < T::kPanels * kPieces; i += T::kThreads) {
    const int panel = i / kPieces, piece = i % kPieces;
    const bool there = panel < panels && stage_unit + piece / (T::kUnitBytes / 16) < units;
    const unsigned char* from =
        codes + panel * panel_bytes + int64_t{stage_unit} * T::kUnitBytes + piece * 16;
    copy16(to + i * 16, there ? from : codes, there);
  }
  // A thread copies the same quarter of the same rows for every chunk.
  const int quarter = thread() % 4;
  MOERT_UNROLL
  for (int c = 0; c < T::kChunks; ++c) {
    const int chunk = stage_unit * T::kUnit + c;
    const bool there = chunk < units * T::kUnit;
    MOERT_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = thread() / 4 + r * (T::kThreads / 4);
      if (row >= T::kCols) continue;
      copy16(to + T::kWeightBytes + c * T::kCols * 64 + row_place(row, quarter),
             rows[r] + (there ? int64_t{chunk} * 64 + quarter * 16 : 0), there);
    }
  }
}

// One stage's part of a warp's sums.
template <class L, Codec kCodec, class Scale>
MOERT_DEVICE void multiply_stage(const unsigned char* from, int first_panel, int first_col,
                                 int lane, int stage_chunk, int chunks,
                                 float (&sums)[BlockTile<L, kCodec>::kWarpTiles][2][L::kC],
                                 Scale&& scale) {
  using T = BlockTile<L, kCodec>;
  using F = Fragments<L, kCodec>;
  MOERT_UNROLL
  for (int u = 0; u < T::kUnits; ++u) {
    Word16 words[2][F::kShape.words];
    MOERT_UNROLL
    for (int p = 0; p < 2; ++p) MOERT_UNROLL
    for (int w = 0; w < F::kShape.words; ++w)
      memcpy(&words[p][w],
             from + (first_panel + p) * T::kUnits * T::kUnitBytes + u * T::kUnitBytes +
                 (w * L::kWarp + lane) * 16,
             16);
    MOERT_UNROLL
    for (int c = 0; c < T::kUnit; ++c) {
      const int in_stage = u * T::kUnit + c;
      if (stage_chunk + in_stage >= chunks) continue;
      typename F::A a[2];
      MOERT_UNROLL
      for (int p = 0; p < 2; ++p) F::decode(words[p], c, a[p]);
      MOERT_UNROLL
      for (int t = 0; t < T::kWarpTiles; ++t) {
        typename F::B b;
        const int row = first_col + t * L::kCols + L::b_col(lane);
        MOERT_UNROLL
        for (int i = 0; i < L::kB / 8; ++i)
          memcpy(reinterpret_cast<unsigned char*>(&b) + i * 16,
                 from + T::kWeightBytes + in_stage * T::kCols * 64 +
                     row_place(row, L::b_k(lane, 0) / 8 + i),
                 16);
        MOERT_UNROLL
        for (int p = 0; p < 2; ++p) L::multiply(sums[t][p], a[p], b);
      }
      scale(stage_chunk + in_stage);
    }
  }
}

// C of 8 panels and kCols positions at a time: a block takes every blocks_x()-th tile, tiles of one item one after the
// other, so that what is read of its rows stays in the caches. kPanels is 2 where gate and up alternate.
template <class L, Codec kCodec, int kPanels>
MOERT_KERNEL MOERT_BOUNDS(kBlockWarps* L::kWarp, 1) void gemm_blocks(GemmArgs args) {
  using T = BlockTile<L, kCodec>;
  using F = Fragments<L, kCodec>;
  const Projection& w = args.weights;
  const int lane = thread() % L::kWarp, warp = thread() / L::kWarp;
  const int first_panel = warp / 2 * 2, first_col = warp % 2 * (T::kCols / 2);
  const int units = w.chunks / T::kUnit, stages = (w.chunks + T::kChunks - 1) / T::kChunks;
  const int64_t panel_bytes = int64_t{units} * T::kUnitBytes;
  const int groups = (w.panels + T::kPanels - 1) / T::kPanels;
  const int tiles = *args.n_items * groups;

  for (int tile = block_x(); tile < tiles; tile += blocks_x()) {
    // Which panels, which rows. Rows that the item does not have are those of its first position.
    const Item item = args.items[tile / groups];
    const int end = item.first + item.rows;
    const int tile_panel = tile % groups * T::kPanels;
    const unsigned char* codes =
        w.codes + item.expert * w.codes_per_expert + tile_panel * panel_bytes;
    const unsigned char* rows[2];
    MOERT_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = thread() / 4 + r * (T::kThreads / 4);
      rows[r] =
          row_bytes<F::kElementBytes>(args.rows, row < item.rows ? item.first + row : item.first);
    }
    LaneCols<L> lane_cols[T::kWarpTiles];
    MOERT_UNROLL
    for (int t = 0; t < T::kWarpTiles; ++t)
      lane_cols[t].set(args.rows, item.first + first_col + t * L::kCols, lane, end, item.first);

    // Sums over K, with kStages - 1 stages on their way.
    float sums[T::kWarpTiles][2][L::kC] = {};
    float total[T::kWarpTiles][2][L::kC] = {};
    int until_scaled = args.period;
    const auto scale = [&](int chunk) {
      if constexpr (F::kScaled) {
        if (--until_scaled != 0 && chunk + 1 != w.chunks) return;
        until_scaled = args.period;
        const int group = args.rows.group == 0 ? 0 : chunk * kChunk / args.rows.group;
        MOERT_UNROLL
        for (int p = 0; p < 2; ++p) {
          const int panel = tile_panel + first_panel + p;
          if (panel >= w.panels) continue;
          float factors[L::kC];
          weight_scales<L, kCodec>(
              w, w.scales + item.expert * w.scales_per_expert + panel * panel_scales(w), chunk,
              lane, factors);
          MOERT_UNROLL
          for (int t = 0; t < T::kWarpTiles; ++t)
            add_scaled<L>(args.rows, lane_cols[t], factors, group, sums[t][p], total[t][p]);
        }
      }
    };
    const auto copy = [&](int s) {
      if (s < stages)
        stage<T>(codes, panel_bytes, w.panels - tile_panel, s * T::kUnits, units, rows,
                 shared() + s % T::kStages * T::kStageBytes);
      copy_commit();
    };
    for (int s = 0; s < T::kStages - 1; ++s) copy(s);
    for (int s = 0; s < stages; ++s) {
      copy_wait<T::kStages - 2>();
      sync_block();  // the stage is there for all, and nobody reads the one that is written next
      copy(s + T::kStages - 1);
      multiply_stage<L, kCodec>(shared() + s % T::kStages * T::kStageBytes, first_panel, first_col,
                                lane, s * T::kChunks, w.chunks, sums, scale);
    }
    copy_wait<0>();
    sync_block();  // the next tile writes where this one has read

    // What the sums come to.
    MOERT_UNROLL
    for (int t = 0; t < T::kWarpTiles; ++t) {
      auto& all = F::kScaled ? total[t] : sums[t];
      if constexpr (kPanels == 2) {
        if (tile_panel + first_panel < w.panels)
          finish_sums<L, 2>(args, item.expert, (tile_panel + first_panel) / 2, lane, end,
                            lane_cols[t], all);
      } else {
        MOERT_UNROLL
        for (int p = 0; p < 2; ++p) {
          float single[1][L::kC];
          memcpy(&single, &all[p], sizeof single);
          if (tile_panel + first_panel + p < w.panels)
            finish_sums<L, 1>(args, item.expert, tile_panel + first_panel + p, lane, end,
                              lane_cols[t], single);
        }
      }
    }
  }
}

}  // namespace moert::gpu
