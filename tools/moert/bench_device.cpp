// SPDX-License-Identifier: Apache-2.0
#include "bench_device.hpp"

#include <algorithm>

#include <moert/error.hpp>

#include "bench_experts.hpp"
#include "measurements.hpp"

namespace moert::tool {

namespace {

constexpr int64_t kPieces = 32;  // of what leads
constexpr int64_t kMostRounds = 64;
constexpr int kTries = 3;
constexpr uint64_t kAlign = 256;

uint64_t piece_bytes(uint64_t cache_bytes) {
  const uint64_t bytes = kTimesCache * cache_bytes / kPieces;
  return std::max(kAlign, bytes / kAlign * kAlign);
}

// Their size has nothing to do with tokens.
void reserve_lead(runtime::DeviceMemory& memory, uint64_t bytes) {
  try {
    memory.reserve(bytes, "the copies that empty the caches before each forward");
  } catch (const Error& error) {
    throw Error(error.fault(), error.problem(), error.place(),
                "free memory, choose another device, or give a smaller --cache-mb: the copies are "
                "four times that");
  }
}

}  // namespace

struct BenchDevice::Events {
  explicit Events(const runtime::Device& device) : lead(device), start(device), stop(device) {}
  runtime::DeviceEvent lead, start, stop;
};

bool on_host(const runtime::Device& device) { return device.id().kind == MOERT_DEVICE_CPU; }

BenchDevice::BenchDevice(const runtime::Device& device, uint64_t cache_bytes)
    : device_(device), from_(device), to_(device) {
  if (on_host(device)) return;
  events_ = std::make_unique<Events>(device);
  reserve_lead(to_, piece_bytes(cache_bytes));
  reserve_lead(from_, kPieces * to_.bytes());
  device.fill(from_.data(), 1, from_.bytes());
}

BenchDevice::~BenchDevice() = default;

uint64_t BenchDevice::memory_bytes(const runtime::Device& device, uint64_t cache_bytes) {
  return on_host(device) ? 0 : (kPieces + 1) * piece_bytes(cache_bytes);
}

// Keeps the device busy until all that is timed is in its queue, and takes weights out of its cache. All pieces are
// copied to one place: lines that were only read cost the work behind them nothing, written ones must go to memory
// first.
void BenchDevice::lead(int64_t rounds) const {
  for (int64_t i = 0; i < rounds * kPieces; ++i)
    device_.copy(
        to_.data(),
        static_cast<const char*>(from_.data()) + static_cast<uint64_t>(i % kPieces) * to_.bytes(),
        to_.bytes());
}

double BenchDevice::seconds(const std::function<void()>& enqueue) {
  BenchClock::time_point begun = BenchClock::now();
  if (events_ == nullptr) {
    enqueue();
    return seconds_since(begun);
  }
  for (int64_t rounds = 1;; rounds *= 2) {
    begun = BenchClock::now();
    events_->lead.record();
    lead(rounds);
    events_->start.record();
    enqueue();
    events_->stop.record();
    const double host = seconds_since(begun);
    events_->stop.synchronize();
    // Else the device waited for the host, and that would be in the time.
    if (host < events_->start.seconds_since(events_->lead) || rounds >= kMostRounds)
      return events_->stop.seconds_since(events_->start);
  }
}

DeviceLimits::DeviceLimits(BenchDevice& device, uint64_t bytes)
    : device_(device),
      half_(std::max(kAlign, bytes / 2 / kAlign * kAlign)),
      from_(device.device()),
      to_(device.device()) {
  from_.reserve(half_, "the probe of bandwidth");
  to_.reserve(half_, "the probe of bandwidth");
  device.device().fill(from_.data(), 1, half_);
}

double DeviceLimits::copy_bytes_per_second() const {
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double seconds =
        device_.seconds([&] { device_.device().copy(to_.data(), from_.data(), half_); });
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return 2 * static_cast<double>(half_) / best;
}

}  // namespace moert::tool
