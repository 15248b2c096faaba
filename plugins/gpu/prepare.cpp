// What a device needs before the first forward of any object on it.
// SPDX-License-Identifier: Apache-2.0
#include "prepare.hpp"

#include <mutex>
#include <set>

#include "runtime.hpp"

namespace moert::gpu {
namespace {

struct Prepared {
  std::mutex mutex;
  std::set<int32_t> devices;
};
// Lives as long as the process, like the memory of fault records.
Prepared& prepared() {
  static auto* all = new Prepared;
  return *all;
}

}  // namespace

Fault* prepare_device(int32_t ordinal) {
  Prepared& all = prepared();
  {
    const std::lock_guard lock(all.mutex);
    if (all.devices.count(ordinal) == 0) {
      const CurrentDevice current(ordinal);
      load_kernels();
      all.devices.insert(ordinal);
    }
  }
  return fault_record(ordinal);
}

}  // namespace moert::gpu
