// The suite's own quant method for plain floats and mxfp4, so that layers are judged without another plugin.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>

namespace moert::conformance {

// Reads f32, bf16, f16 and mxfp4 by the tensor's dtype; needs no object. What it calls the quantisation of rows
// multiplies them by the static scale, so that whoever leaves it out, or does it twice, is seen.
const moert_quant_method_t& plain_quant();

}  // namespace moert::conformance
