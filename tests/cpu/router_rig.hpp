// A router of the cpu plugin: random tensors from a seed, rows, logits and decisions on any number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <ostream>
#include <string>
#include <vector>

#include "runtime/host_services.hpp"

namespace moert::cpu::testing {

struct RouterCase {
  const char* name;
  int64_t hidden, experts, top_k;
  uint32_t rows = MOERT_DTYPE_BF16;
  uint32_t gate = MOERT_DTYPE_BF16;
  uint32_t flags = 0;  // MOERT_ROUTING_*
  const char* method = "topk";
  const char* scoring = "softmax";
  int64_t groups = 0, top_groups = 0;
};
inline void PrintTo(const RouterCase& c, std::ostream* out) { *out << c.name; }  // for gtest

// A dense matrix of numbers of `dtype`.
struct RowsOf {
  int64_t rows = 0, cols = 0;
  uint32_t dtype = 0;
  std::vector<unsigned char> bytes;

  RowsOf row(int64_t index) const;
  void set(int64_t row, int64_t col, double value);
};
// Numbers of every size from 2^-20 to 2^20 and either sign. From the second column on, columns come in pairs of the
// same number, the second one times `sign`. So where the pairs of one factor are opposite and those of the other are
// equal, products cancel, and what is left of a sum is what was rounded on the way: the order of the steps shows in it,
// and so does a product that is rounded once more or less.
RowsOf wild_rows(uint64_t seed, uint32_t dtype, int64_t rows, int64_t cols, double sign = 1);

struct Decisions {
  std::vector<int32_t> ids;
  std::vector<float> weights, margins;
  bool operator==(const Decisions&) const = default;
};

moert_routing_t routing_of(const RouterCase& c);
// What a candidate says to a rule: its reason, or "" where it accepts.
std::string router_reason(const char* candidate, const moert_routing_t& routing);

class RouterLayer {
 public:
  // Loads and finishes. Throws std::runtime_error with the plugin's words.
  RouterLayer(const char* candidate, const RouterCase& c, int32_t threads);
  RouterLayer(const RouterLayer&) = delete;
  RouterLayer& operator=(const RouterLayer&) = delete;
  ~RouterLayer() { table_.destroy(self_); }

  // The bits of [T, E]. `gap` numbers lie between two numbers of a row, in hidden and logits.
  std::vector<uint32_t> logits(const RowsOf& hidden, int64_t gap = 0) const;
  Decisions route(const std::vector<uint32_t>& logits) const;

 private:
  void load(uint32_t which, const RowsOf& values) const;
  std::vector<unsigned char> workspace(int64_t tokens, void** base, uint64_t* bytes) const;

  const RouterCase case_;
  runtime::HostServices host_;
  const moert_router_t& table_;
  void* self_ = nullptr;
};

}  // namespace moert::cpu::testing
