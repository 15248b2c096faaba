// The rows of the open step and the pending ones: the half of a capturer that all of them share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/capture_row.hpp>
#include <moert/sdk/capturer.hpp>
#include <moert/sdk/pending_rows.hpp>
#include <vector>

namespace moert::capture {

// A place has the form of CaptureRowLayout; nullptr: only which token the row was is kept.
using PendingRow = PendingRows<std::byte*>::Row;

// Derive, and say where rows lie (take, give_back) and what becomes of the committed ones (expect, keep,
// publish). Pending rows stay in order of their arrival, and are committed in that order.
class StepCapturer : public RoutedExpertsCapturer {
 public:
  void begin(const moert_capture_step_t& step) final;
  void record(const moert_capture_record_t& record) final;  // allocates nothing
  void end() final;
  void abort() final;
  void drop(int64_t sequence, int64_t position) final;
  void commit(int64_t sequence, int64_t position) final;

 protected:
  // Throws if the spec is refused, or an option is not one of `known`.
  StepCapturer(const moert_capture_spec_t& spec, const Options& options,
               std::initializer_list<std::string_view> known);

  // Called by begin: pushes places for up to `count` rows to `places`, which has room for them, nullptr for a
  // row that can be kept without decisions only. Rows without a place are lost; the callee counts them.
  // May throw; then it has changed nothing.
  virtual void take(size_t count, std::vector<std::byte*>& places) = 0;
  // A row that take placed is not wanted any more.
  virtual void give_back(std::byte* row) noexcept = 0;
  // `count` rows shall be committed. May wait, and throw: they stay pending then.
  virtual void expect(size_t /*count*/) {}
  // Takes a committed row over, as often as expect() was told. Then publish() makes them visible.
  virtual void keep(const PendingRow& row) noexcept = 0;
  virtual void publish() noexcept {}

  const CaptureRowLayout& layout() const { return layout_; }
  size_t pending() const { return pending_.size(); }
  void expect_open(bool open, const char* call) const;

 private:
  void expect_step(const moert_capture_step_t& step) const;
  void expect_layer(uint32_t layer) const;
  CaptureRowLayout layout_;
  int64_t max_tokens_;
  PendingRows<std::byte*> pending_;
  // The open step.
  bool open_ = false, commit_at_end_ = false;
  int64_t tokens_ = 0;
  std::vector<std::byte*> places_;  // of its rows; those beyond are lost
  std::vector<uint8_t> recorded_;   // per layer
  std::vector<int32_t> ids_;        // one row, for tensors whose rows are not contiguous
  std::vector<float> weights_;
};

}  // namespace moert::capture
