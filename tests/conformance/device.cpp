// device: memory, copies, streams, events.
// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <cstring>
#include <thread>

#include "kinds.hpp"
#include "numbers.hpp"

namespace moert::conformance {

DeviceRig::DeviceRig(const Feature& feature) : table(feature.table<moert_device_t>()), host(1) {
  int32_t count = -1;
  ErrorRecord error;
  const moert_code_t code = table.count(host.table(), &count, error.get());
  if (code == MOERT_UNAVAILABLE) throw Skip{error.text()};
  EXPECT_EQ(code, MOERT_OK) << error.text();
  if (count == 0) throw Skip{"no device"};
  stream.struct_size = sizeof stream;
  must("stream_create", [&](auto* e) { return table.stream_create(0, &stream, e); });
}

DeviceRig::~DeviceRig() {
  if (stream.struct_size != 0) table.stream_destroy(&stream);
}

void DeviceRig::wait() {
  must("stream_synchronize", [&](auto* e) { return table.stream_synchronize(&stream, e); });
}

namespace {

using Rig = DeviceRig;

moert_device_info_t info_of(Rig& rig) {
  moert_device_info_t info{};
  info.struct_size = sizeof info;
  must("info", [&](auto* e) { return rig.table.info(0, &info, e); });
  return info;
}

void info(const Feature& feature) {
  Rig rig(feature);
  const moert_device_info_t found = info_of(rig);
  EXPECT_EQ(found.id.kind, rig.table.kind);
  EXPECT_EQ(found.id.ordinal, 0);
  EXPECT_EQ(rig.stream.device.kind, rig.table.kind);
  EXPECT_GT(found.memory_bytes, 0u);
  EXPECT_LE(found.memory_free_bytes, found.memory_bytes);
  EXPECT_GE(found.compute_units, 1);
  EXPECT_GE(found.warp_size, 1);
  EXPECT_GE(found.alignment, 64u);
  EXPECT_NE(found.name[0], '\0');
  EXPECT_NE(std::memchr(found.name, 0, sizeof found.name), nullptr);
  EXPECT_NE(found.architecture[0], '\0');
  moert_device_info_t other{};
  other.struct_size = sizeof other;
  for (const int32_t ordinal : {-1, 1 << 20})
    must_fail("a device that does not exist", {MOERT_INVALID_ARGUMENT, MOERT_NOT_FOUND},
              [&](auto* e) { return rig.table.info(ordinal, &other, e); });
}

void memory(const Feature& feature) {
  Rig rig(feature);
  const uint64_t alignment = info_of(rig).alignment;
  void* p = &rig;
  must("alloc of nothing", [&](auto* e) { return rig.table.alloc(0, 0, &p, e); });
  EXPECT_EQ(p, nullptr);
  rig.table.free(0, nullptr);
  for (const uint64_t bytes : {1u, 63u, 64u, 4097u}) {
    must("alloc", [&](auto* e) { return rig.table.alloc(0, bytes, &p, e); });
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u) << bytes << " bytes";
    rig.table.free(0, p);
    must("alloc_host", [&](auto* e) { return rig.table.alloc_host(0, bytes, &p, e); });
    std::memset(p, 0, bytes);
    rig.table.free_host(0, p);
  }
  must_fail("more memory than there is", {MOERT_RESOURCE_EXHAUSTED},
            [&](auto* e) { return rig.table.alloc(0, uint64_t{1} << 60, &p, e); });
}

void copies(const Feature& feature) {
  Rig rig(feature);
  constexpr uint64_t kBytes = 1003;
  Random random("copies");
  Bytes source(kBytes);
  for (unsigned char& b : source) b = static_cast<unsigned char>(random.bits());
  void* first = nullptr;
  void* second = nullptr;
  must("alloc", [&](auto* e) { return rig.table.alloc(0, kBytes, &first, e); });
  must("alloc", [&](auto* e) { return rig.table.alloc(0, kBytes, &second, e); });
  must("fill", [&](auto* e) { return rig.table.fill(&rig.stream, second, 0xab, kBytes, e); });
  must("copy_to_device", [&](auto* e) {
    return rig.table.copy_to_device(&rig.stream, first, source.data(), kBytes, e);
  });
  must("copy", [&](auto* e) {
    return rig.table.copy(&rig.stream, static_cast<char*>(second) + 1, first, kBytes - 2, e);
  });
  Bytes back(kBytes);
  must("copy_to_host", [&](auto* e) {
    return rig.table.copy_to_host(&rig.stream, back.data(), second, kBytes, e);
  });
  must("a copy of nothing",
       [&](auto* e) { return rig.table.copy(&rig.stream, nullptr, nullptr, 0, e); });
  rig.wait();
  EXPECT_EQ(back.front(), 0xab);
  EXPECT_EQ(back.back(), 0xab);
  EXPECT_EQ(std::memcmp(&back[1], source.data(), kBytes - 2), 0);
  rig.table.free(0, first);
  rig.table.free(0, second);
}

void events(const Feature& feature) {
  Rig rig(feature);
  void* start = nullptr;
  void* stop_event = nullptr;
  double seconds = -1;
  must("event_create", [&](auto* e) { return rig.table.event_create(0, &start, e); });
  must("event_create", [&](auto* e) { return rig.table.event_create(0, &stop_event, e); });
  must_fail("the time of events that were not recorded",
            {MOERT_FAILED_PRECONDITION, MOERT_INVALID_ARGUMENT},
            [&](auto* e) { return rig.table.event_elapsed(0, start, stop_event, &seconds, e); });
  must("event_record", [&](auto* e) { return rig.table.event_record(&rig.stream, start, e); });
  must("event_wait", [&](auto* e) { return rig.table.event_wait(&rig.stream, start, e); });
  rig.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  must("event_record", [&](auto* e) { return rig.table.event_record(&rig.stream, stop_event, e); });
  must("event_synchronize", [&](auto* e) { return rig.table.event_synchronize(0, stop_event, e); });
  must("event_elapsed",
       [&](auto* e) { return rig.table.event_elapsed(0, start, stop_event, &seconds, e); });
  EXPECT_GE(seconds, 0.002 * 0.5);
  EXPECT_LT(seconds, 60.0);
  rig.table.event_destroy(0, start);
  rig.table.event_destroy(0, stop_event);
}

}  // namespace

void add_device_tests(const Feature& feature) {
  add(feature, "Info", "", [=] { info(feature); });
  add(feature, "Memory", "", [=] { memory(feature); });
  add(feature, "Copies", "", [=] { copies(feature); });
  add(feature, "Events", "", [=] { events(feature); });
  add_device_order_tests(feature);
}

}  // namespace moert::conformance
