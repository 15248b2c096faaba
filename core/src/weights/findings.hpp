// Names that were probably meant, for findings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "spec/model.hpp"
#include "weights/plan.hpp"
#include "weights/rules.hpp"

namespace moert::weights {

// Fills `nearest`: of a missing tensor among the unexpected ones, of an unexpected one among the
// missing ones and what the rules would call it. Only the first hundred of each kind, so that a
// checkpoint of another family costs no more than one that fits. `layouts` has one per layer.
void fill_nearest(const spec::Model& model, const Rules& rules, const std::vector<int>& layouts,
                  std::vector<Finding>* findings);

}  // namespace moert::weights
