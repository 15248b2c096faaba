// A kernel that runs: its blocks, warps and lanes, and the fibers that play them. For the engine's own sources.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/context/fiber.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine.hpp"
#include "guarded.hpp"
#include "order.hpp"

namespace moert::sim {

constexpr unsigned kOrders = 64;  // prepared orders of the lanes of a warp, for either width

// A flow of control that can be switched to: a fiber, or the caller of run().
struct Strand {
  boost::context::fiber context;
};

enum class State : uint8_t { fresh, at_warp, at_block, done };

struct Copy {
  void* to;
  const void* from;
  bool valid;
  unsigned group;
};

// What a load for memory that no kernel writes has read.
struct Read {
  const void* from;
  unsigned size;
  Site at;
  unsigned char bytes[16];
};

struct Lane {
  Strand* strand = nullptr;  // NULL: not begun, or done
  State state = State::fresh;
  Op op = Op::none;
  Site at;
  unsigned thread = 0;
  unsigned groups = 0;  // of copies, committed so far
  std::vector<Copy> copies;
};

struct Warp {
  unsigned first = 0;  // thread
  unsigned cursor = 0, arrived = 0, parity = 0;
  const uint8_t* order = nullptr;
  Op op = Op::none;  // of the lane that came first, as is `at`
  Site at;
  bool mixed = false;
  Combine combine = nullptr;
};

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  void run(const KernelCall& call);
  void note(Op op, Site at);
  void stop(State state);
  Warp& arrive(Op op, Site at, Combine combine);
  unsigned width() const { return static_cast<unsigned>(call_->warp); }
  Slot* slots(const Warp& warp) {
    return &slots_[(size_t{warp.first} * 2 + size_t{warp.parity} * width())].bytes;
  }
  void keep(const Read& read) { reads_.push_back(read); }
  Lane& lane() { return lanes_[current.thread]; }
  [[noreturn]] void die(const std::string& what);

 private:
  struct alignas(kSlotBytes) AlignedSlot {
    Slot bytes;
  };

  void prepare();
  void run_block(unsigned x, unsigned y);
  void check_barrier();
  void check_reads();
  void new_order(Warp& warp);
  Lane* next(Warp& warp);
  void complete(Warp& warp);
  void go(Strand& from, Strand& to);
  Strand& strand_for(Lane& lane);
  void fiber_body();

  const KernelCall* call_ = nullptr;
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  std::vector<unsigned> warp_order_;
  std::vector<AlignedSlot> slots_;
  std::vector<Read> reads_;  // of the running block
  Guarded shared_;
  std::vector<std::unique_ptr<Strand>> strands_;
  std::vector<Strand*> idle_;
  Strand main_;
  Strand* leaving_ = nullptr;  // who has just switched away
  bool ending_ = false;
  Random random_{0};
  uint64_t orders_seed_ = ~uint64_t{0};
  unsigned orders_width_ = 0;
  std::vector<uint8_t> orders_;
};

// While a kernel runs on this OS thread.
extern __thread Engine* active __attribute__((tls_model("initial-exec")));

// Ends the process where none runs.
Engine& running(Site at);

const char* name(Op op);
std::string text(Site at);
inline bool same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace moert::sim
