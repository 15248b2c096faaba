// What is said of a kernel that broke a rule: what, where, and who.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "scheduler.hpp"

namespace moert::sim {

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

std::string text(Site at) { return std::string(at.file) + ":" + std::to_string(at.line); }

namespace {

std::string state_text(const Lane& lane) {
  switch (lane.state) {
    case State::fresh: return "not begun";
    case State::done: return "finished";
    default: return std::string("at ") + name(lane.op) + " " + text(lane.at);
  }
}

}  // namespace

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

void check_aligned(const void* pointer, unsigned alignment, Site at) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return;
  die(("an address that is not a multiple of " + std::to_string(alignment)).c_str(), at);
}

void die(const char* what, Site at) {
  running(at).die("thread " + std::to_string(current.thread) + ": " + what + ", " + text(at));
}

}  // namespace moert::sim
