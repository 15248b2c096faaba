// How a kernel says what it found wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../faults.hpp"
#include "../port.cuh"

namespace moert::gpu {

// One store, so that of several faults one remains, and is whole. A row beyond Fault::kMostRow counts as that one, and
// a value beyond 32 bits as the nearest that fits.
MOERT_DEVICE void report_fault(Fault* record, FaultCode code, int64_t row, int64_t value) {
  const int64_t kept = row < Fault::kMostRow ? row : Fault::kMostRow;
  const int64_t least = -(int64_t{1} << 31), most = -(least + 1);
  const int64_t near = value < least ? least : value > most ? most : value;
  const uint64_t word = static_cast<uint64_t>(code) << 56 | static_cast<uint64_t>(kept) << 32 |
                        static_cast<uint32_t>(near);
  *static_cast<volatile uint64_t*>(&record->word) = word;
}

}  // namespace moert::gpu
