// What the config of a quantised checkpoint says of its weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/quantize_plan.hpp"

namespace moert::runtime {

// A weight that is copied as it is.
struct KeptWeight {
  const weights::Source* source = nullptr;
  const weights::Format* format = nullptr;
  size_t layer = kNoLayer;  // index into the model's MoE layers
};

// The quant_method with whose words all these schemes can be announced; empty: nothing is quantised.
// `has_blocks`: the family stores them as gpt-oss stores MXFP4.
std::string quantize_method(const QuantizeSource& source,
                            const std::vector<const TargetScheme*>& schemes, bool has_blocks);

// Fills in the quantization. Throws Error(usage) for weights that are kept and cannot be announced beside the
// new ones.
void describe_quantization(const QuantizeSource& source, const std::vector<KeptWeight>& kept,
                           const std::string& method, QuantizePlan* plan);

}  // namespace moert::runtime
