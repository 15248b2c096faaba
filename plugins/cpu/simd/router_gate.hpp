// A router's gate, packed in panels, and how its multiplication is cut into tasks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/host.hpp>
#include <vector>

#include "gate.hpp"

namespace moert::cpu::simd {

class PackedGate {
 public:
  // Of [E, H]. Kept as f32 where f32 holds every number, as it does for a gate of f32, bf16 or f16; else as f64.
  PackedGate(const Host& host, const std::vector<double>& gate, int64_t experts, int64_t hidden);

  int64_t panels() const { return panels_; }
  // A part of a panel: columns [first, first + depth) of the rows. Rows and sums are the caller's to fill in.
  GateProduct part(int64_t panel, int64_t first, int64_t depth) const;

 private:
  int64_t hidden_, panels_;
  Host::Array<float> singles_;
  Host::Array<double> doubles_;
};

// Tasks of a multiplication: blocks of tokens, each with some of the panels. A task reads its panels once, however many
// tokens its block has.
struct GatePlan {
  static constexpr int64_t kMostTokens = 48;
  static constexpr int64_t kMostPanels = 8;

  int64_t tokens, panels;
  int64_t block;  // tokens of a task
  int64_t span;   // panels of a task

  // Few tasks of many tokens and panels, but enough for all threads, as far as there is so much to do.
  static GatePlan make(int64_t tokens, int64_t panels, int64_t threads);

  int64_t spans() const { return (panels + span - 1) / span; }
  int64_t tasks() const { return (tokens + block - 1) / block * spans(); }
};

}  // namespace moert::cpu::simd
