// The tokens among the rows of a step, and a layer's decisions for them alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "capture/row_places.hpp"
#include "runtime/forward_context.hpp"

namespace moert::runtime {

// Which tokens the rows of a step are.
struct StepRows {
  int64_t tokens = 0;
  const capture::RowKey* keys = nullptr;  // [tokens]
  const uint8_t* valid = nullptr;         // [tokens]; 0: padding. nullptr: all are tokens
  bool final = true;                      // committed when the step ends
};

// Padding behind the tokens is left out by counting: the views have more rows. Padding between them is left out by
// gathering, on the side that the capturers read. One thread at a time.
class CaptureRows {
 public:
  explicit CaptureRows(const Model& model);

  // `on_device`: some capturer reads the device's memory. Throws Error(device) where it is short.
  void set(const StepRows& rows, bool on_device);
  int64_t count() const { return static_cast<int64_t>(sequences_.size()); }
  const int64_t* sequences() const { return sequences_.data(); }
  const int64_t* positions() const { return positions_.data(); }

  // Valid until the next call for the same side.
  struct Views {
    TensorView ids, weights, margins;
  };
  // `routing` with margins.
  Views on_host(const Routing& routing);
  // Of the last forward. Waits for nothing.
  Views on_device(size_t layer, const ForwardContext& context);

 private:
  struct Run {
    int64_t from, to, count;  // rows of the step, rows of the tokens
  };
  const void* gathered(const TensorView& view, DeviceMemory& to) const;

  const Model& model_;
  std::vector<int64_t> sequences_, positions_;
  std::vector<Run> runs_;  // tokens that stand together; empty: all stand in front
  Routing host_;
  DeviceMemory ids_, weights_, margins_;
};

}  // namespace moert::runtime
