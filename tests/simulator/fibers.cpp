// The fibers that play lanes.
// SPDX-License-Identifier: Apache-2.0
#include <boost/context/protected_fixedsize_stack.hpp>

#include <utility>

#include "scheduler.hpp"

namespace moert::sim {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

}  // namespace

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

}  // namespace moert::sim
