// Events and recorded graphs of a device's stream, on the simulated GPU.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include <moert/error.hpp>

#include "runtime/device_work.hpp"

namespace moert::runtime {
namespace {

class DeviceWork : public ::testing::Test {
 protected:
  static SessionOptions options() {
    SessionOptions options;
    options.threads = 1;
    options.plugin_path = {MOERT_BINARY_DIR "/lib/moert/test-plugins/libmoert_sim32.so"};
    return options;
  }
  DeviceWork() {
    for (DeviceMemory* memory : {&from_, &to_}) memory->reserve(kBytes, "a test");
  }
  std::vector<uint8_t> got() const {
    std::vector<uint8_t> bytes(kBytes);
    device_.copy_to_host(bytes.data(), to_.data(), kBytes);
    device_.synchronize();
    return bytes;
  }

  static constexpr uint64_t kBytes = 1000;
  Session session_{options()};
  Device device_{session_, "sim32:0", {}};
  DeviceMemory from_{device_}, to_{device_};
};

TEST_F(DeviceWork, EventsTellWhatLiesBetween) {
  DeviceEvent start(device_), stop(device_);
  start.record();
  device_.fill(to_.data(), 1, kBytes);
  stop.record();
  stop.synchronize();
  EXPECT_GT(stop.seconds_since(start), 0);
  EXPECT_LT(start.seconds_since(stop), 0);
}

TEST_F(DeviceWork, AnEventThatWasNeverRecordedIsAnError) {
  DeviceEvent start(device_), stop(device_);
  stop.record();
  stop.synchronize();
  EXPECT_THROW(stop.seconds_since(start), Error);
}

TEST_F(DeviceWork, AGraphRunsWhenLaunchedEachTimeAnew) {
  device_.fill(to_.data(), 9, kBytes);
  const DeviceGraph graph(device_, [&] { device_.copy(to_.data(), from_.data(), kBytes); });
  EXPECT_EQ(got(), std::vector<uint8_t>(kBytes, 9)) << "recording runs nothing";
  for (const uint8_t value : {3, 4}) {
    device_.fill(from_.data(), value, kBytes);
    graph.launch();
    EXPECT_EQ(got(), std::vector<uint8_t>(kBytes, value));
  }
}

TEST_F(DeviceWork, AFailedRecordingLeavesTheStreamAsItWas) {
  EXPECT_THROW(DeviceGraph(device_,
                           [&] {
                             device_.fill(to_.data(), 5, kBytes);
                             throw std::runtime_error("no");
                           }),
               std::runtime_error);
  device_.fill(to_.data(), 6, kBytes);
  EXPECT_EQ(got(), std::vector<uint8_t>(kBytes, 6));
}

}  // namespace
}  // namespace moert::runtime
