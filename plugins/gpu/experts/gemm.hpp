// The two matrix products of experts: launches, and the records that they take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime.hpp"
#include "formats.hpp"
#include "views.hpp"

namespace moert::gpu {

// The function between the projections (docs/numerics.md, "Experts"), as kernels read it.
enum class Curve : uint8_t { silu, gelu, gelu_tanh, relu, relu2, swigluoai, swiglustep, situ };
struct Bend {
  Curve curve = Curve::silu;
  float alpha = 0, beta = 0;
  float limit = 0;  // +Inf: no clamp
};

// One projection of every expert, packed (packed.hpp): panels of 16 rows, of which gate and up alternate where both
// are there. All pointers are on the device.
struct Projection {
  const unsigned char* codes = nullptr;
  const unsigned char* scales = nullptr;
  const float* bias = nullptr;  // [experts, panels * 16] in the order of panels, or NULL
  int64_t codes_per_expert = 0, scales_per_expert = 0;  // bytes
  int32_t panels = 0;
  int32_t chunks = 0;  // of 32 numbers of K, whole units
  ScaleKind scale_kind = ScaleKind::none;
  int32_t scale_blocks = 0;  // of K
  int32_t scale_chunks = 0;  // chunks of a block
};

// C[position, row] for every position of the plan. Columns of the rows are padded to 32 * weights.chunks.
struct GemmArgs {
  Projection weights;
  RowsView rows;
  const Item* items = nullptr;
  const int32_t* n_items = nullptr;
  // Chunks after which sums are scaled and added up; 0 where nothing is scaled.
  int32_t period = 0;
  // Rows of the result that exist; those behind, up to the panels' end, are written as 0 where `bends`.
  int32_t out_rows = 0;
  // Gate and up become one number by the bend; or, without a gate half, up alone. Otherwise C is written as f32.
  bool bends = false, gated = false;
  Bend bend;
  void* out = nullptr;
  int64_t out_stride = 0;              // elements from one position to the next
  Element out_element = Element::f32;  // f32 unless `bends`
};

// How a batch is cut. `narrow` and `wide` stream weights into registers for one and for a few columns of tiles; `blocks`
// is for many rows an expert. All of them add in the same order, so results are the same bits. Weights of f32 have
// `narrow` alone.
enum class Tiling : uint8_t { narrow, wide, blocks };
Tiling choose_tiling(LayoutId layout, Codec codec, int64_t slots, int64_t experts, int64_t tokens);
// Most rows of an item.
int64_t item_rows(LayoutId layout, Tiling tiling);

// Which instructions multiply. `mma` is every device's, and what runs unless another is asked for by name (special.hpp):
// wgmma for tilings of blocks, native for all of them. What a row comes to may then depend on the tiling.
enum class GemmKernel : uint8_t { mma, wgmma, native };

// Enqueues. `most_items` bounds *n_items, `multiprocessors` the blocks that are worth having.
void launch_gemm(LayoutId layout, Codec codec, Tiling tiling, const GemmArgs& args,
                 int64_t most_items, int32_t multiprocessors, Stream stream,
                 GemmKernel kernel = GemmKernel::mma);

// Period of sums for weights whose scales hold for `scale_chunks` chunks (0: for all of K, or no scales) and rows whose
// scales hold for `group` numbers (0 alike). One must divide the other.
int32_t sum_period(const Projection& weights, const RowsView& rows);

}  // namespace moert::gpu
