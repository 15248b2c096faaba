// moert.moe_runner/1 on a GPU: composes a router, routed experts and shared experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/moe_runner.hpp>

#include <string>

#include "../backend.hpp"
#include "../device_memory.hpp"
#include "expert_map.hpp"
#include "space.hpp"

namespace moert::gpu {

// Stages and their order are those of docs/numerics.md, "The layer". A forward allocates nothing and waits for nothing;
// captured in a graph, it obeys the expert map that is set when the graph is launched, whatever its number of copies.
// load_statistics and set_expert_map wait for the device.
class GpuRunner final : public MoERunnerInterface {
 public:
  static constexpr FeatureInfo kFeature = feature(MOERT_GPU_WORD ".runner", MOERT_RANK_GOOD);
  static Support supports(const Host& host, const moert_moe_layer_t& layer);
  GpuRunner(const Host& host, const moert_moe_layer_t& layer, const moert_moe_parts_t* parts,
            const Options& options);
  ~GpuRunner() override;

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
  const char* expert_placement() const override { return map_.is_set() ? "custom" : "linear"; }
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
  struct Rows;
  Workspace carve(void* memory, int64_t tokens);
  Rows check(const moert_runner_args_t& args) const;
  void run_shared(const moert_runner_args_t& args, const Workspace& ws, int64_t tokens);
  void route(const moert_runner_args_t& args, const Rows& rows, const Workspace& ws);
  void settle_slots(const Rows& rows, const Workspace& ws, void* stream) const;
  void run_experts(const moert_runner_args_t& args, const Rows& rows, const Workspace& ws);
  void combine(const Rows& rows, const Workspace& ws, void* stream) const;
  void wait_for_forwards() const;

  moert_moe_parts_t parts_{};
  moert_device_id_t device_;
  ExpertSpace space_;
  int64_t layer_id_, hidden_size_, top_k_;
  int64_t num_experts_;  // real ones
  int64_t num_ids_;      // and zero experts, which come after them
  uint32_t dtype_;
  bool rounds_later_;  // experts give f32; scale, shared experts and the like are still to come
  double output_scale_, shared_scale_;
  std::string activation_, scheme_;
  int32_t warp_;
  ExpertMap map_;
  DeviceMemory counts_;  // u64 [num_ids_]
  bool finished_ = false;
};

}  // namespace moert::gpu
