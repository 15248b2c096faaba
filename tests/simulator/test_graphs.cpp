// Capture of graphs: what is recorded, what is refused, and what a graph does when it is launched.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "machine.hpp"

namespace {

using namespace moert;
using namespace moert::gpu;
using sim::test::add_kernel;
using sim::test::DeviceMemory;
using sim::test::HostMemory;
using sim::test::refusal;
using sim::test::StreamOf;

constexpr int kN = 64;
constexpr uint64_t kBytes = kN * 4;

class SimulatorGraph : public sim::test::Machine {
 protected:
  int32_t first_number(const DeviceMemory& memory) const {
    int32_t number = 0;
    copy_to_host(stream_, &number, memory.numbers(), 4);
    return number;
  }
  void add(Stream stream, const DeviceMemory& memory, int32_t what) const {
    launch<add_kernel>({1, 1}, kN, 0, stream, memory.numbers(), what);
  }

 private:
  const StreamOf own_;

 protected:
  const Stream stream_ = own_;
};

TEST_F(SimulatorGraph, RecordsAndReplays) {
  const DeviceMemory memory(kBytes);
  const HostMemory pinned(kBytes);
  fill(stream_, memory.numbers(), 0, kBytes);
  begin_graph(stream_);
  add(stream_, memory, 3);
  copy_to_host(stream_, pinned.numbers(), memory.numbers(), kBytes);
  Graph graph = end_graph(stream_);
  EXPECT_EQ(first_number(memory), 0) << "recording runs nothing";
  launch_graph(stream_, graph);
  launch_graph(stream_, graph);
  EXPECT_EQ(pinned.numbers()[0], -1) << "launches are as late as other work";
  destroy_graph(graph);
  synchronize(stream_);
  EXPECT_EQ(first_number(memory), 6);
  EXPECT_EQ(pinned.numbers()[kN - 1], 6);
}

TEST_F(SimulatorGraph, RefusesMemoryAndWaiting) {
  const DeviceMemory memory(kBytes);
  const HostMemory pinned(kBytes);
  const StreamOf other;
  Event event = create_event();
  record(stream_, event);
  int32_t pageable = 0;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"allocate", [] { allocate(16); }},
      {"allocate_host", [] { allocate_host(16); }},
      {"synchronize", [&] { synchronize(stream_); }},
      {"synchronize", [&] { synchronize(other); }},
      {"synchronize_event", [&] { synchronize_event(event); }},
      {"copy_to_device of host memory that is not from allocate_host",
       [&] { copy_to_device(stream_, memory.numbers(), &pageable, 4); }},
      {"copy_to_host of host memory that is not from allocate_host",
       [&] { copy_to_host(stream_, &pageable, memory.numbers(), 4); }},
      {"begin_graph", [&] { begin_graph(other); }},
  };
  for (const auto& [name, call] : calls) {
    begin_graph(stream_);
    add(stream_, memory, 1);
    EXPECT_EQ(refusal(MOERT_FAILED_PRECONDITION, call),
              "sim32 error 900: " + name +
                  " while this thread captures a graph: neither memory nor waiting may be asked "
                  "for there");
    EXPECT_EQ(refusal(MOERT_FAILED_PRECONDITION, [&] { end_graph(stream_); }),
              "sim32 error 900: end_graph: " + name + " was called during the capture");
  }
  destroy_event(event);
}

TEST_F(SimulatorGraph, ReleaseBreaksACapture) {
  void* memory = allocate(16);
  void* pinned = allocate_host(16);
  begin_graph(stream_);
  release(memory);
  EXPECT_EQ(refusal(MOERT_FAILED_PRECONDITION, [&] { end_graph(stream_); }),
            "sim32 error 900: end_graph: release was called during the capture");
  begin_graph(stream_);
  release_host(pinned);
  EXPECT_EQ(refusal(MOERT_FAILED_PRECONDITION, [&] { end_graph(stream_); }),
            "sim32 error 900: end_graph: release_host was called during the capture");
}

TEST_F(SimulatorGraph, OtherThreadsAreFree) {
  begin_graph(stream_);
  std::thread([] {
    const DeviceMemory memory(16);
    const StreamOf stream;
    fill(stream, memory.numbers(), 0, 16);
    synchronize(stream);
  }).join();
  std::string text;
  std::thread([&] {
    text = refusal(MOERT_FAILED_PRECONDITION, [&] { synchronize(stream_); });
  }).join();
  EXPECT_EQ(text, "sim32 error 900: synchronize: the stream records a graph");
  destroy_graph(end_graph(stream_));
}

TEST_F(SimulatorGraph, StreamsForkAndJoin) {
  const DeviceMemory memory(kBytes);
  const StreamOf side;
  Event fork = create_event(), join = create_event();
  fill(stream_, memory.numbers(), 0, kBytes);
  begin_graph(stream_);
  add(stream_, memory, 1);
  record(stream_, fork);
  wait(side, fork);
  add(side, memory, 10);
  record(side, join);
  wait(stream_, join);
  add(stream_, memory, 100);
  Graph graph = end_graph(stream_);
  synchronize(side);
  EXPECT_EQ(first_number(memory), 0);
  launch_graph(stream_, graph);
  EXPECT_EQ(first_number(memory), 111);
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [&] { wait(side, join); })
                .find("a graph that is finished"),
            std::string::npos);
  destroy_graph(graph);
  destroy_event(fork);
  destroy_event(join);
}

TEST_F(SimulatorGraph, ASideStreamMustComeBack) {
  const DeviceMemory memory(kBytes);
  const StreamOf side;
  Event fork = create_event();
  begin_graph(stream_);
  record(stream_, fork);
  wait(side, fork);
  add(side, memory, 10);
  EXPECT_EQ(refusal(MOERT_FAILED_PRECONDITION, [&] { end_graph(stream_); }),
            "sim32 error 900: end_graph: the work of a side stream is not waited for");
  destroy_event(fork);
}

TEST_F(SimulatorGraph, WrongOrderOfCalls) {
  const StreamOf other;
  Event outside = create_event(), inside = create_event();
  record(other, outside);
  EXPECT_NE(
      refusal(MOERT_FAILED_PRECONDITION, [&] { end_graph(stream_); }).find("has not begun a graph"),
      std::string::npos);
  begin_graph(stream_);
  EXPECT_NE(
      refusal(MOERT_FAILED_PRECONDITION, [&] { end_graph(other); }).find("has not begun a graph"),
      std::string::npos);
  EXPECT_NE(
      refusal(MOERT_FAILED_PRECONDITION, [&] { wait(stream_, outside); }).find("from outside"),
      std::string::npos);
  record(stream_, inside);
  Graph graph = end_graph(stream_);
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [&] { synchronize_event(inside); })
                .find("recorded into a graph"),
            std::string::npos);
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [&] { seconds_between(inside, inside); })
                .find("recorded into a graph"),
            std::string::npos);
  begin_graph(stream_);
  EXPECT_NE(refusal(MOERT_FAILED_PRECONDITION, [&] { launch_graph(stream_, graph); })
                .find("records a graph"),
            std::string::npos);
  destroy_graph(end_graph(stream_));
  {
    const CurrentDevice second(1);
    const StreamOf there;
    EXPECT_NE(
        refusal(MOERT_INVALID_ARGUMENT, [&] { launch_graph(there, graph); }).find("another device"),
        std::string::npos);
  }
  destroy_graph(graph);
  destroy_event(outside);
  destroy_event(inside);
}

}  // namespace
