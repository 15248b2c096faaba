// Gated MLPs of one shape on a device: their packed weights, and a batch's way through them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include <optional>
#include <string>

#include "arena.hpp"
#include "input_scales.hpp"
#include "packed.hpp"
#include "pieces.hpp"
#include "plan.hpp"
#include "rows.hpp"
#include "special.hpp"
#include "treatment.hpp"

namespace moert::gpu {

// What routed and shared experts have in common. Texts are borrowed.
struct MlpProblem {
  moert_device_id_t device{};
  MlpSizes sizes;
  int64_t experts = 1, top_k = 1, max_tokens = 0;
  uint32_t activation_dtype = 0, output_dtype = 0;
  std::string_view weight_scheme, activations;
  const moert_activation_t* activation = nullptr;
  bool weight_on_input = false;
  GemmKernel gemm = GemmKernel::mma;
};

// Why this is not computed here; empty if it is.
std::string refusal(const MlpProblem& problem);
// Of a problem that is not refused: how it is served, and the memory that it holds on the device.
std::string service_text(const MlpProblem& problem);
uint64_t persistent_bytes(const MlpProblem& problem);

// One forward, after every check. All pointers are on the device.
struct MlpBatch {
  int64_t tokens = 0;
  StridedRows hidden, out;
  StridedSlots<int32_t> ids;    // data NULL: every token takes the one expert there is
  StridedSlots<float> weights;  // data NULL: all are 1
};

// Loading: one thread for an expert at a time, different experts at once. The rest: one thread.
class Mlps {
 public:
  // Throws MOERT_UNIMPLEMENTED with the reason of a refusal.
  explicit Mlps(const MlpProblem& problem);
  ~Mlps();
  Mlps(const Mlps&) = delete;
  Mlps& operator=(const Mlps&) = delete;

  void load(const moert_piece_t& piece);
  void expect_complete() const { pieces_.expect_complete(); }
  void finish();

  // Does not fall as tokens grow.
  uint64_t workspace(int64_t tokens) const;
  // Enqueues. Large batches go through in parts, which changes no bits. `workspace` as above.
  void forward(const MlpBatch& batch, void* workspace, Stream stream) const;

  uint64_t bundle_bytes() const;
  void read(int64_t expert, void* bundle, Stream stream) const;
  void write(int64_t expert, const void* bundle, Stream stream);

 private:
  // The arrays of one part of a batch.
  struct Memory {
    PlanMemory plan;
    void* rows = nullptr;  // [tokens or slots, padded hidden], where they can't be read as they are
    float* row_scales = nullptr;
    void* middle = nullptr;  // [slots, padded intermediate]
    float* middle_scales = nullptr;
    float* sums =
        nullptr;  // f32 [slots, ...]: the middle before it becomes codes, then what goes into the sum
  };
  struct Cut;

  int64_t most_tokens() const;
  int64_t middle_cols() const { return layout_.down.padded_cols(); }
  int64_t out_cols() const { return layout_.down.panels * 16; }
  bool rows_by_slot() const { return on_input_ || treatment_.rule.by_weight(); }
  Memory take(Arena& arena, int64_t tokens) const;
  void part(const MlpBatch& batch, int64_t first, void* workspace, Stream stream) const;
  PlanView plan(const MlpBatch& batch, int64_t first, const Memory& memory, const Cut& cut,
                Stream stream) const;
  RowsView rows(const MlpBatch& batch, const Memory& memory, const PlanView& plan,
                Stream stream) const;
  RowsView middle(const RowsView& rows, const Memory& memory, const PlanView& plan, const Cut& cut,
                  Stream stream) const;
  bool readable(const StridedRows& hidden) const;
  RowsArgs quantised(const StridedRows& from, int64_t count, int64_t cols, int64_t padded) const;

  moert_device_id_t device_;
  MlpSizes sizes_;
  int64_t experts_, top_k_;
  bool on_input_;
  Treatment treatment_;
  PackedLayout layout_;
  GemmKernel gemm_;
  Bend bend_;
  int32_t warp_, multiprocessors_;
  Fault* fault_;
  Pieces pieces_;
  std::optional<PackedMlps> weights_;  // empty before the device is current, and after
  std::optional<InputScales> scales_;
};

}  // namespace moert::gpu
