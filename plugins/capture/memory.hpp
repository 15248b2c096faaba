// capture.memory of moert.capturer/1: keeps every row in host memory, to be read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/capturer.hpp>
#include <vector>

#include "store.hpp"

namespace moert::capture {

// Rows lie in slots that are used again after a drop; `order_` is the order of arrival. Option
// max_rows bounds the memory: a step that does not fit is refused as a whole.
class Memory final : public RoutedExpertsCapturer {
 public:
  static constexpr moert_kv_t kCaps[] = {{"device", "cpu"}, {"what", "ids, weights, margins"}};
  static constexpr FeatureInfo kFeature = {"capture.memory", MOERT_RANK_GOOD, 0, kCaps, 2};
  static Support supports(const Host& host, const moert_capture_spec_t& spec);
  Memory(const Host& host, const moert_capture_spec_t& spec, const Options& options);

  void begin(const moert_capture_step_t& step) override;
  void record(const moert_capture_record_t& record) override;
  void end() override;
  void drop(int64_t sequence, int64_t position) override;
  void read(moert_capture_rows_t& rows) override;

 private:
  struct Row {
    int64_t sequence, position;
    size_t slot;
  };
  void expect_open(bool open, const char* call) const;
  LayerStore& layer(uint32_t index);
  // Makes room for `rows` more rows; changes nothing that can be seen if it throws.
  void reserve(size_t rows);

  int64_t max_tokens_;
  size_t max_rows_;
  std::vector<LayerStore> layers_;
  std::vector<Row> order_;
  std::vector<size_t> free_;
  size_t slots_ = 0;
  bool open_ = false;
  size_t step_first_ = 0;          // first row of the open step in order_
  std::vector<uint8_t> recorded_;  // per layer, of the open step
};

}  // namespace moert::capture
