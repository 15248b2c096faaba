// How batches are cut for the matrix products, and which kernel takes them.
// SPDX-License-Identifier: Apache-2.0
#include "gemm.hpp"

#include <algorithm>

#include "gemm_codecs.hpp"
#include "special.hpp"

namespace moert::gpu {
namespace {

constexpr int64_t kChunk = 32;

// Columns of one tile of the layout.
int64_t tile_cols(LayoutId layout) { return layout == LayoutId::nv ? 8 : 16; }

}  // namespace

int64_t item_rows(LayoutId layout, Tiling tiling) {
  switch (tiling) {
    case Tiling::narrow: return tile_cols(layout);
    case Tiling::wide: return 32;
    default: return layout == LayoutId::nv ? 128 : 64;
  }
}

// By the rows that an expert has on average: what is known before the ids are. An expert that has more gets several
// items, which read its weights again from the cache.
Tiling choose_tiling(LayoutId layout, Codec codec, int64_t slots, int64_t experts, int64_t tokens) {
  const int64_t mean = (slots + experts - 1) / experts;
  if (codec == Codec::f32 || tokens <= tile_cols(layout) || mean <= tile_cols(layout) / 2)
    return Tiling::narrow;
  return mean < 2 * 32 ? Tiling::wide : Tiling::blocks;
}

int32_t sum_period(const Projection& weights, const RowsView& rows) {
  if (weights.scale_kind == ScaleKind::none && rows.scales == nullptr) return 0;
  int64_t period = weights.chunks;
  if (weights.scale_kind == ScaleKind::powers) period = 1;
  if (weights.scale_chunks != 0) period = std::min<int64_t>(period, weights.scale_chunks);
  if (rows.scales != nullptr && rows.group != 0)
    period = std::min<int64_t>(period, rows.group / kChunk);
  return static_cast<int32_t>(period);
}

void launch_gemm(LayoutId layout, Codec codec, Tiling tiling, const GemmArgs& args,
                 int64_t most_items, int32_t multiprocessors, Stream stream, GemmKernel kernel) {
  if (most_items == 0) return;
  const GemmLaunch go{tiling, most_items, multiprocessors, stream};
  if (kernel == GemmKernel::native || (kernel == GemmKernel::wgmma && tiling == Tiling::blocks))
    return launch_special(kernel, codec, go, args);
  switch (codec) {
    case Codec::bf16: return launch_bf16(layout, go, args);
    case Codec::fp8: return launch_fp8(layout, go, args);
    case Codec::mxfp4: return launch_mxfp4(layout, go, args);
    default: return launch_f32(layout, go, args);
  }
}

}  // namespace moert::gpu
