// Layers of one candidate of moert.routed_experts/1, made to be measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <moert/abi/routed_experts.h>

#include "bench_shapes.hpp"
#include "runtime/session.hpp"
#include "synthetic_weights.hpp"

namespace moert::tool {

// The question about a layer with the records that it points to; immovable. Rows are bf16.
struct BenchProblem {
  BenchProblem(const BenchShape& shape, const BenchScheme& scheme, int64_t max_tokens);
  BenchProblem(const BenchProblem&) = delete;
  BenchProblem& operator=(const BenchProblem&) = delete;

  BenchShape shape;
  std::string scheme;
  moert_activation_t activation{};
  moert_moe_problem_t problem{};
};

// What a forward reads and writes, shared by all candidates.
struct BenchRows {
  BenchRows(const BenchShape& shape, int64_t tokens);

  int64_t tokens;
  std::vector<uint16_t> hidden, out;  // bf16 [tokens, hidden]
  std::vector<int32_t> ids;           // [tokens, top_k]
  std::vector<float> weights;         // the same
};

// Several layers of the same weights, each in memory of its own. The session and the rows are borrowed.
class BenchLayers {
 public:
  // Packs them all: `concurrent` says whether load may run on several threads.
  BenchLayers(const runtime::Session& session, const registry::Candidate& candidate,
              const BenchProblem& problem, const SyntheticExpert& expert, int64_t layers,
              bool concurrent);

  double pack_seconds() const { return pack_seconds_; }
  // Computes one layer; returns the seconds that it took.
  double forward(int64_t layer, BenchRows& rows);

 private:
  using Experts = runtime::Part<moert_routed_experts_t>;
  void pack(const runtime::Session& session, const SyntheticExpert& expert, int64_t experts,
            bool concurrent, const Experts& layer) const;
  void* workspace(const Experts& layer, int64_t tokens, uint64_t* bytes);

  BenchShape shape_;
  std::vector<Experts> layers_;
  std::vector<unsigned char> workspace_;
  double pack_seconds_ = 0;
};

}  // namespace moert::tool
