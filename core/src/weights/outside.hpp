// Quantised weights of a checkpoint that belong to no MoE layer: attention, dense layers, multi-token prediction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "spec/model.hpp"
#include "weights/plan.hpp"

namespace moert::weights {

struct Outside {
  std::deque<spec::TensorRule> rules;  // that the sources point to
  std::vector<Source> sources;         // in the order of the files
  std::vector<Format> formats;         // Source::format is an index into these
  std::vector<Finding> unread;         // weights of formats that are not known here
};

// Found by their names and types alone; floats without a scale are none.
Outside find_outside(const spec::Model& model, const Checkpoint& checkpoint, const Plan& plan);

// The name of a weight in a family's rules: "x.weight" of "x.weight_packed" and of "x.qweight".
std::string plain_name(const std::string& name);
// A tensor's name without its last word: what lists of modules speak of.
std::string_view module_of(std::string_view name);

}  // namespace moert::weights
