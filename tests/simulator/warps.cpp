// Lanes of a warp: whoever has to wait switches straight to the lane that comes next.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

namespace moert::sim {

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

}  // namespace moert::sim
