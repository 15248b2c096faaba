// Scheduling of fibers: whoever has to wait switches straight to the lane that comes next.
// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "guarded.hpp"

namespace moert::sim {

__thread Current current;

namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
constexpr unsigned kOrders = 64;  // prepared orders of the lanes of a warp, for either width

const char* name(Op op) {
  switch (op) {
    case Op::none: return "nothing";
    case Op::sync_block: return "sync_block";
    case Op::sync_warp: return "sync_warp";
    case Op::shuffle: return "shuffle";
    case Op::shuffle_xor: return "shuffle_xor";
    case Op::shuffle_up: return "shuffle_up";
    case Op::ballot: return "ballot";
    case Op::mma: return "mma_m16n8k16_bf16";
    case Op::mfma: return "mfma_16x16x16_bf16";
    case Op::wmma: return "wmma_16x16x16_bf16";
    case Op::wgmma: return "wgmma_m64k16_bf16";
    case Op::mx: return "a block-scaled product";
  }
  return "?";
}

uint64_t initial_seed() {
  const char* text = std::getenv("MOERT_SIM_SEED");
  if (text == nullptr || *text == '\0') return 1;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*end == '\0') return value;
  std::fprintf(stderr, "MoERT simulator: MOERT_SIM_SEED='%s' is not a number\n", text);
  std::abort();
}

uint64_t& seed_in_use() {
  static uint64_t value = initial_seed();
  return value;
}

// Small and fast: splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

template <class Iterator>
void shuffle_range(Iterator first, Iterator last, Random& random) {
  for (auto left = last - first; left > 1; --left)
    std::iter_swap(first + (left - 1), first + static_cast<std::ptrdiff_t>(
                                                   random.next() % static_cast<uint64_t>(left)));
}

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

class Engine;
// While a kernel runs on this OS thread.
__thread Engine* active __attribute__((tls_model("initial-exec"))) = nullptr;

bool same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

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
  Lane& lane() { return lanes_[current.thread]; }
  [[noreturn]] void die(const std::string& what);

 private:
  struct alignas(kSlotBytes) AlignedSlot {
    Slot bytes;
  };

  void prepare();
  void run_block(unsigned x, unsigned y);
  void check_barrier();
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

Engine::~Engine() {
  ending_ = true;
  for (const auto& strand : strands_) go(main_, *strand);
}

void Engine::go(Strand& from, Strand& to) {
  leaving_ = &from;
  boost::context::fiber came = std::move(to.context).resume();
  leaving_->context = std::move(came);
}

// Fibers are kept for the next block: a lane that is done gives its fiber to one that has not begun.
void Engine::fiber_body() {
  while (!ending_) {
    Lane& me = lane();
    Strand* strand = me.strand;
    call_->body(call_->arguments);
    Lane& done = lane();
    done.state = State::done;
    done.strand = nullptr;
    Lane* to = next(warps_[done.thread / width()]);
    if (to != nullptr) current.thread = to->thread;
    if (to != nullptr && to->strand == nullptr) {
      to->strand = strand;
      continue;
    }
    idle_.push_back(strand);
    go(*strand, to != nullptr ? *to->strand : main_);
  }
}

Strand& Engine::strand_for(Lane& lane) {
  if (lane.strand != nullptr) return *lane.strand;
  if (idle_.empty()) {
    strands_.push_back(std::make_unique<Strand>());
    strands_.back()->context = boost::context::fiber(
        std::allocator_arg, boost::context::protected_fixedsize_stack(kStackBytes),
        [this](boost::context::fiber&& came) {
          leaving_->context = std::move(came);
          fiber_body();
          return std::move(main_.context);
        });
    idle_.push_back(strands_.back().get());
  }
  lane.strand = idle_.back();
  idle_.pop_back();
  return *lane.strand;
}

void Engine::new_order(Warp& warp) {
  const uint64_t number = orders_seed_ == 0 ? 0 : random_.next() % kOrders;
  warp.order = orders_.data() + number * width();
}

// The lane of the warp that runs next; NULL when all of them wait for the block or are done.
Lane* Engine::next(Warp& warp) {
  if (warp.cursor == width()) {
    if (warp.arrived == 0) return nullptr;
    complete(warp);
  }
  return &lanes_[warp.first + warp.order[warp.cursor++]];
}

