// Faults of devices: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <vector>

#include "faulty.hpp"

namespace moert::faulty {

const moert_device_t* device;
moert_device_t own_device;
bool recording;

namespace {

// --- devices and memory -------------------------------------------------------------------------

moert_code_t forgets_the_kind(int32_t ordinal, moert_device_info_t* out, moert_error_t* e) {
  const moert_code_t code = device->info(ordinal, out, e);
  out->id.kind = 0;
  return code;
}

moert_code_t gives_memory_for_nothing(int32_t ordinal, uint64_t bytes, void** out,
                                      moert_error_t* e) {
  return device->alloc(ordinal, std::max<uint64_t>(bytes, 1), out, e);
}

moert_code_t knows_one_device(int32_t ordinal, moert_stream_t* out, moert_error_t* e) {
  return device->stream_create(ordinal == 1 ? 0 : ordinal, out, e);
}

// --- copies -------------------------------------------------------------------------------------

moert_code_t copies_one_byte_less(const moert_stream_t* stream, void* to, const void* from,
                                  uint64_t bytes, moert_error_t* e) {
  return device->copy(stream, to, from, bytes == 0 ? 0 : bytes - 1, e);
}

// What should be on the host when the call returns is there when somebody waits.
struct Late {
  const moert_stream_t* stream;
  void* to;
  const void* from;
  uint64_t bytes;
};
std::vector<Late> late;
moert_code_t writes_the_host_late(const moert_stream_t* stream, void* to, const void* from,
                                  uint64_t bytes, moert_error_t*) {
  late.push_back({stream, to, from, bytes});
  return MOERT_OK;
}
moert_code_t writes_the_host_now(const moert_stream_t* stream, moert_error_t* e) {
  for (const Late& copy : late)
    if (copy.stream == stream)
      device->copy_to_host(stream, copy.to, copy.from, copy.bytes, nullptr);
  std::erase_if(late, [stream](const Late& copy) { return copy.stream == stream; });
  return device->stream_synchronize(stream, e);
}

moert_code_t no_error(moert_code_t code) {
  return code == MOERT_INVALID_ARGUMENT ? int32_t{MOERT_OK} : code;
}
moert_code_t fills_on_any_stream(const moert_stream_t* stream, void* to, uint8_t value,
                                 uint64_t bytes, moert_error_t* e) {
  return no_error(device->fill(stream, to, value, bytes, e));
}
// Of a stream of its own it is what kernels found.
moert_code_t hides_what_was_found(const moert_stream_t* stream, moert_error_t* e) {
  return no_error(device->stream_synchronize(stream, e));
}

// --- events and graphs --------------------------------------------------------------------------

moert_code_t ignores_events(const moert_stream_t*, void*, moert_error_t*) { return MOERT_OK; }

moert_code_t has_no_clock(int32_t ordinal, void* start, void* stop, double* seconds,
                          moert_error_t* e) {
  const moert_code_t code = device->event_elapsed(ordinal, start, stop, seconds, e);
  *seconds = 0;
  return code;
}

std::set<void*> launched;
moert_code_t launches_once(const moert_stream_t* stream, void* graph, moert_error_t* e) {
  return launched.insert(graph).second ? device->graph_launch(stream, graph, e) : int32_t{MOERT_OK};
}
// Another graph may come to live at its address.
void forgets_the_launch(int32_t ordinal, void* graph) {
  launched.erase(graph);
  device->graph_destroy(ordinal, graph);
}

// Nothing is recorded, and the work is done at once.
moert_code_t begins_nothing(const moert_stream_t*, moert_error_t*) { return MOERT_OK; }
moert_code_t ends_nothing(const moert_stream_t*, void** graph, moert_error_t*) {
  static int made;
  *graph = &made;
  return MOERT_OK;
}
moert_code_t launches_nothing(const moert_stream_t*, void*, moert_error_t*) { return MOERT_OK; }
void destroys_nothing(int32_t, void*) {}

moert_code_t begins(const moert_stream_t* stream, moert_error_t* e) {
  const moert_code_t code = device->graph_begin(stream, e);
  recording = code == MOERT_OK;
  return code;
}
moert_code_t ends(const moert_stream_t* stream, void** graph, moert_error_t* e) {
  recording = false;
  return device->graph_end(stream, graph, e);
}
moert_code_t waits_while_recording(const moert_stream_t* stream, moert_error_t* e) {
  return recording ? int32_t{MOERT_OK} : device->stream_synchronize(stream, e);
}

bool spoil_graphs(std::string_view fault) {
  if (fault == "launches_once")
    own_device.graph_launch = launches_once, own_device.graph_destroy = forgets_the_launch;
  else if (fault == "does_what_it_records")
    own_device.graph_begin = begins_nothing, own_device.graph_end = ends_nothing,
    own_device.graph_launch = launches_nothing, own_device.graph_destroy = destroys_nothing;
  else if (fault == "records_other_bits")
    own_device.graph_begin = begins, own_device.graph_end = ends;
  else if (fault == "bakes_the_map")
    own_device.graph_begin = begins, own_device.graph_end = ends,
    own_device.graph_launch = launches_with_the_map_recorded;
  else if (fault == "waits_while_recording")
    own_device.graph_begin = begins, own_device.graph_end = ends,
    own_device.stream_synchronize = waits_while_recording;
  else
    return false;
  return true;
}

}  // namespace

bool spoil_device(std::string_view fault) {
  if (fault == "forgets_the_kind")
    own_device.info = forgets_the_kind;
  else if (fault == "gives_memory_for_nothing")
    own_device.alloc = gives_memory_for_nothing;
  else if (fault == "knows_one_device")
    own_device.stream_create = knows_one_device;
  else if (fault == "copies_one_byte_less")
    own_device.copy = copies_one_byte_less;
  else if (fault == "writes_the_host_late")
    own_device.copy_to_host = writes_the_host_late,
    own_device.stream_synchronize = writes_the_host_now;
  else if (fault == "fills_on_any_stream")
    own_device.fill = fills_on_any_stream;
  else if (fault == "hides_what_was_found")
    own_device.stream_synchronize = hides_what_was_found;
  else if (fault == "ignores_events")
    own_device.event_wait = ignores_events;
  else if (fault == "has_no_clock")
    own_device.event_elapsed = has_no_clock;
  else
    return spoil_graphs(fault);
  return true;
}

}  // namespace moert::faulty
