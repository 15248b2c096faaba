// What a layer needs, and the shapes in which tensors may bring it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/family.hpp"
#include "spec/model.hpp"

namespace moert::weights {

// Does the layer want this part? `unwanted` comes with a reason: the checkpoint holds something that
// the model has no use for. What a fact of the model decides is needed or unwanted, never optional.
struct Need {
  enum Kind { needed, optional, unwanted } kind = needed;
  const char* reason = "";
};
Need need_of(const spec::MoELayer& layer, spec::Target target, uint32_t part, uint32_t role);

// Shapes that a tensor under `rule` may have; -1 is any size. The first is the usual one.
std::vector<std::vector<int64_t>> expected_shapes(const spec::Model& model,
                                                  const spec::MoELayer& layer,
                                                  const spec::TensorRule& rule);

// "expert 3, gate", "router, selection bias", "shared experts, up, bias"
std::string part_text(spec::Target target, int64_t expert, uint32_t part, uint32_t role);

}  // namespace moert::weights
