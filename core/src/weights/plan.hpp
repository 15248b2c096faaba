// Which tensor of a checkpoint feeds which part of which layer, with strict accounting: every tensor
// is used exactly once or ignored by a written rule, and every part is fed, or it is an error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "spec/family.hpp"
#include "spec/model.hpp"
#include "weights/safetensors.hpp"

namespace moert::weights {

// One tensor's way into a layer. `view` is [out, in] of one expert and one part (or [out] for a bias,
// or the router's own shape): a strided window of the tensor in the file.
struct Source {
  const TensorInfo* tensor = nullptr;
  spec::Target target = spec::Target::expert;
  int64_t expert = 0;
  uint32_t part = 0;  // MOERT_PART_* or MOERT_ROUTER_*
  uint32_t role = 0;
  const spec::TensorRule* rule = nullptr;
};

struct LayerPlan {
  int64_t layer_id = 0;
  std::string layout;            // name of the experts' layout found
  std::string scheme;            // "bf16" ...: from the experts' tensors; mixed ones are an error here
  std::vector<Source> sources;   // experts ascending (so that files are read forward), then the rest
};

// A finding about the checkpoint; `nearest` is the name that was probably meant, or empty.
struct Finding {
  enum Kind { missing, unexpected, misshapen } kind;
  std::string name;     // the tensor, or the expected name
  std::string detail;   // e.g. "is bf16 [16, 48], expected [24, 48]"
  std::string nearest;
};

struct Plan {
  std::vector<LayerPlan> layers;
  std::vector<Finding> findings;  // empty: the checkpoint fits the model
  uint64_t used = 0, ignored = 0;  // tensors
  std::vector<std::pair<std::string, uint64_t>> ignored_by_reason;

  // Throws Error(input) that names the first findings, if there are any.
  void require_complete(const Checkpoint& checkpoint) const;
};

// Time is linear in the number of tensors: names are looked up, not scanned for. `tensors` (the
// rules) must outlive the plan.
Plan make_plan(const spec::Model& model, const spec::Tensors& tensors, const Checkpoint& checkpoint);

// The window of `source` in the file: [out, in], [out], or the whole tensor for the router.
moert::TensorView source_view(const Checkpoint& checkpoint, const Source& source);

}  // namespace moert::weights
