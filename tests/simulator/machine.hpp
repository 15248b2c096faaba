// What tests of the simulated machine have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "../../plugins/gpu/port.cuh"
#include "../../plugins/gpu/runtime.hpp"
#include "simulator.hpp"

namespace moert::sim::test {

inline void add_kernel(int32_t* numbers, int32_t what) { numbers[gpu::thread()] += what; }

// A machine as no environment has it, with nothing left over at the end.
class Machine : public testing::Test {
 public:
  ~Machine() override {
    EXPECT_EQ(leaks(), "");
    clear();
  }

 protected:
  Machine() {
    clear();
    for (int32_t device = 0; device < gpu::device_count(); ++device) {
      const gpu::CurrentDevice current(device);
      gpu::load_kernels();
    }
  }
  static void set(const char* variable, const char* value) {
    setenv(variable, value, 1);
    read_environment_again();
  }

 private:
  static void clear() {
    for (const char* variable :
         {"MOERT_SIM_DEVICES", "MOERT_SIM_MEMORY_MB", "MOERT_SIM_GRID_THREADS", "MOERT_SIM_LAYOUT"})
      unsetenv(variable);
    read_environment_again();
  }
};

// The text of the PluginError that `body` throws with this code.
template <class Body>
std::string refusal(moert_code_t code, Body body) {
  try {
    body();
  } catch (const PluginError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t bytes) : start_(gpu::allocate(bytes)) {}
  ~DeviceMemory() { gpu::release(start_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  int32_t* numbers() const { return static_cast<int32_t*>(start_); }

 private:
  void* start_;
};

class HostMemory {
 public:
  explicit HostMemory(uint64_t bytes) : start_(gpu::allocate_host(bytes)) {}
  ~HostMemory() { gpu::release_host(start_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  int32_t* numbers() const { return static_cast<int32_t*>(start_); }

 private:
  void* start_;
};

class StreamOf {
 public:
  StreamOf() : stream_(gpu::create_stream()) {}
  ~StreamOf() { gpu::destroy_stream(stream_); }
  StreamOf(const StreamOf&) = delete;
  StreamOf& operator=(const StreamOf&) = delete;
  operator gpu::Stream() const { return stream_; }

 private:
  gpu::Stream stream_;
};

}  // namespace moert::sim::test
