// Which local copies a logical expert has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/tensor.h>

#include <vector>

#include "../device_memory.hpp"
#include "stages.hpp"

namespace moert::gpu {

// Until it is set, every expert is its own copy. Kernels find the map by way of a record that never moves, so that a
// graph obeys what is set when it is launched.
class ExpertMap {
 public:
  ExpertMap(int32_t ordinal, int64_t experts, int64_t ids, int64_t local_experts);

  // I32 [experts, copies] on the host. Nobody may be using the old one. Throws MOERT_OUT_OF_RANGE for a local id that
  // does not exist, and is then what it was.
  void set(const moert_tensor_t& map);
  // Of the shape that was set, [experts, 1] before.
  void get(const moert_tensor_t& map) const;

  bool is_set() const { return is_set_; }
  ExpertMapView view() const;

 private:
  void take(std::vector<int32_t> fresh, int64_t width);

  int32_t ordinal_;
  int64_t experts_, ids_, local_experts_;
  bool is_set_ = false;
  int64_t width_ = 1;
  std::vector<int32_t> host_;  // copies at the front of their row, -1 behind them
  DeviceMemory device_;        // the same
  DeviceMemory record_;        // ExpertCopies of it
};

}  // namespace moert::gpu
