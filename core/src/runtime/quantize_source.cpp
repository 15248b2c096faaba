// A checkpoint that is to be written anew, and all that is known of its tensors.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "runtime/quantize_plan.hpp"

namespace moert::runtime {

QuantizeSource::QuantizeSource(spec::Model of, spec::Tensors its_rules)
    : model(std::move(of)),
      rules(std::move(its_rules)),
      checkpoint(model.checkpoint),
      plan(weights::make_plan(model, rules, checkpoint)) {
  plan.require_complete(checkpoint);
  outside = weights::find_outside(model, checkpoint, plan);
}

}  // namespace moert::runtime
