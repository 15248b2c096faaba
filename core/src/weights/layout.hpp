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

// Is this the type of numbers that are packed two or eight to one?
bool is_packed_dtype(uint32_t dtype);
// Adds the shapes in which four-bit formats store a weight of the first of `shapes`.
void add_packed_shapes(uint32_t dtype, const spec::TensorRule& rule,
                       std::vector<std::vector<int64_t>>* shapes);

// [out, in] of a weight of one expert, the halves of a fused one together.
struct Extent {
  int64_t out = 0, in = 0;
};
Extent weight_extent(const spec::Model& model, const spec::MoELayer& layer,
                     const spec::TensorRule& rule);
// Is it a matrix, that may have a format?
bool is_matrix(spec::Target target, uint32_t part, uint32_t role);

// "expert 3, gate", "router, selection bias", "shared experts, up, bias"
std::string part_text(spec::Target target, int64_t expert, uint32_t part, uint32_t role);

}  // namespace moert::weights
