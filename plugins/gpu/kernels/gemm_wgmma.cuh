// Many rows an expert, where four warps multiply together out of shared memory (wgmma, NVIDIA Hopper).
// SPDX-License-Identifier: Apache-2.0
//
// A backend that has the instruction gives <moert_gpu_wgmma.cuh>, all of it in moert::gpu:
//   uint64_t shared_matrix(const void* shared, uint32_t k_step, uint32_t col_step);
//     describes columns of B: blocks of 8 columns by 8 numbers of K, 16 bytes of a column after the other; `k_step` and
//     `col_step` are the bytes to the next block of K and of columns, multiples of 16.
//   void wgmma_m64k16_bf16(float (&d)[kTiles][4], const uint32_t (&a)[4], uint64_t b);   kTiles is 8 or 16
//     D += A B of 64 rows, 16 for each warp, and kTiles * 8 columns. Each warp has A and D by tiles as mma.m16n8k16 has
//     them. Asynchronous: d, a and what b describes are neither read nor written before a wait.
//   void wgmma_begin();     what was written to registers so far is seen by the products that follow
//   void wgmma_commit();    closes a group of products
//   void wgmma_wait<N>();   all but the last N groups are done
//   void wgmma_give(a);     registers of A are ready: before wgmma_begin
//   void wgmma_take(d);     behind a wait, and before sums are read
//   void shared_written();  what this thread has written to shared memory is seen by products behind the next barrier
#pragma once

#include <moert_gpu_wgmma.cuh>

#include "gemm_stream.cuh"

namespace moert::gpu {

// Two groups of four warps; a warp has two panels, so that it holds gate and up of the same rows. Plain sums take half
// of the registers, and the groups take panels of their own; where codes are scaled there are sums and totals, and the
// groups take columns of their own. A stage is two chunks of K.
template <Codec kCodec>
struct WgmmaTile {
  using L = LayoutNv;
  using F = Fragments<L, kCodec>;
  static constexpr int kThreads = 256, kGroupThreads = 128;
  static constexpr int kGroupPanels = 8;
  static constexpr int kPanels = F::kScaled ? kGroupPanels : 2 * kGroupPanels;
  static constexpr int kCols = 128;
  static constexpr int kGroupCols = F::kScaled ? kCols / 2 : kCols;
  static constexpr int kTiles = kGroupCols / L::kCols;  // of a group
  static constexpr int kChunks = 2, kUnits = kChunks / F::kShape.unit_chunks;
  static constexpr int kStages = 3;
  static constexpr int kPieceBytes = kCols * 16;  // every column's 16 bytes of one step's half
  static constexpr int kStageBytes = kChunks * 4 * kPieceBytes;
  static constexpr int kShared = kStages * kStageBytes;
  static_assert(kUnits * F::kShape.unit_chunks == kChunks, "a stage is whole units");
  static_assert(kThreads == kCols * kChunks, "a thread stages one chunk of one row");

  // A warp's sums of one panel, and a lane's words of both panels in a stage.
  using Sums = float[kTiles][L::kC];
  using Words = Word16[2][kUnits][F::kShape.words];
};

// Rows of the batch come through registers. A lane's A fragment has k = 8q ... 8q + 7 of a chunk (q = lane % 4), where
// the instruction, in step s, wants 2q, 2q + 1 and 2q + 8, 2q + 9 of its 16. So 4-byte word w = 2s + h of a row's
// quarter q belongs at half h of step s, word q: the chunk's 4 x 4 words are transposed, which costs nothing for who
// loads all 64 bytes of them and names registers anew. Copies past the registers could move no more than 4 bytes each.
struct RowChunk {
  Word16 quarter[4];

