// Whether the first device is the calling thread's current one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "gpu/capture/record.hpp"
#include "gpu/device_array.hpp"

namespace moert::gpu {

// To be made while it is.
class FirstDevice {
 public:
  FirstDevice() { none_.assign({0}); }
  // Only in a stream of the current device can a kernel be launched. This one has no row to write.
  void expect_current() const {
    const StepPlaces places = {none_.device(), nullptr};
    EXPECT_NO_THROW(launch_start_rows(stream_.get(), places, 1, 8, nullptr))
        << "another device is current";
    synchronize(stream_.get());
  }

 private:
  const TestStream stream_;
  DeviceArray<int64_t> none_;
};

}  // namespace moert::gpu
