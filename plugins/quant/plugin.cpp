// The weight formats of this library. A new one is a file beside these and a line below.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include "bf16.hpp"
#include "f16.hpp"
#include "f32.hpp"
#include "fp4.hpp"
#include "fp8.hpp"
#include "int4.hpp"
#include "int8.hpp"

MOERT_PLUGIN("org.moert.quant", "quant", "MoERT", "0.1.0", moert::quant::F32, moert::quant::BF16,
             moert::quant::F16, moert::quant::Fp8, moert::quant::Fp4, moert::quant::Int8,
             moert::quant::Int4)
