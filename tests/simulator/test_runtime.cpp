// The simulated machine as plugins/gpu/runtime.hpp sees it: devices, memory, streams that are late, events.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "machine.hpp"

namespace {

using namespace moert;
using namespace moert::gpu;
using sim::test::add_kernel;
using sim::test::DeviceMemory;
using sim::test::HostMemory;
using sim::test::Machine;
using sim::test::refusal;
using sim::test::StreamOf;

class SimulatorRuntime : public Machine {};

constexpr int kN = 64;
constexpr uint64_t kBytes = kN * 4;

void add(Stream stream, int32_t* numbers, int32_t what) {
  launch<add_kernel>({1, 1}, kN, 0, stream, numbers, what);
}

TEST_F(SimulatorRuntime, Devices) {
  EXPECT_EQ(device_count(), 2);
  const DeviceFacts facts = device_facts(1);
  EXPECT_EQ(facts.architecture, "sim32");
  EXPECT_EQ(facts.warp, 32);
  EXPECT_EQ(facts.layout, LayoutId::nv);
  EXPECT_EQ(facts.memory, uint64_t{4096} << 20);
  EXPECT_EQ(facts.memory_free, facts.memory);
  EXPECT_EQ(remembered_facts(1).name, facts.name);
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [] { device_facts(2); }),
            "sim32 error 101: there is no device 2; there are 2");
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [] { CurrentDevice here(-1); }),
            "sim32 error 101: there is no device -1; there are 2");
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [] { remembered_facts(9); }),
            "sim32 error 101: there is no device 9; there are 2");
}

TEST_F(SimulatorRuntime, Environment) {
  set("MOERT_SIM_DEVICES", "0");
  EXPECT_EQ(refusal(MOERT_UNAVAILABLE, [] { device_count(); }),
            "sim32 error 100: no device: MOERT_SIM_DEVICES is 0");
  set("MOERT_SIM_DEVICES", "many");
  EXPECT_NE(refusal(MOERT_INVALID_ARGUMENT, [] { device_count(); })
                .find("MOERT_SIM_DEVICES='many' is not a number"),
            std::string::npos);
  set("MOERT_SIM_DEVICES", "3");
  set("MOERT_SIM_LAYOUT", "rdna");
  EXPECT_EQ(device_count(), 3);
  EXPECT_EQ(device_facts(2).layout, LayoutId::rdna);
  set("MOERT_SIM_LAYOUT", "cdna");
  EXPECT_NE(
      refusal(MOERT_INVALID_ARGUMENT, [] { device_count(); }).find("this simulator has nv or rdna"),
      std::string::npos);
}

TEST_F(SimulatorRuntime, OutOfMemory) {
  set("MOERT_SIM_MEMORY_MB", "1");
  const DeviceMemory first(1000000);
  EXPECT_EQ(device_facts(0).memory_free, 48576u);
  EXPECT_EQ(refusal(MOERT_RESOURCE_EXHAUSTED, [] { allocate(48577); }),
            "sim32 error 2: out of memory: 48577 bytes were asked for, 48576 are free on device 0");
  const CurrentDevice other(1);
  const DeviceMemory second(1 << 20);
  EXPECT_EQ(allocate(0), nullptr);
}

TEST_F(SimulatorRuntime, CurrentDeviceIsOfTheThreadAndNests) {
  const CurrentDevice one(1);
  {
    const CurrentDevice zero(0);
    const DeviceMemory memory(16);
    EXPECT_EQ(sim::leaks(), "device 0: 1 allocations\n");
  }
  const StreamOf stream;
  EXPECT_EQ(sim::leaks(), "device 1: 1 streams\n");
}

TEST_F(SimulatorRuntime, WorkIsDoneWhenSomebodyWaits) {
  const HostMemory pinned(kBytes);
  const DeviceMemory device(kBytes);
  const StreamOf stream;
  const std::vector<int32_t> in(kN, 40);
  copy_to_device(stream, device.numbers(), in.data(), kBytes);
  add(stream, device.numbers(), 2);
  copy_to_host(stream, pinned.numbers(), device.numbers(), kBytes);
  EXPECT_EQ(pinned.numbers()[kN - 1], -1) << "nobody has waited";
  synchronize(stream);
  EXPECT_EQ(std::count(pinned.numbers(), pinned.numbers() + kN, 42), kN);
}

