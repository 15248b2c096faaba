// The order in which the numbers of a weight's panel lie, so that a warp reads whole lines straight into registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "../runtime.hpp"
#include "formats.hpp"

namespace moert::gpu {

// A unit is the chunks of K that a lane has in one or more words of 16 bytes. A panel is units one after the other; a
// unit is [word][lane] words of 16 bytes, and a lane's words hold its numbers of each chunk in the order of
// tile/layouts.cuh.
struct UnitShape {
  int32_t chunks;  // of 32 numbers
  int32_t bytes;   // of all lanes
};
UnitShape unit_shape(LayoutId layout, Codec codec);

// Packs 16 rows of `chunks` * 32 numbers, `chunks` whole units. Codes of eight or fewer bits come as one byte each.
void pack_panel(LayoutId layout, Codec codec, const void* rows, int64_t chunks, unsigned char* out);

// Where the power of a panel's row stands among the 16 of a chunk.
int32_t power_place(LayoutId layout, int32_t row);

}  // namespace moert::gpu
