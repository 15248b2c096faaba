// capture.memory of moert.capturer/1: keeps every row in host memory, to be read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "row_pool.hpp"
#include "step_capturer.hpp"

namespace moert::capture {

// Rows do not move when they are committed; `order_` is the order of that. Option max_rows bounds the
// memory: a step that does not fit is refused as a whole.
class Memory final : public StepCapturer {
 public:
  static constexpr moert_kv_t kCaps[] = {{"device", "cpu"}, {"what", "ids, weights, margins"}};
  static constexpr FeatureInfo kFeature = {"capture.memory", MOERT_RANK_GOOD, 0, kCaps, 2};
  static Support supports(const Host& host, const moert_capture_spec_t& spec);
  Memory(const Host& host, const moert_capture_spec_t& spec, const Options& options);

  void read(moert_capture_rows_t& rows) override;
  void counts(moert_capture_counts_t& out) override;

 private:
  void take(size_t count, std::vector<std::byte*>& places) override;
  void give_back(std::byte* row) noexcept override { pool_.give_back(row); }
  // begin reserved room for every row that may be committed.
  void keep(const PendingRow& row) noexcept override { order_.push_back(row.place); }

  size_t max_rows_;
  RowPool pool_;
  std::vector<std::byte*> order_;
};

}  // namespace moert::capture
