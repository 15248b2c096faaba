// device: order of work on streams, events between them, graphs, and handles of another device.
// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <cstring>

#include "kinds.hpp"
#include "numbers.hpp"

namespace moert::conformance {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 16;

// Memory that goes with the object.
class Memory {
 public:
  Memory(DeviceRig& rig, bool pinned, int32_t ordinal = 0)
      : rig_(rig), pinned_(pinned), ordinal_(ordinal) {
    must("alloc", [&](auto* e) {
      return pinned_ ? rig_.table.alloc_host(ordinal_, kBytes, &data_, e)
                     : rig_.table.alloc(ordinal_, kBytes, &data_, e);
    });
  }
  ~Memory() {
    if (pinned_)
      rig_.table.free_host(ordinal_, data_);
    else
      rig_.table.free(ordinal_, data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  DeviceRig& rig_;
  bool pinned_;
  int32_t ordinal_;
  void* data_ = nullptr;
};

class Stream {
 public:
  Stream(DeviceRig& rig, int32_t ordinal) : rig_(rig) {
    stream_.struct_size = sizeof stream_;
    must("stream_create", [&](auto* e) { return rig_.table.stream_create(ordinal, &stream_, e); });
  }
  ~Stream() { rig_.table.stream_destroy(&stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  const moert_stream_t* get() const { return &stream_; }

 private:
  DeviceRig& rig_;
  moert_stream_t stream_{};
};

void fill(DeviceRig& rig, const moert_stream_t* stream, void* to, uint8_t value) {
  must("fill", [&](auto* e) { return rig.table.fill(stream, to, value, kBytes, e); });
}
void copy(DeviceRig& rig, const moert_stream_t* stream, void* to, const void* from) {
  must("copy", [&](auto* e) { return rig.table.copy(stream, to, from, kBytes, e); });
}
void to_host(DeviceRig& rig, const moert_stream_t* stream, void* to, const void* from) {
  must("copy_to_host",
       [&](auto* e) { return rig.table.copy_to_host(stream, to, from, kBytes, e); });
}
void to_device(DeviceRig& rig, const moert_stream_t* stream, void* to, const void* from) {
  must("copy_to_device",
       [&](auto* e) { return rig.table.copy_to_device(stream, to, from, kBytes, e); });
}
void wait(DeviceRig& rig, const moert_stream_t* stream) {
  must("stream_synchronize", [&](auto* e) { return rig.table.stream_synchronize(stream, e); });
}

void expect_bytes(const void* got, uint8_t want, const char* what) {
  const Bytes all(kBytes, want);
  EXPECT_EQ(std::memcmp(got, all.data(), kBytes), 0) << what;
}

// What a stream does, it does in the order in which it was told, whatever memory on the host it was.
void order_on_a_stream(const Feature& feature) {
  DeviceRig rig(feature);
  Memory device(rig, false), other(rig, false), pinned(rig, true), back(rig, true);
  Bytes plain(kBytes, 3);
  std::memset(pinned.data(), 5, kBytes);
  fill(rig, &rig.stream, device.data(), 1);
  to_device(rig, &rig.stream, device.data(), pinned.data());
  copy(rig, &rig.stream, other.data(), device.data());
  to_device(rig, &rig.stream, device.data(), plain.data());
  std::fill(plain.begin(), plain.end(), uint8_t{9});  // plain memory has been read
  to_host(rig, &rig.stream, back.data(), other.data());
  wait(rig, &rig.stream);
  expect_bytes(back.data(), 5, "pinned memory, copied on");
  to_host(rig, &rig.stream, plain.data(), device.data());
  expect_bytes(plain.data(), 3, "plain memory has been written when the call returns");
}

// Without the event the second stream would be early.
void events_order_streams(const Feature& feature) {
  DeviceRig rig(feature);
  Stream first(rig, 0), second(rig, 0);
  Memory device(rig, false), back(rig, true);
  void* event = nullptr;
  must("event_create", [&](auto* e) { return rig.table.event_create(0, &event, e); });
  for (uint8_t round = 1; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) fill(rig, first.get(), device.data(), 0xee);
    fill(rig, first.get(), device.data(), round);
    must("event_record", [&](auto* e) { return rig.table.event_record(first.get(), event, e); });
    must("event_wait", [&](auto* e) { return rig.table.event_wait(second.get(), event, e); });
    to_host(rig, second.get(), back.data(), device.data());
    wait(rig, second.get());
    expect_bytes(back.data(), round, "a stream did not wait for an event of another");
  }
  must("event_synchronize", [&](auto* e) { return rig.table.event_synchronize(0, event, e); });
  rig.table.event_destroy(0, event);
}

void expect_has_graphs(DeviceRig& rig) {
  moert_device_info_t info{};
  info.struct_size = sizeof info;
  must("info", [&](auto* e) { return rig.table.info(0, &info, e); });
  if ((info.flags & MOERT_DEVICE_GRAPHS) == 0) throw Skip{"has no graphs"};
}

// Recorded work is not done until it is launched, and then with what memory holds at that time.
void graphs(const Feature& feature) {
  DeviceRig rig(feature);
  expect_has_graphs(rig);
  Memory source(rig, false), copied(rig, false), filled(rig, false), back(rig, true);
  fill(rig, &rig.stream, source.data(), 1);
  fill(rig, &rig.stream, copied.data(), 2);
  wait(rig, &rig.stream);
  void* graph = nullptr;
  must("graph_begin", [&](auto* e) { return rig.table.graph_begin(&rig.stream, e); });
  copy(rig, &rig.stream, copied.data(), source.data());
  fill(rig, &rig.stream, filled.data(), 7);
  must("graph_end", [&](auto* e) { return rig.table.graph_end(&rig.stream, &graph, e); });
  to_host(rig, &rig.stream, back.data(), copied.data());
  wait(rig, &rig.stream);
  expect_bytes(back.data(), 2, "recording did the work");
  for (const uint8_t value : {uint8_t{1}, uint8_t{11}}) {
    fill(rig, &rig.stream, source.data(), value);
    fill(rig, &rig.stream, filled.data(), 0);
    must("graph_launch", [&](auto* e) { return rig.table.graph_launch(&rig.stream, graph, e); });
    to_host(rig, &rig.stream, back.data(), copied.data());
    wait(rig, &rig.stream);
    expect_bytes(back.data(), value, "the copy of a launched graph");
    to_host(rig, &rig.stream, back.data(), filled.data());
    wait(rig, &rig.stream);
    expect_bytes(back.data(), 7, "the fill of a launched graph");
  }
  rig.table.graph_destroy(0, graph);
}

// Waiting for a stream that is being recorded is an error, and nothing is recorded then.
void graphs_wait_for_nothing(const Feature& feature) {
  DeviceRig rig(feature);
  expect_has_graphs(rig);
  must("graph_begin", [&](auto* e) { return rig.table.graph_begin(&rig.stream, e); });
  ErrorRecord waited;
  EXPECT_NE(rig.table.stream_synchronize(&rig.stream, waited.get()), MOERT_OK)
      << "synchronising a stream that is being recorded";
  void* graph = nullptr;
  ErrorRecord ended;
  if (rig.table.graph_end(&rig.stream, &graph, ended.get()) == MOERT_OK)
    rig.table.graph_destroy(0, graph);
  Memory device(rig, false), back(rig, true);
  Stream fresh(rig, 0);
  fill(rig, fresh.get(), device.data(), 4);
  to_host(rig, fresh.get(), back.data(), device.data());
  wait(rig, fresh.get());
  expect_bytes(back.data(), 4, "the device works on after that");
}

void wrong_handles(const Feature& feature) {
  DeviceRig rig(feature);
  const std::initializer_list<moert_code_t> codes = {MOERT_INVALID_ARGUMENT, MOERT_NOT_FOUND};
  Memory device(rig, false);
  moert_stream_t foreign = rig.stream, beyond = rig.stream;
  foreign.device.kind = MOERT_DEVICE_KIND('n', 'o', 'n', 'e');
  beyond.device.ordinal = 1 << 20;
  const moert_stream_t* const wrong[] = {nullptr, &foreign, &beyond};
  for (const moert_stream_t* stream : wrong) {
    must_fail("fill on a stream of no device here", codes,
              [&](auto* e) { return rig.table.fill(stream, device.data(), 0, kBytes, e); });
    must_fail("synchronising a stream of no device here", codes,
              [&](auto* e) { return rig.table.stream_synchronize(stream, e); });
  }
  void* p = nullptr;
  moert_stream_t made{};
  made.struct_size = sizeof made;
  for (const int32_t ordinal : {-1, 1 << 20}) {
    must_fail("alloc", codes, [&](auto* e) { return rig.table.alloc(ordinal, 64, &p, e); });
    must_fail("alloc_host", codes,
              [&](auto* e) { return rig.table.alloc_host(ordinal, 64, &p, e); });
    must_fail("stream_create", codes,
              [&](auto* e) { return rig.table.stream_create(ordinal, &made, e); });
    must_fail("event_create", codes,
              [&](auto* e) { return rig.table.event_create(ordinal, &p, e); });
  }
}

// Calls that name one device leave those that name another alone, in any order of threads' current devices.
void two_devices(const Feature& feature) {
  DeviceRig rig(feature);
  int32_t count = 0;
  must("count", [&](auto* e) { return rig.table.count(rig.host.table(), &count, e); });
  if (count < 2) throw Skip{"has one device"};
  Stream on_one(rig, 1);
  EXPECT_EQ(on_one.get()->device.ordinal, 1);
  Memory zero(rig, false, 0), one(rig, false, 1), back_zero(rig, true, 0), back_one(rig, true, 1);
  fill(rig, &rig.stream, zero.data(), 10);
  fill(rig, on_one.get(), one.data(), 11);
  to_host(rig, &rig.stream, back_zero.data(), zero.data());
  to_host(rig, on_one.get(), back_one.data(), one.data());
  wait(rig, on_one.get());
  wait(rig, &rig.stream);
  expect_bytes(back_zero.data(), 10, "device 0");
  expect_bytes(back_one.data(), 11, "device 1");
}

}  // namespace

void add_device_order_tests(const Feature& feature) {
  add(feature, "OrderOnAStream", "", [=] { order_on_a_stream(feature); });
  add(feature, "EventsOrderStreams", "", [=] { events_order_streams(feature); });
  add(feature, "Graphs", "launched_twice", [=] { graphs(feature); });
  add(feature, "Graphs", "wait_for_nothing", [=] { graphs_wait_for_nothing(feature); });
  add(feature, "WrongHandles", "", [=] { wrong_handles(feature); });
  add(feature, "TwoDevices", "", [=] { two_devices(feature); });
}

}  // namespace moert::conformance
