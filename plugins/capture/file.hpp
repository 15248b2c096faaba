// capture.file of moert.capturer/1: rows go through a bounded buffer to a file, to be read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spool.hpp"

namespace moert::capture {

// Options: folder, buffer_mb, when_full; README.md says what they do.
class File final : public StepCapturer {
 public:
  static constexpr moert_kv_t kCaps[] = {{"device", "cpu"}, {"what", "ids, weights, margins"}};
  static constexpr FeatureInfo kFeature = {"capture.file", MOERT_RANK_GOOD, 0, kCaps, 2};
  static Support supports(const Host& host, const moert_capture_spec_t& spec);
  File(const Host& host, const moert_capture_spec_t& spec, const Options& options);

  void flush() override { spool_.flush(); }
  void read(moert_capture_rows_t& rows) override;
  void counts(moert_capture_counts_t& out) override;

 private:
  void take(size_t count, std::vector<std::byte*>& places) override {
    spool_.take(count, pending(), places);
  }
  void give_back(std::byte* row) noexcept override { spool_.give_back(row); }
  void keep(const PendingRow& row) noexcept override { spool_.push(row); }
  void publish() noexcept override { spool_.publish(); }
  // Makes row `first` the first one of chunk_.
  void load(int64_t first, int64_t rows);

  Spool spool_;
  // Rows that were read last: the layers of a chunk are asked for one after another.
  std::vector<std::byte> chunk_;
  int64_t chunk_first_ = 0, chunk_rows_ = 0;
};

}  // namespace moert::capture
