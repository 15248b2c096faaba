// Rows on their way into a multiplication that cannot read them where they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "matrix.hpp"

namespace moert::cpu::simd {

// Row t, times `factor`, as f32. Products are rounded once.
void row_to_f32(const Matrix& rows, int64_t t, float factor, float* to);
// Row t of bf16 whose numbers lie apart.
void row_to_bf16(const Matrix& rows, int64_t t, uint16_t* to);

}  // namespace moert::cpu::simd
