// Blocks of a kernel, one after another, and the barriers within them.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>

#include "scheduler.hpp"

namespace moert::sim {

__thread Current current;
__thread Engine* active __attribute__((tls_model("initial-exec"))) = nullptr;

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
  reads_.clear();
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
  check_reads();
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

void run(const KernelCall& call) {
  static thread_local Engine engine;
  if (active != nullptr) active->die("a kernel starts a kernel");
  engine.run(call);
}

}  // namespace moert::sim
