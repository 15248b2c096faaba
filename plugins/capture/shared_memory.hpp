// capture.shared_memory of moert.capturer/1: hands rows to another process on this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "row_pool.hpp"
#include "segment_owner.hpp"
#include "step_capturer.hpp"

namespace moert::capture {

// Pending rows lie in memory of the process, at most as many as the ring has; committing copies them
// into the ring. Options: name, buffer_mb, folder, when_full, wait_ms; README.md says what they do.
class SharedMemory final : public StepCapturer {
 public:
  static constexpr moert_kv_t kCaps[] = {{"device", "cpu"}, {"what", "ids, weights, margins"}};
  static constexpr FeatureInfo kFeature = {"capture.shared_memory", MOERT_RANK_GOOD, 0, kCaps, 2};
  static Support supports(const Host& host, const moert_capture_spec_t& spec);
  SharedMemory(const Host& host, const moert_capture_spec_t& spec, const Options& options);
  ~SharedMemory() override;

  void counts(moert_capture_counts_t& out) override;

 private:
  SharedMemory(const Host& host, const moert_capture_spec_t& spec, const Options& options,
               const std::string& name);
  void take(size_t count, std::vector<std::byte*>& places) override;
  void give_back(std::byte* row) noexcept override { pool_.give_back(row); }
  void expect(size_t count) override;
  void keep(const PendingRow& row) noexcept override;
  void publish() noexcept override;
  // Waits until the ring has room for `count` rows; throws when it stays full or nobody reads.
  void wait_for_room(size_t count) const;

  Host host_;
  bool block_;
  int64_t wait_ms_;
  RowPool pool_;
  SegmentOwner segment_;
  uint64_t next_ = 0,
           end_ = 0;  // of the rows that are being committed: the next number, and the room's end
  uint64_t lost_ = 0;
};

}  // namespace moert::capture
