// Register maps, and the product that one lane computes for its warp.
// SPDX-License-Identifier: Apache-2.0
#include "instructions.hpp"

#include <cmath>
#include <cstring>

namespace moert::sim {

// Lanes in groups of four: a group holds row (column) lane / 4, its lanes pairs of neighbours in k.
// Of A the halves of rows come first, then the halves of k.
constexpr InstructionMap kMma = {
    .width = 32,
    .m = 16,
    .n = 8,
    .k = 16,
    .a_numbers = 8,
    .b_numbers = 4,
    .d_numbers = 4,
    .a = [](int lane, int i) -> Entry {
      return {lane / 4 + (i / 2 % 2) * 8, lane % 4 * 2 + i % 2 + i / 4 * 8};
    },
    .b = [](int lane, int i) -> Entry { return {lane % 4 * 2 + i % 2 + i / 2 * 8, lane / 4}; },
    .d = [](int lane, int i) -> Entry { return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2}; },
};

// Four groups of sixteen lanes: a lane holds row (column) lane % 16, four neighbours in k; of D four rows of a column.
constexpr InstructionMap kMfma = {
    .width = 64,
    .m = 16,
    .n = 16,
    .k = 16,
    .a_numbers = 4,
    .b_numbers = 4,
    .d_numbers = 4,
    .a = [](int lane, int i) -> Entry { return {lane % 16, lane / 16 * 4 + i}; },
    .b = [](int lane, int i) -> Entry { return {lane / 16 * 4 + i, lane % 16}; },
    .d = [](int lane, int i) -> Entry { return {lane / 16 * 4 + i, lane % 16}; },
};

// Two halves of sixteen lanes: a lane holds row (column) lane % 16, eight neighbours in k; of D eight rows of a column.
constexpr InstructionMap kWmma = {
    .width = 32,
    .m = 16,
    .n = 16,
    .k = 16,
    .a_numbers = 8,
    .b_numbers = 8,
    .d_numbers = 8,
    .a = [](int lane, int i) -> Entry { return {lane % 16, lane / 16 * 8 + i}; },
    .b = [](int lane, int i) -> Entry { return {lane / 16 * 8 + i, lane % 16}; },
    .d = [](int lane, int i) -> Entry { return {lane / 16 * 8 + i, lane % 16}; },
};

namespace {

// A lane's registers as they are handed in, and where its sums come back.
template <int A, int B, int D>
struct Registers {
  uint32_t a[A], b[B];
  float d[D];
};

float number(const uint32_t* registers, int i) {
  const uint32_t word = registers[i / 2];
  const uint32_t bits = i % 2 == 0 ? word << 16 : word & 0xffff0000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class Lane, const InstructionMap& map>
void multiply(Slot* slots) {
  float a[16][16], b[16][16], d[16][16];
  const auto lane_of = [&](int lane) { return reinterpret_cast<Lane*>(slots[lane]); };
  for (int lane = 0; lane < map.width; ++lane) {
    const Lane& of = *lane_of(lane);
    for (int i = 0; i < map.a_numbers; ++i) {
      const Entry at = map.a(lane, i);
      a[at.row][at.column] = number(of.a, i);
    }
    for (int i = 0; i < map.b_numbers; ++i) {
      const Entry at = map.b(lane, i);
      b[at.row][at.column] = number(of.b, i);
    }
    for (int i = 0; i < map.d_numbers; ++i) {
      const Entry at = map.d(lane, i);
      d[at.row][at.column] = of.d[i];
    }
  }
  for (int row = 0; row < map.m; ++row)
    for (int k = 0; k < map.k; ++k)
      for (int column = 0; column < map.n; ++column)  // a product of bf16 is exact in f32
        d[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < map.width; ++lane)
    for (int i = 0; i < map.d_numbers; ++i) {
      const Entry at = map.d(lane, i);
      lane_of(lane)->d[i] = d[at.row][at.column];
    }
}

template <class Lane, const InstructionMap& map, class D, class A, class B>
void instruction(Op op, D& d, const A& a, const B& b, Site at) {
  static_assert(sizeof(Lane) <= kSlotBytes);
  Lane lane;
  std::memcpy(lane.a, a, sizeof a);
  std::memcpy(lane.b, b, sizeof b);
  std::memcpy(lane.d, d, sizeof d);
  const Slot* slots = exchange(map.width, op, at, lane, multiply<Lane, map>);
  const unsigned char* mine = slots[current.thread % static_cast<unsigned>(map.width)];
  std::memcpy(d, mine + offsetof(Lane, d), sizeof d);
}

}  // namespace

void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site at) {
  instruction<Registers<4, 2, 4>, kMma>(Op::mma, d, a, b, at);
}

void mfma_16x16x16(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[2], Site at) {
  instruction<Registers<2, 2, 4>, kMfma>(Op::mfma, d, a, b, at);
}

void wmma_16x16x16(float (&d)[8], const uint32_t (&a)[4], const uint32_t (&b)[4], Site at) {
  instruction<Registers<4, 4, 8>, kWmma>(Op::wmma, d, a, b, at);
}

}  // namespace moert::sim