TEST_F(SimulatorRuntime, PageableAndPinnedHostMemory) {
  const HostMemory pinned(kBytes);
  const DeviceMemory device(kBytes);
  const StreamOf stream;
  std::vector<int32_t> pageable(kN, 1);
  std::fill_n(pinned.numbers(), kN, 1);

  copy_to_device(stream, device.numbers(), pageable.data(), kBytes);
  std::fill(pageable.begin(), pageable.end(), 2);  // it has been read
  copy_to_host(stream, pageable.data(), device.numbers(), kBytes);
  EXPECT_EQ(pageable[5], 1) << "it has been written";

  copy_to_device(stream, device.numbers(), pinned.numbers(), kBytes);
  std::fill_n(pinned.numbers(), kN, 3);  // too early
  copy_to_host(stream, pageable.data(), device.numbers(), kBytes);
  EXPECT_EQ(pageable[5], 3) << "pinned memory is read late";

  copy_to_host(stream, pinned.numbers(), device.numbers(), kBytes);
  std::fill_n(pinned.numbers(), kN, 4);
  copy_to_device(stream, device.numbers(), pageable.data(), kBytes);
  EXPECT_EQ(pinned.numbers()[5], 3) << "a copy of pageable memory waits for its stream";
}

TEST_F(SimulatorRuntime, MemoryIsPoisonedAndFilled) {
  const DeviceMemory from(kBytes), to(kBytes);
  const StreamOf stream;
  std::vector<int32_t> out(kN);
  copy_to_host(stream, out.data(), from.numbers(), kBytes);
  EXPECT_EQ(std::count(out.begin(), out.end(), -1), kN);
  fill(stream, from.numbers(), 1, kBytes - 4);
  copy_on_device(stream, to.numbers(), from.numbers(), kBytes);
  copy_to_host(stream, out.data(), to.numbers(), kBytes);
  EXPECT_EQ(out[kN - 2], 0x01010101);
  EXPECT_EQ(out[kN - 1], -1);
}

TEST_F(SimulatorRuntime, StreamsWaitOnlyWhereTheyAreTold) {
  for (const bool waits : {false, true}) {
    const DeviceMemory device(kBytes);
    const StreamOf first, second;
    std::vector<int32_t> out(kN);
    Event written = create_event();
    fill(first, device.numbers(), 0, kBytes);
    add(first, device.numbers(), 5);
    record(first, written);
    if (waits) wait(second, written);
    copy_to_host(second, out.data(), device.numbers(), kBytes);
    EXPECT_EQ(out[0], waits ? 5 : -1);
    destroy_event(written);
  }
}

TEST_F(SimulatorRuntime, AnEventIsWhereItWasRecordedLast) {
  const HostMemory seen(4);
  const DeviceMemory device(kBytes);
  const StreamOf stream;
  Event event = create_event(), never = create_event();
  synchronize_event(never);
  wait(stream, never);
  fill(stream, device.numbers(), 0, kBytes);
  record(stream, event);
  copy_to_host(stream, seen.numbers(), device.numbers(), 4);
  synchronize_event(event);
  EXPECT_EQ(*seen.numbers(), -1) << "the copy stands behind the event";
  add(stream, device.numbers(), 9);
  record(stream, event);
  synchronize_event(event);
  EXPECT_EQ(*seen.numbers(), 0);
  copy_to_host(stream, seen.numbers(), device.numbers(), 4);
  synchronize(stream);
  EXPECT_EQ(*seen.numbers(), 9);
  destroy_event(event);
  destroy_event(never);
}

TEST_F(SimulatorRuntime, SecondsBetweenEvents) {
  const StreamOf stream;
  Event start = create_event(), stop = create_event();
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [&] { seconds_between(start, stop); })
                .find("never recorded"),
            std::string::npos);
  record(stream, start);
  record(stream, stop);
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [&] { seconds_between(start, stop); })
                .find("not happened yet"),
            std::string::npos);
  synchronize(stream);
  EXPECT_TRUE(seconds_between(start, stop) >= 0);
  destroy_event(start);
  destroy_event(stop);
}

TEST_F(SimulatorRuntime, ReleaseWaitsForTheDevice) {
  const HostMemory pinned(kBytes);
  const DeviceMemory device(kBytes);
  const StreamOf stream;
  void* other = allocate(16);
  fill(stream, device.numbers(), 0, kBytes);
  copy_to_host(stream, pinned.numbers(), device.numbers(), kBytes);
  release(other);
  EXPECT_EQ(pinned.numbers()[0], 0);
  release(nullptr);
  release_host(nullptr);
}

