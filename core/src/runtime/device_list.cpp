// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_list.hpp"

#include "runtime/call.hpp"
#include "runtime/device.hpp"

namespace moert::runtime {

namespace {

// Fills in the devices; the reason, if that fails.
void ask(const Session& session, const moert_device_t& table, BackendDevices& backend) {
  Call call;
  int32_t count = 0;
  if (table.count(session.host(), &count, call.out()) != MOERT_OK) {
    backend.reason = call.message();
    return;
  }
  if (count <= 0) backend.reason = "the backend counts " + std::to_string(count) + " devices";
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    moert_device_info_t info{};
    info.struct_size = sizeof info;
    if (table.info(ordinal, &info, call.out()) != MOERT_OK) {
      backend.reason = call.message();
      return;
    }
    info.name[sizeof info.name - 1] = '\0';
    info.architecture[sizeof info.architecture - 1] = '\0';
    info.driver_version[sizeof info.driver_version - 1] = '\0';
    backend.devices.push_back(info);
  }
}

}  // namespace

std::vector<BackendDevices> list_devices(const Session& session) {
  std::vector<BackendDevices> all;
  for (const registry::Candidate* candidate : session.registry().candidates(MOERT_KIND_DEVICE)) {
    const auto* table = registry::table_of<moert_device_t>(*candidate);
    BackendDevices& backend = all.emplace_back();
    backend.candidate = candidate;
    backend.word = device_word(*candidate);
    ask(session, *table, backend);
  }
  return all;
}

}  // namespace moert::runtime
