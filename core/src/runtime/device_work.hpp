// Work on a device's stream: how long it takes, and recorded so that it is launched at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "runtime/device.hpp"

namespace moert::runtime {

// A point in the order of a device's stream. The device is borrowed and outlives it.
class DeviceEvent {
 public:
  explicit DeviceEvent(const Device& device);
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  ~DeviceEvent();

  void record();
  void synchronize() const;
  // By the device's clock, between two events that have happened.
  double seconds_since(const DeviceEvent& start) const;

 private:
  const Device* device_;
  void* event_ = nullptr;
};

// A graph of what `enqueue` puts on the device's stream; it runs when it is launched. Only for devices with
// MOERT_DEVICE_GRAPHS. Memory that the work uses must stay where it is. The device is borrowed and outlives it.
class DeviceGraph {
 public:
  // Whatever `enqueue` throws is passed on, with the stream as it was before.
  DeviceGraph(const Device& device, const std::function<void()>& enqueue);
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  ~DeviceGraph();

  void launch() const;

 private:
  const Device* device_;
  void* graph_ = nullptr;
};

}  // namespace moert::runtime
