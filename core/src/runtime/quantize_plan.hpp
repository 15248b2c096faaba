// What a quantised checkpoint will hold: every tensor, where it comes from, and what the config says of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/quantize_layout.hpp"
#include "runtime/target_scheme.hpp"
#include "runtime/weight_codec.hpp"
#include "spec/expert_scheme.hpp"
#include "spec/model.hpp"
#include "spec/quantization.hpp"
#include "weights/outside.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {

// What a checkpoint is read from, with its plan.
struct QuantizeSource {
  spec::Model model;
  spec::Tensors rules;
  weights::Checkpoint checkpoint;
  weights::Plan plan;
  weights::Outside outside;

  QuantizeSource(spec::Model model, spec::Tensors rules);  // throws Error as make_plan does
  QuantizeSource(const QuantizeSource&) = delete;
  QuantizeSource& operator=(const QuantizeSource&) = delete;
  const weights::Format& format_of(const weights::Source& source, bool is_outside) const {
    return (is_outside ? outside.formats : plan.formats)[source.format];
  }
};

struct QuantizeWishes {
  std::string scheme;
  std::vector<std::string> exclude;  // targets as spec::FormatGroup has them
  std::vector<spec::ExpertScheme> experts;
};

inline constexpr size_t kNoLayer = ~size_t{0};

// A weight that is written: the same parts of one expert, or of all that a tensor holds.
struct NewWeight {
  const TargetScheme* target = nullptr;
  Placement to;
  size_t layer = kNoLayer;  // index into the model's MoE layers; kNoLayer: it belongs to none
  bool is_outside = false;  // of the MoE layers
  bool unchanged = false;   // has that scheme already: its tensors are copied
  std::vector<const weights::Source*> pieces;  // by expert, then by half
  std::vector<StoredTensor> tensors;
  size_t first = 0;  // index of the first of them in the new checkpoint; the others follow
};

// One step of writing, in the order of the source's files.
struct WriteStep {
  const weights::TensorInfo* copy = nullptr;  // to the tensor of index `first`, or
  size_t weight = 0;                          // an index into weights
  size_t first = 0;
};

struct QuantizePlan {
  std::vector<std::unique_ptr<TargetScheme>> schemes;  // that weights point to
  std::vector<NewWeight> weights;
  std::vector<WriteStep> steps;
  std::vector<weights::TensorInfo> tensors;  // of the new checkpoint
  bool is_copy = false;                      // every weight has its scheme already
  uint64_t excluded = 0;                     // weights that a pattern kept as they are
  // The config's: a quantization in the place of its own, or its own without these modules.
  bool keeps_own = false;
  spec::Quantization quantization;
  std::vector<std::string> newly_excluded;
  std::vector<std::string> notes;  // what the user may not expect
};

// `source` must outlive the plan. Throws Error(usage) for wishes that cannot be granted.
QuantizePlan plan_quantize(const QuantizeSource& source, const QuantizeWishes& wishes,
                           WeightCodec& codec);

}  // namespace moert::runtime
