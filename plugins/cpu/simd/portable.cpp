// The kernels for every processor.
// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"
#include "vec_portable.hpp"

namespace moert::cpu::simd {

constexpr Kernels kPortableKernels = kernels_of<Vec>();

}  // namespace moert::cpu::simd
