// The processor: one device and the reference implementations, and fast experts.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include "device.hpp"
#include "ref/experts.hpp"
#include "ref/router.hpp"
#include "ref/shared.hpp"
#include "simd/experts.hpp"
#include "simd/router.hpp"
#include "simd/shared.hpp"

MOERT_PLUGIN("org.moert.cpu", "cpu", "MoERT", "0.1.0", moert::cpu::CpuDevice,
             moert::cpu::RefExperts, moert::cpu::RefRouter, moert::cpu::RefShared,
             moert::cpu::SimdExperts, moert::cpu::SimdRouter, moert::cpu::SimdShared)
