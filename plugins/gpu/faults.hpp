// What kernels found wrong in data that only the device sees: a word for each device, and its text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace moert::gpu {

enum class FaultCode : uint8_t {
  none,
  expert_id,      // an id given to experts that is neither -1 nor a local expert
  forced_id,      // an id forced on a router that is no expert
  forced_repeat,  // an id forced twice on one row
  token_id,       // a token id outside of a router's table
  captured_id     // an id given to a capturer that is no expert
};

// In host memory that the device writes. It is one word, so that it is whole whoever writes last; 0 is none.
// kernels/fault.cuh writes it.
struct Fault {
  static constexpr int64_t kMostRow = (int64_t{1} << 24) - 1;
  uint64_t word;
};

// The record of a device, which exists from the first call on and is never given back. Any thread. Throws what
// allocate_host throws, so it is asked for when objects are made, not in a forward.
Fault* fault_record(int32_t ordinal);

// What was found wrong since the last call, in one sentence; empty if nothing was. Any thread. To be called when the
// device's work is done.
std::string take_fault(int32_t ordinal);

}  // namespace moert::gpu
