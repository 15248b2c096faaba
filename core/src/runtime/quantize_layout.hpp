// Under which names, and in which layout, a quantised weight is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/target_scheme.hpp"
#include "runtime/weight_codec.hpp"
#include "spec/family.hpp"
#include "weights/safetensors.hpp"

namespace moert::runtime {

// A tensor as it is written, of all experts that it holds.
struct StoredTensor {
  uint32_t param = 0;  // MOERT_PARAM_*, or weights::kShapeParam
  weights::TensorInfo info;
};

// How one weight lies in the tensors that are written.
struct Placement {
  const spec::TensorRule* rule = nullptr;
  std::string name;  // of the weight under the rule
  int64_t rows = 0, cols = 0,
          experts = 1;  // of one expert, its halves together; that the tensor holds
};

// The family's rule for one expert's `part` beside the stacked tensors of `rule`; nullptr: there is none.
const spec::TensorRule* per_expert_rule(const spec::Tensors& tensors, const spec::TensorRule& rule,
                                        uint32_t part);
// The rule whose pattern is that of `rule` with "_blocks" behind it, or taken away; nullptr: there is none.
const spec::TensorRule* with_blocks(const spec::Tensors& tensors, const spec::TensorRule& rule);
const spec::TensorRule* without_blocks(const spec::Tensors& tensors, const spec::TensorRule& rule);
bool is_of_blocks(const spec::TensorRule& rule);

// Throws Error(usage) where the scheme cannot be written in that layout; `place` names the source.
void require_fit(const TargetScheme& target, const Placement& to, const std::string& place);

// `method` is the quant_method of the config that will be written, whose readers know these names.
std::vector<StoredTensor> stored_tensors(const TargetScheme& target, const Placement& to,
                                         const std::vector<StoredPart>& parts,
                                         const std::string& method);

}  // namespace moert::runtime