void Engine::complete(Warp& warp) {
  if (warp.mixed || warp.arrived != width())
    die(std::string("the lanes of a warp are not all at the same operation (") + name(warp.op) +
        ")");
  if (warp.combine != nullptr) warp.combine(slots(warp));
  warp.parity ^= 1;
  warp.arrived = warp.cursor = 0;
  new_order(warp);
}

Warp& Engine::arrive(Op op, Site at, Combine combine) {
  note(op, at);
  Warp& warp = warps_[current.thread / width()];
  if (warp.arrived++ == 0) {
    warp.op = op;
    warp.at = at;
    warp.combine = combine;
  } else if (op != warp.op || !same(at, warp.at)) {
    warp.mixed = true;
  }
  return warp;
}

void Engine::note(Op op, Site at) {
  Lane& me = lane();
  me.op = op;
  me.at = at;
}

void Engine::stop(State state) {
  Lane& me = lane();
  me.state = state;
  Lane* to = next(warps_[me.thread / width()]);
  if (to == &me) return;
  if (to != nullptr) current.thread = to->thread;
  go(*me.strand, to != nullptr ? strand_for(*to) : main_);
}

// All threads are done, or all wait at the same barrier.
void Engine::check_barrier() {
  const Lane& first = lanes_.front();
  for (const Lane& lane : lanes_) {
    if (lane.state != first.state) die("sync_block is not reached by every thread");
    if (lane.state == State::at_block && !same(lane.at, first.at))
      die("threads of a block wait at different sync_block");
  }
}

void Engine::run_block(unsigned x, unsigned y) {
  current.block_x = x;
  current.block_y = y;
  if (seed() != 0)
    random_ = Random(seed() ^ (uint64_t{y} << 40) ^ (uint64_t{x} << 8) ^
                     (uint64_t{call_->shared_bytes} << 20) ^ (uint64_t{call_->threads} << 32) ^
                     call_->blocks_x);
  shared_.poison();
  for (Lane& lane : lanes_) {
    lane.state = State::fresh;
    lane.at = {};
    lane.groups = 0;
    lane.copies.clear();
  }
  do {
    if (seed() != 0) shuffle_range(warp_order_.begin(), warp_order_.end(), random_);
    for (const unsigned index : warp_order_) {
      Warp& warp = warps_[index];
      warp.arrived = warp.cursor = 0;
      warp.mixed = false;
      new_order(warp);
      Lane* lane = next(warp);
      current.thread = lane->thread;
      go(main_, strand_for(*lane));
    }
    check_barrier();
  } while (lanes_.front().state == State::at_block);
  if (!shared_.intact()) die("a thread wrote outside of the block's shared memory");
}

void Engine::prepare() {
  const KernelCall& call = *call_;
  const unsigned count = call.threads / width();
  if (count == 0 || call.threads % width() != 0)
    die("the number of threads is no multiple of a warp");
  lanes_.resize(call.threads);
  slots_.resize(size_t{call.threads} * 2);
  warps_.assign(count, Warp());
  warp_order_.resize(count);
  std::iota(warp_order_.begin(), warp_order_.end(), 0u);
  for (unsigned i = 0; i < call.threads; ++i) lanes_[i].thread = i;
  for (unsigned i = 0; i < count; ++i) warps_[i].first = i * width();
  if (shared_.size() != call.shared_bytes || shared_.data() == nullptr)
    shared_ = Guarded(call.shared_bytes);
  current = {};
  current.threads = call.threads;
  current.blocks_x = call.blocks_x;
  current.blocks_y = call.blocks_y;
  current.shared = shared_.data();
  current.shared_bytes = call.shared_bytes;

  if (orders_seed_ == seed() && orders_width_ == width()) return;
  orders_seed_ = seed();
  orders_width_ = width();
  orders_.resize(size_t{kOrders} * width());
  Random random(orders_seed_);
  for (unsigned i = 0; i < kOrders; ++i) {
    const auto order = orders_.begin() + i * width();
    std::iota(order, order + width(), uint8_t{0});
    if (orders_seed_ != 0) shuffle_range(order, order + width(), random);
  }
}

