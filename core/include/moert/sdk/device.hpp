// A device's table as a feature. A device has no objects, so there is no base class: write the
// functions of abi/device.h (detail::guarded keeps exceptions inside) and wrap the table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/device.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

// Derive a class with kFeature and `static constexpr moert_device_t kTable`.
struct Device {
  struct Kind {
    static constexpr const char* id = MOERT_KIND_DEVICE;
    template <class T>
    static constexpr moert_device_t table = T::kTable;
  };
};

}  // namespace moert
