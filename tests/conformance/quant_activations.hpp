// Tests of the ways in which formats quantise activations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quant_object.hpp"

namespace moert::conformance {

// Of eight-bit floats, of MXFP4, of NVFP4 and of eight-bit integers.
const FormatTests& fp8_activations();
const FormatTests& mxfp4_activations();
const FormatTests& nvfp4_activations();
const FormatTests& int8_activations();

}  // namespace moert::conformance
