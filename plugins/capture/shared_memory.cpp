// SPDX-License-Identifier: Apache-2.0
#include "shared_memory.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "checks.hpp"

namespace moert::capture {
namespace {

constexpr size_t kLongestName = 64;

std::string name_option(const Options& options) {
  std::string name(options.get("name"));
  const bool known = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!known || name.size() > kLongestName)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        "option name is '" + name + "', expected at most 64 letters, digits, '.', '_' and '-'");
  return name;
}

// Without a name: that of the process and a number that is free.
void link(SegmentOwner& segment, const std::string& name) {
  if (name.empty()) {
    const std::string stem = "pid" + std::to_string(::getpid()) + "-";
    for (int n = 0; !segment.link(stem + std::to_string(n));) ++n;
  } else if (!segment.link(name)) {
    throw PluginError(MOERT_ALREADY_EXISTS,
                      "segment '" + name + "' (" + segment.path() +
                          ") belongs to a process that is running; choose another name");
  }
}

}  // namespace

Support SharedMemory::supports(const Host&, const moert_capture_spec_t& spec) {
  const std::string reason = refusal(spec);
  return reason.empty() ? Support::yes() : Support::no(reason);
}

SharedMemory::SharedMemory(const Host& host, const moert_capture_spec_t& spec,
                           const Options& options)
    : SharedMemory(host, spec, options, name_option(options)) {}

SharedMemory::SharedMemory(const Host& host, const moert_capture_spec_t& spec,
                           const Options& options, const std::string& name)
    : StepCapturer(spec, options, {"buffer_mb", "folder", "name", "wait_ms", "when_full"}),
      host_(host),
      block_(detail::is_second_word(options, "when_full", "drop", "block")),
      wait_ms_(detail::number_option(options, "wait_ms", 10000, 0, INT32_MAX)),
      pool_(host, layout().bytes()),
      segment_(std::string(options.get("folder", MOERT_CAPTURE_SEGMENT_FOLDER)), spec, layout(),
               static_cast<uint64_t>(detail::number_option(options, "buffer_mb", 16, 1, 1 << 20))
                   << 20) {
  link(segment_, name);
}

SharedMemory::~SharedMemory() {
  const uint64_t waiting = segment_.waiting_rows();
  if (waiting > 0 && !segment_.reader_attached())
    host_.log(MOERT_LOG_WARN, "capture.shared_memory: nobody took the last " +
                                  std::to_string(waiting) + " rows of '" + segment_.path() + "'");
}

void SharedMemory::take(size_t count, std::vector<std::byte*>& places) {
  const size_t most = segment_.capacity();
  size_t fit = most - std::min(most, pending());
  if (count > fit && block_)
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      "the segment has room for " + std::to_string(most) + " rows; " +
                          std::to_string(pending()) + " are pending and " + std::to_string(count) +
                          " would come. A step must fit: for this one buffer_mb must be " +
                          std::to_string(((pending() + count) * layout().bytes() >> 20) + 2) +
                          ", unless rows are committed or dropped before");
  fit = std::min(fit, count);
  pool_.reserve(fit);
  for (size_t i = 0; i < fit; ++i) places.push_back(pool_.take());
  lost_ += count - fit;
  segment_.set_lost(lost_);
}

void SharedMemory::wait_for_room(size_t count) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(wait_ms_);
  std::chrono::microseconds nap(50);
  while (segment_.free_rows() < count) {
    const std::string what = "the ring of '" + segment_.path() + "' has no room for " +
                             std::to_string(count) + " rows (they stay pending)";
    if (!segment_.reader_attached())
      throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                        what +
                            ", and no reader is attached: attach one, raise buffer_mb, or choose "
                            "when_full drop");
    if (Clock::now() >= deadline)
      throw PluginError(MOERT_DEADLINE_EXCEEDED,
                        what + ": its reader took too few in " + std::to_string(wait_ms_) + " ms");
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, std::chrono::microseconds(1000));
  }
}

void SharedMemory::expect(size_t count) {
  if (block_) wait_for_room(count);
  next_ = segment_.head();
  end_ = next_ + segment_.free_rows();  // rows beyond are lost
}

void SharedMemory::keep(const PendingRow& row) noexcept {
  if (next_ < end_)
    std::memcpy(segment_.row(next_++), row.place, layout().bytes());
  else
    ++lost_;
  pool_.give_back(row.place);
}

void SharedMemory::publish() noexcept {
  segment_.publish(next_);
  segment_.set_lost(lost_);
}

void SharedMemory::counts(moert_capture_counts_t& out) {
  out.rows = static_cast<int64_t>(segment_.head());
  out.pending = static_cast<int64_t>(pending());
  out.absent = 0;
  out.lost = static_cast<int64_t>(lost_);
  out.bytes = pool_.bytes() + segment_.capacity() * layout().bytes();
}

}  // namespace moert::capture
