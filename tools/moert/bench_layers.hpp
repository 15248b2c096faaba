// Layers of one candidate of moert.routed_experts/1, made to be measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <moert/abi/routed_experts.h>

#include "bench_device.hpp"
#include "bench_shapes.hpp"
#include "runtime/part_options.hpp"
#include "runtime/session.hpp"
#include "synthetic_weights.hpp"

namespace moert::tool {

// The question about a layer with the records that it points to; immovable. Rows are bf16.
struct BenchProblem {
  BenchProblem(const BenchShape& shape, const BenchScheme& scheme, int64_t max_tokens,
               moert_device_id_t device);
  BenchProblem(const BenchProblem&) = delete;
  BenchProblem& operator=(const BenchProblem&) = delete;

  BenchShape shape;
  std::string scheme;
  moert_activation_t activation{};
  moert_moe_problem_t problem{};
  runtime::PartOptions options;  // that layers are created with
};

// What a forward reads and writes, on the device, shared by all candidates.
struct BenchRows {
  BenchRows(const BenchShape& shape, int64_t tokens, const runtime::Device& device);

  // Brings `ids` to the device, behind all work before.
  void send_ids() const;
  static uint64_t memory_bytes(const BenchShape& shape, int64_t tokens);

  const runtime::Device& device;
  int64_t tokens;
  std::vector<int32_t> ids;           // [tokens, top_k]
  runtime::DeviceMemory hidden, out;  // bf16 [tokens, hidden]
  runtime::DeviceMemory device_ids, weights;
};

// Several layers of the same weights, each in memory of its own. The session is borrowed.
class BenchLayers {
 public:
  // Packs them all: `concurrent` says whether load may run on several threads. Throws Error(refused) where the candidate
  // cannot do what an option asks for.
  BenchLayers(const runtime::Session& session, const registry::Candidate& candidate,
              const BenchProblem& problem, const SyntheticExpert& expert, int64_t layers,
              bool concurrent, BenchDevice& device);

  double pack_seconds() const { return pack_seconds_; }
  // For the forwards that follow, which compute these rows: takes workspace, and with `graphs` records the forward of
  // each layer. The rows are borrowed until the next call; their ids are on the device.
  void prepare(const BenchRows& rows, bool graphs);
  // Computes one layer; returns the seconds that it took.
  double forward(int64_t layer);

 private:
  using Experts = runtime::Part<moert_routed_experts_t>;
  void pack(const runtime::Session& session, const SyntheticExpert& expert, int64_t experts,
            bool concurrent, const Experts& layer) const;
  void enqueue(const Experts& layer) const;

  BenchShape shape_;
  BenchDevice& device_;
  std::vector<Experts> layers_;
  runtime::DeviceMemory workspace_;
  uint64_t workspace_bytes_ = 0;
  const BenchRows* rows_ = nullptr;
  std::vector<std::unique_ptr<runtime::DeviceGraph>> graphs_;  // of each layer, or none
  double pack_seconds_ = 0;
};

}  // namespace moert::tool
