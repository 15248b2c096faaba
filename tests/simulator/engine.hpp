// Runs GPU kernels on the CPU: every thread of a block is a fiber of the calling OS thread. C++17, since kernels see it.
// SPDX-License-Identifier: Apache-2.0
//
// Blocks run one after another. Within a block one warp runs until all of its lanes wait at a block barrier, then the
// next; within a warp one lane runs until it comes to a warp operation, then the next. The order of blocks, warps and
// lanes follows from a seed. A broken rule (a barrier that not all threads reach, lanes of a warp at different
// operations, memory outside of what was asked for) ends the process with the threads and lines concerned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace moert::sim {

// Where a kernel calls an operation.
struct Site {
  const char* file = "";
  int line = 0;

  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

enum class Op : uint8_t {
  none,
  sync_block,
  sync_warp,
  shuffle,
  shuffle_xor,
  shuffle_up,
  ballot,
  mma,
  mfma,
  wmma,
  wgmma,
  mx
};

struct KernelCall {
  unsigned blocks_x = 1, blocks_y = 1, threads = 1;
  uint32_t shared_bytes = 0;
  int warp = 32;  // width of a warp on this device; divides `threads`
  void (*body)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
  Site at;  // of the launch
};

// Runs all blocks. May not be called from within a kernel.
void run(const KernelCall& call);

// Order of everything: 0 is rising, any other number shuffles. MOERT_SIM_SEED, 1 where that is not set.
uint64_t seed();
void set_seed(uint64_t seed);

// What the running fiber sees. Not to be kept across an operation.
struct Current {
  unsigned thread = 0, threads = 0, block_x = 0, block_y = 0, blocks_x = 0, blocks_y = 0;
  uint32_t shared_bytes = 0;
  unsigned char* shared = nullptr;
};
extern __thread Current current __attribute__((tls_model("initial-exec")));

constexpr unsigned kSlotBytes = 64;  // a lane's share of an exchange
using Slot = unsigned char[kSlotBytes];

// The one primitive under barriers, shuffles, votes and matrix instructions: all lanes of the warp
// hand in a value and meet; the last one to come calls `combine` (if any) on the slots of all of them,
// and then each goes on with the slots before it. They are valid until the lane's next exchange.
// `width` must be the device's.
using Combine = void (*)(Slot* slots);
Slot* arrive(int width, Op op, Site at, Combine combine);
void meet();

template <class T>
const Slot* exchange(int width, Op op, Site at, const T& value, Combine combine = nullptr) {
  static_assert(sizeof(T) <= kSlotBytes && std::is_trivially_copyable_v<T>);
  Slot* slots = arrive(width, op, at, combine);
  std::memcpy(slots[current.thread % static_cast<unsigned>(width)], &value, sizeof value);
  meet();
  return slots;
}

void sync_block(Site at);

// Asynchronous copies of 16 bytes into shared memory: queued, and applied by copy_wait as late as it allows. One that
// nobody waits for is never applied.
void copy16(void* to, const void* from, bool valid, Site at);
void copy_commit(Site at);
void copy_wait(unsigned pending, Site at);

// A load of up to 16 bytes for memory that no kernel writes: ends the process where the block writes it.
void note_read(const void* from, unsigned size, Site at);

// Ends the process if `pointer` is not a multiple of `alignment`.
void check_aligned(const void* pointer, unsigned alignment, Site at);
[[noreturn]] void die(const char* what, Site at);

}  // namespace moert::sim
