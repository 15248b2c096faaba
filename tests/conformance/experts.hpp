// A routed_experts feature bound to one case: its problem, object, weights and forwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/routed_experts.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "buffer.hpp"
#include "host.hpp"
#include "plain_quant.hpp"
#include "reference.hpp"
#include "suite.hpp"

namespace moert::conformance {

struct ExpertsCase {
  int64_t h, i, e, k;
  uint32_t dtype = MOERT_DTYPE_F32;  // of hidden rows, and of weights
  uint32_t out_dtype = MOERT_DTYPE_F32;
  Act act = {};
  uint32_t flags = 0;               // MOERT_PROBLEM_*
  const char* act_scheme = "none";  // "scaled": what plain_quant() makes of rows
  bool mxfp4 = false;               // weights of mxfp4.g32.e8m0 instead of dtype

  std::string name() const;
  bool gated() const { return (flags & MOERT_PROBLEM_NON_GATED) == 0; }
  bool quantised() const { return std::string_view(act_scheme) != "none"; }
  uint32_t weight_dtype() const { return mxfp4 ? uint32_t{MOERT_DTYPE_F4_E2M1} : dtype; }
  const char* scheme() const { return mxfp4 ? "mxfp4.g32.e8m0" : dtype_name(dtype).data(); }
  bool biased() const { return (flags & MOERT_PROBLEM_BIAS) != 0; }
};
// Shapes with plain experts, and variants of the rules on one odd shape.
std::vector<ExpertsCase> experts_shapes();
std::vector<ExpertsCase> experts_variants();

// Rows on their way into a layer.
struct Batch {
  int64_t tokens = 0;
  Values hidden;
  std::vector<int32_t> ids;
  std::vector<float> weights;

  // Rows in that order; an index may come more than once.
  Batch pick(const std::vector<int64_t>& rows) const;
};
Batch make_batch(const ExpertsCase& c, Random& random, int64_t tokens);
std::vector<Mlp> make_experts(const ExpertsCase& c, Random& random);

// The problem of a case and what it points to.
struct Problem {
  explicit Problem(const ExpertsCase& c, moert_device_id_t device);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  moert_activation_t activation{};
  moert_moe_problem_t record{};
};

class ExpertsRig {
 public:
  static constexpr int64_t kMaxTokens = 64;

  // Throws Skip with the feature's reason if it declines.
  ExpertsRig(const Feature& feature, const ExpertsCase& c);
  ~ExpertsRig();
  ExpertsRig(const ExpertsRig&) = delete;
  ExpertsRig& operator=(const ExpertsRig&) = delete;

  bool deterministic() const { return (support_.flags & MOERT_SUPPORT_DETERMINISTIC) != 0; }
  const moert_support_t& support() const { return support_; }
  const ExpertsCase& c() const { return case_; }
  const moert_routed_experts_t& table() const { return table_; }
  void* self() const { return self_; }
  TestHost& host() { return host_; }
  Place& place() { return place_; }

  // One piece; `tensor` stands in for the expert's own if it is given.
  moert_code_t load(const Mlp& mlp, int64_t expert, uint32_t part, uint32_t role,
                    moert_error_t* error, const moert_tensor_t* tensor = nullptr,
                    uint32_t flags = 0);
  void load_expert(const Mlp& mlp, int64_t expert);
  void load_all(const std::vector<Mlp>& experts);
  void finish();

  // Runs a batch with poisoned output and workspace; fails if anything else changed.
  Bytes forward(const Batch& batch);
  // Runs a batch whose records `change` has spoiled, which must fail with one of `codes` and write
  // nothing.
  struct Args {
    explicit Args(ExpertsRig& rig, const Batch& batch);
    Tensor hidden, ids, weights, out;
    Buffer workspace;
    moert_experts_args_t record{};
    void point();
  };
  void must_refuse(const Batch& batch, const char* what, std::initializer_list<moert_code_t> codes,
                   const std::function<void(Args&)>& change);

 private:
  const ExpertsCase case_;
  const moert_routed_experts_t& table_;
  TestHost host_;
  Place place_;
  moert_support_t support_{};
  void* self_ = nullptr;
};

// The expert as it computes in a case whose rows are quantised: plain_quant() multiplies them by the
// expert's own static scale, a power of two, which may as well be in the weights.
Mlp with_scaled_rows(const ExpertsCase& c, const Mlp& mlp, int64_t expert);
float row_scale(int64_t expert);

// What forward must give, and per row the text for the report.
Expected experts_reference(const ExpertsCase& c, const std::vector<Mlp>& experts,
                           const Batch& batch);
void expect_experts(const ExpertsCase& c, const std::vector<Mlp>& experts, const Batch& batch,
                    const Bytes& out);

// Tests of a feature, by subject.
void add_experts_numbers(const Feature& feature);
void add_experts_rows(const Feature& feature);
void add_experts_load(const Feature& feature);

}  // namespace moert::conformance
