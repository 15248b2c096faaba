// The default runner, "core.default": composes a router, routed experts and shared experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <moert/sdk/moe_runner.hpp>

#include "runtime/expert_space.hpp"

namespace moert::runtime {

// Registered like any plugin's runner and reached through the same table. It adds and scales rows
// itself, so it serves devices whose memory the host can read; a device backend brings its own.
class MoERunner final : public MoERunnerInterface {
 public:
  static constexpr FeatureInfo kFeature = {"core.default", MOERT_RANK_REFERENCE};
  static Support supports(const Host& host, const moert_moe_layer_t& layer);
  MoERunner(const Host& host, const moert_moe_layer_t& layer, const moert_moe_parts_t* parts,
            const Options& options);
  ~MoERunner() override;

  void load_expert(const moert_piece_t& piece) override;
  void load_router(uint32_t which, const moert_tensor_t& tensor) override;
  void load_shared(const moert_piece_t& piece) override;
  void load_layer(const moert_piece_t& piece) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void forward(const moert_runner_args_t& args) override;

  int64_t layer_id() const override { return layer_id_; }
  bool is_monolithic() const override { return false; }
  const char* activation() const override { return activation_.c_str(); }
  const char* quant_method() const override { return scheme_.c_str(); }
  const char* expert_placement() const override { return map_.empty() ? "linear" : "custom"; }
  bool has_shared_experts() const override { return parts_.shared != nullptr; }

  void set_expert_map(const moert_tensor_t& map) override;
  void expert_map(const moert_tensor_t& map) const override;
  void load_statistics(const moert_tensor_t& counts, bool reset) override;
  uint64_t bundle_bytes() override;
  void read_expert(int64_t expert, void* bundle, uint64_t bytes,
                   const moert_stream_t* stream) override;
  void write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                    const moert_stream_t* stream) override;

 private:
  struct Workspace;
  Workspace carve(void* memory, uint64_t bytes, int64_t tokens);
  void route(const moert_runner_args_t& args, const Workspace& ws, int64_t tokens);
  void mask_and_count(const moert_runner_args_t& args, int64_t tokens);
  void run_experts(const moert_runner_args_t& args, const Workspace& ws, int64_t tokens);
  const moert_tensor_t* local_ids(const moert_runner_args_t& args, const moert_tensor_t& local,
                                  int64_t tokens) const;
  void combine(const moert_runner_args_t& args, const Workspace& ws, int64_t tokens) const;
  void combine_row(const moert_runner_args_t& args, const Workspace& ws, int64_t t,
                   double* scratch) const;

  Host host_;
  ExpertSpace space_;
  moert_moe_parts_t parts_{};
  moert_device_id_t device_{};
  int64_t layer_id_ = 0, hidden_size_ = 0, num_local_ = 0, top_k_ = 0;
  int64_t num_experts_ = 0;  // real ones
  int64_t num_ids_ = 0;      // and zero experts, which come after them
  uint32_t dtype_ = 0;
  bool rounds_later_ = false;  // experts give f32; scale and shared experts are still to come
  double output_scale_ = 1, shared_scale_ = 1;
  std::string activation_, scheme_;
  std::vector<int32_t> map_;  // [num_experts, copies_], local ids or -1; empty: identity
  int64_t copies_ = 1;
  std::vector<int64_t> counts_;
  bool finished_ = false;
};

}  // namespace moert::runtime
