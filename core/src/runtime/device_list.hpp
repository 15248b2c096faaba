// Which devices there are, and why a backend has none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <moert/abi/device.h>

#include "registry/registry.hpp"
#include "runtime/session.hpp"

namespace moert::runtime {

// What one device feature answers.
struct BackendDevices {
  const registry::Candidate* candidate = nullptr;
  std::string word;    // "cuda": its devices are "cuda:0" and so on
  std::string reason;  // why there is no device, or why asking ended early; empty if all is well
  std::vector<moert_device_info_t> devices;
};

// Asks every backend of `session`, in the registry's order. That may start a driver. Never throws for a plugin's error.
std::vector<BackendDevices> list_devices(const Session& session);

}  // namespace moert::runtime
