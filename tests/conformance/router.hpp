// A router feature bound to one case: its rule, object, tensors and calls; and the rule once more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <string>
#include <string_view>
#include <vector>

#include "buffer.hpp"
#include "host.hpp"
#include "numbers.hpp"
#include "suite.hpp"

namespace moert::conformance {

struct RouterCase {
  std::string label;
  int64_t e, k;
  const char* scoring = "softmax";
  uint32_t flags = 0;  // MOERT_ROUTING_*
  int64_t groups = 0, top_groups = 0;
  const char* group_score = nullptr;
  double scale = 1, eps = 0;
  uint32_t dtype = MOERT_DTYPE_F32;  // of hidden and gate
  const char* method = "topk";
  std::vector<moert_kv_t> params = {};
  int64_t layer = 3;
  static constexpr int64_t h = 33;

  bool has(uint32_t flag) const { return (flags & flag) != 0; }
  bool biased() const { return has(MOERT_ROUTING_SELECTION_BIAS); }
  bool grouped() const { return has(MOERT_ROUTING_GROUPED); }
  bool is(std::string_view rule) const { return rule == method; }
  // A group's score is a sum of scores, in which logits that saturate are equal.
  bool sums_scores() const;
  double param(std::string_view key, double otherwise) const;
};
std::vector<RouterCase> router_cases();
// Of method simulated: nobody says which experts they choose.
std::vector<RouterCase> simulated_cases();

struct Decisions {
  std::vector<int32_t> ids;
  std::vector<float> weights, margins;
};

// What a router is loaded with; empty where the case has none.
struct RouterTensors {
  static constexpr int64_t kVocabulary = 29;

  RouterTensors() = default;
  RouterTensors(const RouterCase& c, Random& random);
  // Rows have tokens that follow from their logits, so that a row is the same in every batch.
  static int64_t token_of(const RouterCase& c, const float* logits);

  Values gate, gate_bias, input_scale, expert_scale;
  std::vector<float> bias;     // of selection
  std::vector<int32_t> table;  // [kVocabulary, k]
};

// One row by the rule, in f64.
struct Decision {
  std::vector<int32_t> ids;
  std::vector<double> weights;
  double margin = 0;
  // No two scores that decide are so close that f32 could order them otherwise.
  bool clear = true;
};
Decision decide(const RouterCase& c, const RouterTensors& tensors, const float* logits);
// Weights and margin of given ids.
Decision weigh(const RouterCase& c, const RouterTensors& tensors, const float* logits,
               const std::vector<int32_t>& ids);
// Rows of logits whose decisions are clear.
std::vector<float> clear_logits(const RouterCase& c, Random& random, int64_t tokens,
                                const RouterTensors& tensors);
// What `logits` must give, in f32 or better.
Expected expected_logits(const RouterCase& c, const RouterTensors& tensors, const Values& hidden,
                         int64_t tokens);

moert_routing_t routing_of(const RouterCase& c, moert_device_id_t device);

class RouterRig {
 public:
  static constexpr int64_t kMaxTokens = 64;

  // Loads random tensors and finishes, unless `ready` is false. Throws Skip if the rule is declined.
  RouterRig(const Feature& feature, const RouterCase& c, bool ready = true);
  ~RouterRig();
  RouterRig(const RouterRig&) = delete;
  RouterRig& operator=(const RouterRig&) = delete;

  bool deterministic() const { return (support_.flags & MOERT_SUPPORT_DETERMINISTIC) != 0; }
  const moert_router_t& table() const { return table_; }
  void* self() const { return self_; }
  Place& place() { return place_; }
  TestHost& host() { return host_; }
  Random& random() { return random_; }
  // To be changed before they are loaded.
  RouterTensors& tensors() { return tensors_; }

  // The tensors of this rule, as MOERT_ROUTER_*.
  std::vector<uint32_t> needed() const;
  moert_code_t load(uint32_t which, moert_error_t* error);
  moert_code_t load(uint32_t which, const moert_tensor_t* tensor, moert_error_t* error);
  void finish();

  struct Args {
    Args(RouterRig& rig, int64_t tokens);
    Tensor hidden, token_ids, logits, ids, weights, margins, forced;
    Buffer workspace;
    moert_router_args_t record{};
  };
  std::vector<float> logits(const Values& hidden, int64_t tokens);
  // `forced` may be empty, `tokens` as well: they follow from the logits then.
  Decisions route(const std::vector<float>& logits, const std::vector<int32_t>& forced = {},
                  std::vector<int64_t> tokens = {});
  // A route that `change` spoils must fail with one of `codes` and write nothing.
  void must_refuse(const char* what, std::initializer_list<moert_code_t> codes,
                   const std::function<void(Args&)>& change);

 private:
  const RouterCase case_;
  const moert_router_t& table_;
  TestHost host_;
  Place place_;
  Random random_;
  RouterTensors tensors_;
  moert_support_t support_{};
  void* self_ = nullptr;
};

// Compares row by row: ids exactly, weights and margins within what f32 can do.
void expect_decision(const RouterCase& c, const Decisions& got, int64_t row, const Decision& want);

// The answer to "can you follow this rule?", checked for form.
moert_support_t router_support(const Feature& feature, const moert_routing_t& routing);

// Tests of one row and its neighbours, for a rule whose ids need not be known.
void router_odd_logits(RouterRig& rig, const RouterCase& c);
void router_same_bits(RouterRig& rig, const RouterCase& c);

// Tests of a feature, by subject.
void add_router_rows(const Feature& feature);
void add_router_hand(const Feature& feature);
void add_router_refusals(const Feature& feature);
void add_router_same(const Feature& feature);
void add_router_simulated(const Feature& feature);
void add_router_tokens(const Feature& feature);

}  // namespace moert::conformance