void Engine::run(const KernelCall& call) {
  call_ = &call;
  active = this;
  prepare();
  const uint64_t blocks = uint64_t{call.blocks_x} * call.blocks_y;
  // A step that has no divisor in common with their number visits each block once.
  uint64_t step = 1, place = 0;
  if (seed() != 0) {
    Random random(seed() ^ blocks);
    for (step = random.next() % blocks + 1; std::gcd(step, blocks) != 1;) ++step;
    place = random.next() % blocks;
  }
  for (uint64_t i = 0; i < blocks; ++i, place = (place + step) % blocks)
    run_block(static_cast<unsigned>(place % call.blocks_x),
              static_cast<unsigned>(place / call.blocks_x));
  call_ = nullptr;
  active = nullptr;
}

std::string text(Site at) { return std::string(at.file) + ":" + std::to_string(at.line); }

std::string state_text(const Lane& lane) {
  switch (lane.state) {
    case State::fresh: return "not begun";
    case State::done: return "finished";
    default: return std::string("at ") + name(lane.op) + " " + text(lane.at);
  }
}

void Engine::die(const std::string& what) {
  std::string out =
      "MoERT simulator: " + what + "\n  in block (" + std::to_string(current.block_x) + ", " +
      std::to_string(current.block_y) + ") of the kernel launched at " + text(call_->at) + ", " +
      std::to_string(call_->threads) + " threads in warps of " + std::to_string(call_->warp) + "\n";
  for (size_t first = 0; first < lanes_.size();) {
    size_t end = first + 1;
    while (end < lanes_.size() && state_text(lanes_[end]) == state_text(lanes_[first])) ++end;
    out += "  thread" + (end - first > 1 ? "s " + std::to_string(first) + "-" : " ") +
           std::to_string(end - 1) + ": " + state_text(lanes_[first]) + "\n";
    first = end;
  }
  std::fputs(out.c_str(), stderr);
  std::abort();
}

Engine& running(Site at) {
  if (active != nullptr) return *active;
  std::fprintf(stderr, "MoERT simulator: %s is called outside of a kernel\n", text(at).c_str());
  std::abort();
}

}  // namespace

uint64_t seed() { return seed_in_use(); }
void set_seed(uint64_t value) { seed_in_use() = value; }

void run(const KernelCall& call) {
  static thread_local Engine engine;
  if (active != nullptr) active->die("a kernel starts a kernel");
  engine.run(call);
}

Slot* arrive(int width, Op op, Site at, Combine combine) {
  Engine& engine = running(at);
  if (static_cast<unsigned>(width) != engine.width())
    die("an operation of another width than the device's warps", at);
  return engine.slots(engine.arrive(op, at, combine));
}

void meet() { active->stop(State::at_warp); }

void sync_block(Site at) {
  Engine& engine = running(at);
  engine.note(Op::sync_block, at);
  engine.stop(State::at_block);
}

void copy16(void* to, const void* from, bool valid, Site at) {
  check_aligned(to, 16, at);
  if (valid) check_aligned(from, 16, at);
  const auto offset = static_cast<size_t>(static_cast<unsigned char*>(to) - current.shared);
  if (offset > current.shared_bytes || current.shared_bytes - offset < 16)
    die("copy16 to what is not the block's shared memory", at);
  Lane& lane = running(at).lane();
  lane.copies.push_back({to, from, valid, lane.groups});
}

void copy_commit(Site at) { ++running(at).lane().groups; }

void copy_wait(unsigned pending, Site at) {
  Lane& lane = running(at).lane();
  auto copy = lane.copies.begin();
  for (; copy != lane.copies.end() && copy->group + pending < lane.groups; ++copy) {
    if (copy->valid)
      std::memcpy(copy->to, copy->from, 16);
    else
      std::memset(copy->to, 0, 16);
  }
  lane.copies.erase(lane.copies.begin(), copy);
}

void check_aligned(const void* pointer, unsigned alignment, Site at) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return;
  die(("an address that is not a multiple of " + std::to_string(alignment)).c_str(), at);
}

void die(const char* what, Site at) {
  running(at).die("thread " + std::to_string(current.thread) + ": " + what + ", " + text(at));
}

}  // namespace moert::sim
