// A moe_runner feature, with the parts of its own plugin if it takes parts, bound to one case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/moe_runner.h>

#include <optional>
#include <string>
#include <vector>

#include "experts.hpp"
#include "router.hpp"

namespace moert::conformance {

struct RunnerCase {
  std::string label;
  int64_t zero = 0;    // zero experts
  int64_t latent = 0;  // width of the experts' rows; 0: the layer's own
  bool norm_in = false, norm_out = false, bias = false, shared = false;
  double output_scale = 1, shared_scale = 0;  // 0: none
  uint32_t dtype = MOERT_DTYPE_F32;
  bool hash = false;      // experts by a table of token ids
  int64_t redundant = 0;  // local experts beside the logical ones

  static constexpr int64_t h = RouterCase::h, i = 17, experts = 6, k = 3;
  static constexpr double eps = 1e-5;
  int64_t width() const { return latent == 0 ? h : latent; }
  int64_t ids() const { return experts + zero; }
  int64_t local() const { return experts + redundant; }
  uint32_t flags() const;
  RouterCase router() const;
};
std::vector<RunnerCase> runner_cases();

// One forward's rows and what it made of them.
struct RunnerRows {
  int64_t tokens = 0;
  Values hidden;
  std::vector<uint8_t> valid;      // empty: all
  std::vector<int32_t> forced;     // empty: none
  std::vector<int64_t> token_ids;  // empty where the rule reads none
  std::vector<float> logits;       // given: the runner reads them
  Decisions decisions;             // out
  Bytes out;

  bool padded(int64_t t) const { return !valid.empty() && valid[static_cast<size_t>(t)] == 0; }
};

class RunnerRig {
 public:
  static constexpr int64_t kMaxTokens = 32;

  // Loads random weights and finishes. Throws Skip where the runner, or a part, declines, or the plugin has no part.
  RunnerRig(const Feature& feature, const RunnerCase& c);
  ~RunnerRig();
  RunnerRig(const RunnerRig&) = delete;
  RunnerRig& operator=(const RunnerRig&) = delete;

  RunnerRows rows(int64_t tokens);
  // Throws Skip where the runner hides its routing.
  void forward(RunnerRows& rows);
  // The arguments of a forward, which may run more than once. Throws what `forward` throws.
  struct Call {
    Call(RunnerRig& of, const RunnerRows& rows);
    void run();
    void read(RunnerRows& rows);  // what it made of them
    RunnerRig& rig;
    Tensor hidden, logits, ids, weights, margins, out, forced, token_ids, valid;
    Buffer workspace;
    moert_runner_args_t args{};
  };
  // Ids by the rule, or the forced ones; outputs by the suite's own numbers for the ids and weights that were reported.
  // `local`: the expert that serves a logical one for row t, or -1; as it is without a map.
  void expect(const RunnerRows& rows,
              const std::function<int32_t(int64_t t, int32_t id)>& local = {}) const;
  std::vector<int64_t> statistics(bool reset);
  void set_map(const std::vector<int32_t>& map, int64_t copies);

  const moert_moe_runner_t& table;
  moert_support_t support{};  // graphs only where the parts promise them as well
  void* self = nullptr;
  TestHost host;
  Place place;
  Random random;

 private:
  void create(const Feature& feature);
  void load();
  void load_mlp(const Mlp& mlp, int64_t expert, bool shared, uint32_t dtype);
  Values matrix(int64_t rows, int64_t cols);
  void load_layer(uint32_t part, const Values& values, int64_t rows, int64_t cols);
  std::vector<double> expert_row(const double* x) const;
  Decision rule(const RunnerRows& rows, int64_t t) const;
  Expected expected_row(const RunnerRows& rows, int64_t t,
                        const std::function<int32_t(int64_t, int32_t)>& local) const;

  const RunnerCase case_;
  bool hides_routing_ = false;
  RouterCase router_case_;
  RouterTensors router_;
  std::vector<Mlp>
      experts_;  // by local id; all differ, so that an output tells which copy it is from
  std::optional<Mlp> shared_;
  Values down_, up_, norm_, bias_;
};

}  // namespace moert::conformance
