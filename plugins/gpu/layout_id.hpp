// The arrangements of operands that kernels and packed weights may follow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::gpu {

enum class LayoutId : uint8_t { nv, cdna, rdna };  // tile/layouts.cuh

}  // namespace moert::gpu
