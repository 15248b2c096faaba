// A device feature with a stream, for its tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/device.h>

#include "host.hpp"
#include "suite.hpp"

namespace moert::conformance {

struct DeviceRig {
  // Throws Skip where there is no device.
  explicit DeviceRig(const Feature& feature);
  ~DeviceRig();
  DeviceRig(const DeviceRig&) = delete;
  DeviceRig& operator=(const DeviceRig&) = delete;
  void wait();

  const moert_device_t& table;
  TestHost host;
  moert_stream_t stream{};  // of device 0
};

void add_device_order_tests(const Feature& feature);

}  // namespace moert::conformance