TEST_F(SimulatorRuntime, RefusesWhatIsOfAnotherDevice) {
  const DeviceMemory device(kBytes);
  const StreamOf stream;
  const HostMemory pinned(kBytes);
  const CurrentDevice other(1);
  const StreamOf other_stream;
  Event event = create_event();
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [&] { fill(stream, device.numbers(), 0, 4); }),
            "sim32 error 400: fill: the stream is one of device 0, the current device is 1");
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [&] { fill(other_stream, device.numbers(), 0, 4); }),
            "sim32 error 1: fill: the memory is that of device 0, the stream of 1");
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [&] { add(stream, device.numbers(), 1); }),
            "sim32 error 400: launch: the stream is one of device 0, the current device is 1");
  const CurrentDevice first(0);
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [&] { record(stream, event); }),
            "sim32 error 400: record: the event is one of another device than the stream");
  destroy_event(event);
}

TEST_F(SimulatorRuntime, RefusesWrongMemory) {
  const DeviceMemory device(kBytes);
  const HostMemory pinned(kBytes);
  const StreamOf stream;
  std::vector<int32_t> host(kN);
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [&] { fill(stream, device.numbers() + 1, 0, kBytes); }),
            "sim32 error 1: fill: 256 bytes from byte 4 on are more than the allocation's 256");
  EXPECT_EQ(
      refusal(MOERT_INVALID_ARGUMENT, [&] { copy_to_device(stream, host.data(), host.data(), 4); }),
      "sim32 error 1: copy_to_device: the pointer is not one of device memory");
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT,
                    [&] { copy_to_host(stream, device.numbers(), device.numbers(), 4); }),
            "sim32 error 1: copy_to_host: device memory stands where host memory is due");
  EXPECT_EQ(
      refusal(MOERT_INVALID_ARGUMENT,
              [&] { copy_to_host(stream, pinned.numbers(), device.numbers(), 257); }),
      "sim32 error 1: copy_to_host: 257 bytes from byte 0 on are more than the allocation's 256");
  EXPECT_EQ(refusal(MOERT_INVALID_ARGUMENT, [&] { synchronize(&host); }),
            "sim32 error 400: synchronize: there is no such stream");
}

TEST_F(SimulatorRuntime, RefusesLaunches) {
  const DeviceMemory device(kBytes);
  const StreamOf stream;
  const auto tried = [&](Grid grid, int threads, uint32_t shared_bytes) {
    return refusal(MOERT_INTERNAL, [&] {
      launch<add_kernel>(grid, threads, shared_bytes, stream, device.numbers(), 1);
    });
  };
  EXPECT_NE(
      tried({0, 1}, 32, 0).find("error 9: a kernel with a grid of 0 x 1 blocks cannot be launched"),
      std::string::npos);
  EXPECT_NE(tried({1, 65536}, 32, 0).find("a grid of 1 x 65536 blocks"), std::string::npos);
  EXPECT_NE(tried({1, 1}, 48, 0).find("blocks of 48 threads"), std::string::npos);
  EXPECT_NE(tried({1, 1}, 1056, 0).find("blocks of 1056 threads"), std::string::npos);
  EXPECT_NE(tried({1, 1}, 32, 232449)
                .find("232449 bytes of shared memory, of which there are 232448, cannot"),
            std::string::npos);
  EXPECT_NE(tried({1, 1}, 0, 0).find("test_runtime.cpp:"), std::string::npos) << "the line is told";
}

void overrun_kernel(unsigned char* bytes, int at) { bytes[at] = 0; }

TEST_F(SimulatorRuntime, MistakesWithMemoryEndTheProcess) {
  int32_t here = 0;
  EXPECT_DEATH(release(&here), "release of a pointer that was not allocated so");
  EXPECT_DEATH(release_host(&here), "release_host of a pointer that was not allocated so");
  EXPECT_DEATH(destroy_stream(&here), "destroy_stream of what is no stream");
  EXPECT_DEATH(
      {
        const StreamOf stream;
        auto* bytes = static_cast<unsigned char*>(allocate(13));
        launch<overrun_kernel>({1, 1}, 32, 0, stream, bytes, 13);
        release(bytes);
      },
      "something wrote outside of this memory|AddressSanitizer");
  EXPECT_DEATH(
      {
        const StreamOf stream;
        const DeviceMemory device(kBytes);
        void* pinned = allocate_host(kBytes);
        copy_to_host(stream, pinned, device.numbers(), kBytes);
        release_host(pinned);
      },
      "release_host of memory that a copy in a stream still needs");
}

TEST_F(SimulatorRuntime, LeaksAreTold) {
  void* memory = allocate(8);
  Event event = create_event();
  EXPECT_EQ(sim::leaks(), "device 0: 1 allocations 1 events\n");
  EXPECT_EXIT(
      {
        setenv("MOERT_SIM_LEAKS", "1", 1);
        std::exit(0);
      },
      testing::KilledBySignal(SIGABRT), "left at the end:\ndevice 0: 1 allocations 1 events");
  release(memory);
  destroy_event(event);
}

}  // namespace
