// Which numbers meet in a problem's matrix products: how weights are kept, and what becomes of rows before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "formats.hpp"
#include "row_rule.hpp"

namespace moert::gpu {

struct Treatment {
  WeightFormat format;
  Element element = Element::f32;  // of rows and of the middle
  RowRule rule;
  // Quantised rows are codes with scales; else the numbers that remain of them.
  bool codes = false;
};

// By the words of a problem. Rows of bf16 stay bf16 where weights are kept as they are, quantised ones become codes
// where weights are codes too and groups of both fit into each other; everything else is f32. False for a word
// `activations` that is not known for such weights.
bool treat(std::string_view weight_scheme, std::string_view activations, uint32_t activation_dtype,
           Treatment* treatment);

// "weights as fp8, rows as codes of 'token'"
std::string treatment_text(const Treatment& treatment, std::string_view weight_scheme,
                           std::string_view activations);

}  // namespace moert::gpu
