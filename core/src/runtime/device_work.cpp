// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_work.hpp"

#include "runtime/call.hpp"

namespace moert::runtime {

DeviceEvent::DeviceEvent(const Device& device) : device_(&device) {
  Call call;
  call.check(device.table_->event_create(device.info_.id.ordinal, &event_, call.out()),
             device.name_.c_str(), "event_create");
}

DeviceEvent::~DeviceEvent() { device_->table_->event_destroy(device_->info_.id.ordinal, event_); }

void DeviceEvent::record() {
  Call call;
  call.check(device_->table_->event_record(&device_->stream_, event_, call.out()),
             device_->name_.c_str(), "event_record");
}

void DeviceEvent::synchronize() const {
  Call call;
  call.check(device_->table_->event_synchronize(device_->info_.id.ordinal, event_, call.out()),
             device_->name_.c_str(), "event_synchronize");
}

double DeviceEvent::seconds_since(const DeviceEvent& start) const {
  Call call;
  double seconds = 0;
  call.check(device_->table_->event_elapsed(device_->info_.id.ordinal, start.event_, event_,
                                            &seconds, call.out()),
             device_->name_.c_str(), "event_elapsed");
  return seconds;
}

DeviceGraph::DeviceGraph(const Device& device, const std::function<void()>& enqueue)
    : device_(&device) {
  Call call;
  call.check(device.table_->graph_begin(&device.stream_, call.out()), device.name_.c_str(),
             "graph_begin");
  try {
    enqueue();
  } catch (...) {
    // Until then the stream only records. What is said here has its cause in what is thrown.
    if (device.table_->graph_end(&device.stream_, &graph_, call.out()) == MOERT_OK)
      device.table_->graph_destroy(device.info_.id.ordinal, graph_);
    throw;
  }
  call.check(device.table_->graph_end(&device.stream_, &graph_, call.out()), device.name_.c_str(),
             "graph_end");
}

DeviceGraph::~DeviceGraph() { device_->table_->graph_destroy(device_->info_.id.ordinal, graph_); }

void DeviceGraph::launch() const {
  Call call;
  call.check(device_->table_->graph_launch(&device_->stream_, graph_, call.out()),
             device_->name_.c_str(), "graph_launch");
}

}  // namespace moert::runtime
