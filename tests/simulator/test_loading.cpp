// Kernels are loaded before they are launched: a launch itself may neither allocate nor wait.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "machine.hpp"

namespace {

using namespace moert;
using namespace moert::gpu;
using sim::test::DeviceMemory;
using sim::test::refusal;
using sim::test::StreamOf;

void count_kernel(int32_t* number) {
  if (thread() == 0) ++*number;
}

class SimulatorLoading : public sim::test::Machine {
 protected:
  SimulatorLoading() { set("MOERT_SIM_DEVICES", "2"); }  // forgets what is loaded
  void count() const { launch<count_kernel>({1, 1}, 32, 0, *stream_, memory_->numbers()); }
  void SetUp() override {
    stream_ = std::make_unique<StreamOf>();
    memory_ = std::make_unique<DeviceMemory>(4);
    fill(*stream_, memory_->numbers(), 0, 4);
  }
  void TearDown() override {
    memory_.reset();
    stream_.reset();
  }
  std::unique_ptr<StreamOf> stream_;
  std::unique_ptr<DeviceMemory> memory_;
};

constexpr int kLaunch = 25;
const char* const kRefused = "): that would allocate; call load_kernels before";

TEST_F(SimulatorLoading, ALaunchDoesNotLoad) {
  const std::string text = refusal(MOERT_FAILED_PRECONDITION, [this] { count(); });
  EXPECT_EQ(text.find("sim32 error 913: a kernel that is not loaded on device 0 is launched ("), 0u)
      << text;
  EXPECT_NE(text.find("test_loading.cpp:" + std::to_string(kLaunch) + kRefused), std::string::npos)
      << text;
  load_kernels();
  count();
  int32_t number = 0;
  copy_to_host(*stream_, &number, memory_->numbers(), 4);
  EXPECT_EQ(number, 1);
}

TEST_F(SimulatorLoading, OneDeviceIsNotAnother) {
  {
    const CurrentDevice other(1);
    load_kernels();
  }
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [this] { count(); }).find("on device 0"),
            std::string::npos);
}

TEST_F(SimulatorLoading, AGraphThatIsRecordedLoadsNothing) {
  begin_graph(*stream_);
  refusal(MOERT_FAILED_PRECONDITION, [this] { count(); });
  EXPECT_EQ(refusal(MOERT_FAILED_PRECONDITION, [this] { end_graph(*stream_); }),
            "sim32 error 900: end_graph: launch of a kernel that is not loaded was called during "
            "the capture");
  begin_graph(*stream_);
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [] { load_kernels(); }).find("captures a graph"),
            std::string::npos);
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [this] { end_graph(*stream_); })
                .find("load_kernels was called during the capture"),
            std::string::npos);
  load_kernels();
  begin_graph(*stream_);
  count();
  destroy_graph(end_graph(*stream_));
}

// However many launches name it, here and in other files.
TEST_F(SimulatorLoading, AKernelIsInTheListOnce) {
  int found = 0;
  const auto* wanted = reinterpret_cast<const void*>(&sim::test::add_kernel);
  for (const auto* kernel = LaunchedKernel::first(); kernel != nullptr; kernel = kernel->next())
    found += kernel->address() == wanted;
  EXPECT_EQ(found, 1);
}

}  // namespace
