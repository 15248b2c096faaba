// The level of instructions that a user asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"
#include "runtime/session.hpp"

namespace moert::tool {

// Throws Error(usage) where --cpu-isa or MOERT_CPU_ISA is no level, Error(refused) where this machine lacks it:
// else the layers would go to the oracle, which is right and slow. Asks cpu.simd, whose words these are; without
// it there is nothing to say.
void require_instructions(const Options& options, const runtime::Session& session);

}  // namespace moert::tool
