// The order in which the numbers of a weight's panel lie. Host code, beside the layouts that it follows.
// SPDX-License-Identifier: Apache-2.0
#include "pack.hpp"

#include <cstring>

#include "../kernels/codecs.cuh"

namespace moert::gpu {
namespace {

// Numbers of a lane that are neighbours in a row and in the lane.
constexpr int kRun = 8;

// One lane's numbers of a chunk, as bytes: codes of four bits two to a byte, the first in the low half.
void put_run(const unsigned char* from, int bits, unsigned char* to) {
  if (bits != 4) {
    std::memcpy(to, from, static_cast<size_t>(kRun * bits / 8));
    return;
  }
  for (int i = 0; i < kRun; i += 2)
    to[i / 2] = static_cast<unsigned char>((from[i] & 0xf) | (from[i + 1] & 0xf) << 4);
}

template <class L>
void pack(Codec codec, const unsigned char* rows, int64_t chunks, unsigned char* out) {
  const CodecShape shape = codec_shape<L>(codec);
  const int64_t source = shape.bits == 4 ? 1 : shape.bits / 8;  // bytes of a number as it comes
  const int chunk_bytes = L::kA * shape.bits / 8;               // of a lane
  unsigned char lane_bytes[L::kA * 4 * 4];                      // of a unit, at most
  for (int64_t unit = 0; unit < chunks; unit += shape.unit_chunks) {
    for (int lane = 0; lane < L::kWarp; ++lane) {
      for (int chunk = 0; chunk < shape.unit_chunks; ++chunk)
        for (int i = 0; i < L::kA; i += kRun) {
          const int64_t k = (unit + chunk) * kChunk + L::a_k(lane, i);
          put_run(rows + (L::a_row(lane, i) * chunks * kChunk + k) * source, shape.bits,
                  lane_bytes + chunk * chunk_bytes + i * shape.bits / 8);
        }
      for (int word = 0; word < shape.words; ++word)
        std::memcpy(out + (word * L::kWarp + lane) * 16, lane_bytes + word * 16, 16);
    }
    out += shape.words * L::kWarp * 16;
  }
}

// Calls `use` with a value of the layout's type.
template <class Use>
auto with_layout(LayoutId layout, Use&& use) {
  switch (layout) {
    case LayoutId::cdna: return use(LayoutCdna{});
    case LayoutId::rdna: return use(LayoutRdna{});
    default: return use(LayoutNv{});
  }
}

}  // namespace

UnitShape unit_shape(LayoutId layout, Codec codec) {
  return with_layout(layout, [codec](auto l) {
    const CodecShape shape = codec_shape<decltype(l)>(codec);
    return UnitShape{shape.unit_chunks, shape.words * 16 * decltype(l)::kWarp};
  });
}

void pack_panel(LayoutId layout, Codec codec, const void* rows, int64_t chunks,
                unsigned char* out) {
  with_layout(layout, [&](auto l) {
    pack<decltype(l)>(codec, static_cast<const unsigned char*>(rows), chunks, out);
  });
}

int32_t power_place(LayoutId layout, int32_t row) {
  return with_layout(layout, [row](auto l) { return PowerPlace<decltype(l)>::of(row); });
}

}  // namespace moert::gpu
