// Factors of RMS norms, row by row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "records.hpp"

namespace moert::gpu {

// Enqueues; `warp` is the device's. Squares are added in an order that does not depend on the batch.
void launch_row_factors(int warp, void* stream, const FactorsArgs& args);

}  // namespace moert::gpu
