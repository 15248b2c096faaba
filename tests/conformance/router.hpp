// A router feature bound to one case: its rule, object, tensors and calls; and the rule once more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <string>
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
  static constexpr int64_t h = 33;

  bool biased() const { return (flags & MOERT_ROUTING_SELECTION_BIAS) != 0; }
  bool grouped() const { return (flags & MOERT_ROUTING_GROUPED) != 0; }
  bool gate_biased() const { return (flags & MOERT_ROUTING_GATE_BIAS) != 0; }
};
std::vector<RouterCase> router_cases();

struct Decisions {
  std::vector<int32_t> ids;
  std::vector<float> weights, margins;
};

// One row by the rule, in f64.
struct Decision {
  std::vector<int32_t> ids;
  std::vector<double> weights;
  double margin = 0;
  // No two scores that decide are so close that f32 could order them otherwise.
  bool clear = true;
};
Decision decide(const RouterCase& c, const float* logits, const std::vector<float>& bias);
// Weights and margin of given ids.
Decision weigh(const RouterCase& c, const float* logits, const std::vector<float>& bias,
               const std::vector<int32_t>& ids);
// Rows of logits whose decisions are clear.
std::vector<float> clear_logits(const RouterCase& c, Random& random, int64_t tokens,
                                const std::vector<float>& bias);

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
  const Values& gate() const { return gate_; }
  const Values& gate_bias() const { return gate_bias_; }
  const std::vector<float>& bias() const { return bias_; }

  moert_code_t load(uint32_t which, moert_error_t* error);
  moert_code_t load(uint32_t which, const moert_tensor_t* tensor, moert_error_t* error);
  void use_bias(const std::vector<float>& bias) { bias_ = bias; }
  void finish();

  struct Args {
    Args(RouterRig& rig, int64_t tokens);
    Tensor hidden, logits, ids, weights, margins, forced;
    Buffer workspace;
    moert_router_args_t record{};
  };
  std::vector<float> logits(const Values& hidden, int64_t tokens);
  // `forced` may be empty.
  Decisions route(const std::vector<float>& logits, const std::vector<int32_t>& forced = {});

 private:
  const RouterCase case_;
  const moert_router_t& table_;
  TestHost host_;
  Place place_;
  Random random_;
  Values gate_, gate_bias_;
  std::vector<float> bias_;
  moert_support_t support_{};
  void* self_ = nullptr;
};

// Compares row by row: ids exactly, weights and margins within what f32 can do.
void expect_decision(const RouterCase& c, const Decisions& got, int64_t row, const Decision& want);

void add_router_rows(const Feature& feature);

}  // namespace moert::conformance
