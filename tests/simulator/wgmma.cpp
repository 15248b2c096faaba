// Products of four warps: queued by each thread for its own sums.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma.hpp"

#include <cstring>
#include <vector>

#include "instructions.hpp"

namespace moert::sim {
namespace {

constexpr unsigned kGroupThreads = 128;
constexpr int kK = 16, kRowsOfLane = 2;

float number(uint32_t bits) {
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Product {
  float* d;
  int tiles;
  float a[kRowsOfLane][kK];  // the rows that the lane has sums of
  SharedMatrix b;
  unsigned group;
};

struct Queue {
  unsigned block_x = 0, block_y = 0, groups = 0;
  std::vector<Product> products;
};

// Of the running thread. Blocks run one after another, and none may leave products behind.
Queue& queue(Site at) {
  static thread_local std::vector<Queue> all;
  if (current.threads % kGroupThreads != 0) die("a block that is no whole groups of warps", at);
  if (all.size() < current.threads) all.resize(current.threads);
  Queue& mine = all[current.thread];
  if (mine.block_x != current.block_x || mine.block_y != current.block_y) {
    if (!mine.products.empty()) die("a block before this one has not waited for its products", at);
    mine.block_x = current.block_x;
    mine.block_y = current.block_y;
  }
  return mine;
}

void apply(const Product& p) {
  const auto b = [&](int k, int n) {
    uint16_t bits;
    std::memcpy(&bits, current.shared + p.b.at(static_cast<uint32_t>(k), static_cast<uint32_t>(n)),
                sizeof bits);
    return number(bits);
  };
  const int lane = static_cast<int>(current.thread % 32);
  for (int tile = 0; tile < p.tiles; ++tile)
    for (int i = 0; i < kMma.d_numbers; ++i) {
      const Entry entry = kMma.d(lane, i);
      const float* row = p.a[entry.row / 8];
      for (int k = 0; k < kK; ++k)  // a product of bf16 is exact in f32
        p.d[tile * kMma.d_numbers + i] += row[k] * b(k, tile * 8 + entry.column);
    }
}

}  // namespace

SharedMatrix SharedMatrix::of(uint64_t bits) {
  const auto field = [bits](int first, uint32_t mask) {
    return static_cast<uint32_t>(bits >> first) & mask;
  };
  return {field(0, 0x3fff) << 4, field(16, 0x3fff) << 4, field(32, 0x3fff) << 4, field(49, 7),
          field(62, 3)};
}

void wgmma(float* d, int tiles, const uint32_t (&a)[4], uint64_t b, Site at) {
  Product product = {d, tiles, {}, SharedMatrix::of(b), queue(at).groups};
  if (product.b.swizzle != 0 || product.b.base_offset != 0)
    die("a descriptor with a swizzle, which the simulator does not know", at);
  if (product.b.at(kK - 1, static_cast<uint32_t>(tiles) * 8 - 1) + 2 > current.shared_bytes)
    die("a descriptor that leaves the block's shared memory", at);
  const Slot* slots = exchange(32, Op::wgmma, at, a);
  const int lane = static_cast<int>(current.thread % 32);
  for (int other = lane / 4 * 4; other < lane / 4 * 4 + 4; ++other) {
    uint32_t words[4];
    std::memcpy(words, slots[other], sizeof words);
    for (int i = 0; i < kMma.a_numbers; ++i) {
      const Entry entry = kMma.a(other, i);
      product.a[entry.row / 8][entry.column] = number(words[i / 2] >> i % 2 * 16 & 0xffffu);
    }
  }
  queue(at).products.push_back(product);
}

void wgmma_commit(Site at) { ++queue(at).groups; }

void wgmma_wait(unsigned pending, Site at) {
  Queue& mine = queue(at);
  auto product = mine.products.begin();
  for (; product != mine.products.end() && product->group + pending < mine.groups; ++product)
    apply(*product);
  mine.products.erase(mine.products.begin(), product);
}

}  // namespace moert::sim
