// Block-scaled products: maps, and the sums that each lane computes for itself.
// SPDX-License-Identifier: Apache-2.0
#include "mx.hpp"

#include <cstring>
#include <moert/sdk/small_floats.hpp>

namespace moert::sim {
namespace {

constexpr int kBlock = 32;  // numbers that share a scale

struct Registers {
  uint32_t a[4], b[8], scale_a, scale_b;
};
static_assert(sizeof(Registers) <= kSlotBytes);

uint32_t code_of(const uint32_t* words, int index, int bits) {
  const int per_word = 32 / bits;
  return words[index / per_word] >> index % per_word * bits & ((1u << bits) - 1);
}

double a_number(const MxMap& map, const Registers& lane, int index, Site at) {
  uint32_t code = code_of(lane.a, index, map.a_bits);
  if (map.a_bits == 8) {
    if ((code & ~0x3cu) != 0) die("a code of e2m1 that is not in the middle of its byte", at);
    code >>= 2;
  }
  return static_cast<double>(e2m1_to_f32(static_cast<uint8_t>(code)));
}

// The hardware's order within a product is not published: here a product is exact, and rounded once.
void multiply(const MxMap& map, float (&d)[4], const Registers& mine, Op op, Site at) {
  const Slot* slots = exchange(map.width, op, at, mine);
  const auto lane_of = [&](int lane) {
    Registers registers;
    std::memcpy(&registers, slots[lane], sizeof registers);
    return registers;
  };
  const auto scale = [](uint32_t code) {
    return static_cast<double>(e8m0_to_f32(static_cast<uint8_t>(code)));
  };
  const int lane = static_cast<int>(current.thread) % map.width;
  for (int i = 0; i < 4; ++i) {
    const int row = map.row(lane, i), column = map.column(lane, i);
    double sum = static_cast<double>(d[i]);
    for (int k = 0; k < map.k; ++k) {
      const Spot a = map.a(row, k), b = map.b(k, column);
      const double b_number = static_cast<double>(
          e4m3fn_to_f32(static_cast<uint8_t>(code_of(lane_of(b.lane).b, b.index, 8))));
      sum += a_number(map, lane_of(a.lane), a.index, at) * b_number *
             scale(lane_of(map.scale_a(row, k / kBlock)).scale_a & 0xffu) *
             scale(lane_of(map.scale_b(k / kBlock, column)).scale_b & 0xffu);
    }
    d[i] = static_cast<float>(sum);
  }
}

}  // namespace

// Four neighbours of K to a register; of A the halves of rows come first, then the halves of K. The lower two lanes of
// each four hand in the scales of A for both halves of rows.
const MxMap kMxMma = {
    32,
    8,
    32,
    8,
    2,
    [](int row, int k) -> Spot {
      return {row % 8 * 4 + k % 16 / 4, row / 8 * 4 + k / 16 * 8 + k % 4};
    },
    [](int k, int column) -> Spot { return {column * 4 + k % 16 / 4, k / 16 * 4 + k % 4}; },
    [](int row, int) { return row % 8 * 4 + row / 8; },
    [](int, int column) { return column * 4; },
    [](int lane, int i) { return lane / 4 + i / 2 * 8; },
    [](int lane, int i) { return lane % 4 * 2 + i % 2; },
};

// Four groups of sixteen lanes: each has 32 neighbours of a row of A, and twice sixteen of a column of B.
const MxMap kMxMfma = {
    64,
    16,
    128,
    4,
    8,
    [](int row, int k) -> Spot { return {row + k / 32 * 16, k % 32}; },
    [](int k, int column) -> Spot { return {column + k % 64 / 16 * 16, k / 64 * 16 + k % 16}; },
    [](int row, int chunk) { return row + chunk * 16; },
    [](int chunk, int column) { return column + chunk * 16; },
    [](int lane, int i) { return lane / 16 * 4 + i; },
    [](int lane, int) { return lane % 16; },
};

void mx_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t scale_a,
                 uint32_t scale_b, Site at) {
  multiply(kMxMma, d, {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, scale_a, scale_b}, Op::mx, at);
}

void mx_16x16x128(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[8], uint32_t scale_a,
                  uint32_t scale_b, Site at) {
  Registers mine = {{a[0], a[1], a[2], a[3]}, {}, scale_a, scale_b};
  std::memcpy(mine.b, b, sizeof b);
  multiply(kMxMfma, d, mine, Op::mx, at);
}

}  // namespace moert::sim