  MOERT_DEVICE void load(const unsigned char* row, int chunk, int chunks) {
    MOERT_UNROLL
    for (int q = 0; q < 4; ++q)
      quarter[q] = chunk < chunks ? load16(row + int64_t{chunk} * 64 + q * 16) : Word16{};
  }
  // Blocks of 8 columns by 16 bytes: products read whole blocks, and eight lanes that write together fill one.
  template <class T>
  MOERT_DEVICE void store(unsigned char* stage, int chunk_in_stage, int col) const {
    MOERT_UNROLL
    for (int w = 0; w < 4; ++w) {
      const Word16 piece = {
          {quarter[0].part[w], quarter[1].part[w], quarter[2].part[w], quarter[3].part[w]}};
      memcpy(stage + (chunk_in_stage * 4 + w) * T::kPieceBytes + col * 16, &piece, 16);
    }
  }
};

// A lane's words of both panels in a stage, straight from memory: no other warp of the group wants them. Behind the end
// of K the last unit is read again. No branch: the compiler gives up to overlap products with code that has one here.
template <class T>
MOERT_DEVICE void load_words(const unsigned char* const (&panels)[2], int stage, int units,
                             int lane, typename T::Words& words) {
  MOERT_UNROLL
  for (int p = 0; p < 2; ++p) MOERT_UNROLL
  for (int u = 0; u < T::kUnits; ++u) {
    const int unit = stage * T::kUnits + u;
    load_unit<typename T::L, typename T::F>(panels[p], unit < units ? unit : units - 1, lane,
                                            words[p][u]);
  }
}

// One stage's products of the `chunks` that are left. Plain sums go on; those of codes are waited for behind each chunk,
// where `scale` may take them. Codes are decoded before products begin: the compiler lets no other instruction write
// their registers while some are under way.
template <class T, class Scale>
MOERT_DEVICE void multiply_words(const typename T::Words& words, int chunks,
                                 const unsigned char* stage, int col, typename T::Sums (&sums)[2],
                                 Scale&& scale) {
  using F = typename T::F;
  typename F::A a[T::kChunks][2];
  MOERT_UNROLL
  for (int c = 0; c < T::kChunks; ++c) MOERT_UNROLL
  for (int p = 0; p < 2; ++p) {
    F::decode(words[p][c / F::kShape.unit_chunks], c % F::kShape.unit_chunks, a[c][p]);
    wgmma_give(a[c][p]);
  }
  wgmma_begin();
  MOERT_UNROLL
  for (int c = 0; c < T::kChunks; ++c) {
    if (c >= chunks) break;
    MOERT_UNROLL
    for (int step = 0; step < 2; ++step) {
      const uint64_t b = shared_matrix(stage + (c * 4 + step * 2) * T::kPieceBytes + col * 16,
                                       T::kPieceBytes, 128);
      MOERT_UNROLL
      for (int p = 0; p < 2; ++p) {
        const uint32_t rows[4] = {a[c][p][step * 2], a[c][p][4 + step * 2], a[c][p][step * 2 + 1],
                                  a[c][p][5 + step * 2]};
        wgmma_m64k16_bf16(sums[p], rows, b);
      }
    }
    if constexpr (F::kScaled) {
      wgmma_commit();
      wgmma_wait<0>();
      MOERT_UNROLL
      for (int p = 0; p < 2; ++p) wgmma_take(sums[p]);
      scale(c);
      wgmma_begin();
    }
  }
  wgmma_commit();
}

// What a warp's sums come to.
template <class T, int kPanels>
MOERT_DEVICE void finish_panels(const GemmArgs& args, const Item& item, int panel, int first_col,
                                int lane, const typename T::Sums (&sums)[2]) {
  using L = typename T::L;
  const int end = item.first + item.rows;
  MOERT_UNROLL
  for (int t = 0; t < T::kTiles; ++t) {
    LaneCols<L> cols;
    cols.set({}, item.first + first_col + t * L::kCols, lane, end, item.first);
    MOERT_UNROLL
    for (int p = 0; p < 2; p += kPanels) {
      if (panel + p >= args.weights.panels) continue;
      float tile[kPanels][L::kC];
      memcpy(&tile, &sums[p][t], sizeof tile[0]);
      if constexpr (kPanels == 2) memcpy(&tile[1], &sums[1][t], sizeof tile[1]);
      finish_sums<L, kPanels>(args, item.expert, (panel + p) / kPanels, lane, end, cols, tile);
    }
  }
}

// C of kPanels' panels and up to 128 positions at a time; blocks take tiles in turn, as gemm_blocks does. kPanels is 2
// where gate and up alternate. Sums are added in the order of K too, but how one product rounds inside is the
// instruction's affair: results may differ from those of the other kernels in their last bits.
template <Codec kCodec, int kPanels>
MOERT_KERNEL MOERT_BOUNDS(256, 1) void gemm_wgmma(GemmArgs args) {
  using T = WgmmaTile<kCodec>;
  using L = typename T::L;
  using F = typename T::F;
  const Projection& w = args.weights;
  const int lane = thread() % L::kWarp, group = thread() / T::kGroupThreads;
  const int warp_panel = thread() % T::kGroupThreads / L::kWarp * 2;
  const int first_panel = warp_panel + (F::kScaled ? 0 : group * T::kGroupPanels);
  const int first_col = F::kScaled ? group * T::kGroupCols : 0;
  // Eight lanes stage eight rows, and the next eight the same rows' other chunk: a warp reads whole lines.
  const int my_row = thread() / 16 * 8 + thread() % 8, my_chunk = thread() / 8 % 2;
  const int units = w.chunks / F::kShape.unit_chunks;
  const int stages = (w.chunks + T::kChunks - 1) / T::kChunks;
  const int64_t panel_bytes = int64_t{units} * (F::kShape.words * L::kWarp * 16);
  const int parts = (w.panels + T::kPanels - 1) / T::kPanels;

  for (int tile = block_x(); tile < *args.n_items * parts; tile += blocks_x()) {
    // Which panels, which rows. What does not exist is read as the first that does, and not written.
    const Item item = args.items[tile / parts];
    const int panel = tile % parts * T::kPanels + first_panel;
    const unsigned char* panels[2];
    MOERT_UNROLL
    for (int p = 0; p < 2; ++p)
      panels[p] = w.codes + item.expert * w.codes_per_expert +
                  (panel + p < w.panels ? panel + p : 0) * panel_bytes;
    const unsigned char* row =
        row_bytes<F::kElementBytes>(args.rows, item.first + (my_row < item.rows ? my_row : 0));

    typename T::Sums sums[2] = {}, total[2] = {};
    LaneCols<L> cols[F::kScaled ? T::kTiles : 1];
    if constexpr (F::kScaled) MOERT_UNROLL
    for (int t = 0; t < T::kTiles; ++t)
      cols[t].set(args.rows, item.first + first_col + t * L::kCols, lane, item.first + item.rows,
                  item.first);
    int until_scaled = args.period;
    const auto scale = [&](int chunk) {
      if constexpr (F::kScaled) {
        if (--until_scaled != 0 && chunk + 1 != w.chunks) return;
        until_scaled = args.period;
        const int rows_group = args.rows.group == 0 ? 0 : chunk * kChunk / args.rows.group;
        MOERT_UNROLL
        for (int p = 0; p < 2; ++p) {
          if (panel + p >= w.panels) continue;
          float factors[L::kC];
          weight_scales<L, kCodec>(
              w, w.scales + item.expert * w.scales_per_expert + (panel + p) * panel_scales(w),
              chunk, lane, factors);
          MOERT_UNROLL
          for (int t = 0; t < T::kTiles; ++t)
            add_scaled<L>(args.rows, cols[t], factors, rows_group, sums[p][t], total[p][t]);
        }
      }
    };

    // Sums over K. While a stage is multiplied, the next one's rows are put into shared memory, those of the one after
    // are on their way into registers; weights come once the stage that had their registers is done.
    RowChunk rows;
    typename T::Words words[2];
    const auto put_rows = [&](int stage) {
      rows.store<T>(shared() + stage % T::kStages * T::kStageBytes, my_chunk, my_row);
      shared_written();
      rows.load(row, (stage + 1) * T::kChunks + my_chunk, w.chunks);
    };
    const auto multiply = [&](int side, int stage) {
      if (stage >= stages) return;
      sync_block();  // its rows are there; products of the stage before the last one are done, in both groups
      const int first = stage * T::kChunks;
      multiply_words<T>(words[side], w.chunks - first,
                        shared() + stage % T::kStages * T::kStageBytes, first_col, sums,
                        [&](int c) { scale(first + c); });
      put_rows(stage + 1);
      wgmma_wait<1>();
      load_words<T>(panels, stage + 1, units, lane, words[1 - side]);
    };
    rows.load(row, my_chunk, w.chunks);
    put_rows(0);
    load_words<T>(panels, 0, units, lane, words[0]);
    for (int stage = 0; stage < stages; stage += 2) {
      multiply(0, stage);
      multiply(1, stage + 1);
    }
    wgmma_wait<0>();
    MOERT_UNROLL
    for (int p = 0; p < 2; ++p) wgmma_take(sums[p]);
    sync_block();  // the next tile writes where this one has read
    finish_panels<T, kPanels>(args, item, panel, first_col, lane, F::kScaled ? total : sums);
  }
}

}  // namespace moert::gpu
