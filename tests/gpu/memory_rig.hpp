// The GPU's capturer with room for five rows; everything goes through the C table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <moert/sdk/plugin.hpp>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gpu/capture/memory.hpp"
#include "gpu/device_array.hpp"
#include "gpu/plugin_feature.hpp"

namespace moert::gpu {

// Rows are so wide that the smallest ring holds five. All tokens are of sequence 7, and say by their position what was
// decided for them.
class MemoryRig {
 public:
  static constexpr int64_t kExperts = 65536, kSlots = 32768, kRoom = 5, kMaxTokens = 8;
  static constexpr int64_t kSequence = 7;

  explicit MemoryRig(const char* when_full, int32_t ordinal = 0) : here_{kDeviceKind, ordinal} {
    static constexpr int64_t kLayer = 3;
    moert_capture_spec_t spec{};
    spec.struct_size = sizeof spec;
    spec.what = MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS;
    spec.device = here_;
    spec.max_tokens = kMaxTokens;
    spec.n_layers = 1;
    spec.layer_ids = &kLayer;
    spec.num_experts = &kExperts;
    spec.top_k = &kSlots;
    const moert_kv_t options[] = {{"buffer_mb", "1"}, {"when_full", when_full}};
    must("create",
         [&](auto* e) { return table().create(&test_host(), &spec, options, 2, &self_, e); });
    const CurrentDevice current(ordinal);
    for (auto& stream : streams_) stream.emplace();
  }
  ~MemoryRig() {
    if (self_ != nullptr) table().destroy(self_);
    const CurrentDevice current(here_.ordinal);
    for (auto& stream : streams_) stream.reset();
    rows_.clear();
  }
  MemoryRig(const MemoryRig&) = delete;
  MemoryRig& operator=(const MemoryRig&) = delete;

  static const moert_capturer_t& table() { return RoutedExpertsCapturer::Kind::table<GpuMemory>; }
  void* self() const { return self_; }
  Stream stream() const { return streams_[on]->get(); }
  size_t on = 0;  // which of two streams the steps are of

  moert_code_t begin(int64_t first, int64_t count, bool commit, moert_error_t* error) {
    const std::vector<int64_t> sequences(static_cast<size_t>(count), kSequence);
    std::vector<int64_t> positions;
    for (int64_t t = 0; t < count; ++t) positions.push_back(first + t);
    const moert_stream_t stream = {sizeof stream, 0, here_, this->stream()};
    const moert_capture_step_t step = {sizeof step,
                                       commit ? uint32_t{MOERT_CAPTURE_STEP_COMMIT} : 0u,
                                       count,
                                       &stream,
                                       sequences.data(),
                                       positions.data()};
    return table().begin(self_, &step, error);
  }
  // Positions `first`, first + 1, ...
  void step(int64_t first, int64_t count, bool commit = true) {
    must("begin", [&](auto* e) { return begin(first, count, commit, e); });
    record(first, count);
    must("end", [&](auto* e) { return table().end(self_, e); });
  }
  void drop(int64_t position) {
    must("drop", [&](auto* e) { return table().drop(self_, kSequence, position, e); });
  }
  moert_capture_counts_t counts() {
    moert_capture_counts_t counts{};
    counts.struct_size = sizeof counts;
    must("counts", [&](auto* e) { return table().counts(self_, &counts, e); });
    return counts;
  }
  struct Row {
    int64_t position;
    bool present;
    bool operator==(const Row&) const = default;
  };
  // All committed rows, in order. What they say of a position must be what was decided for it.
  std::vector<Row> read() {
    constexpr size_t kMost = 64, kSlot = kSlots;
    std::vector<int32_t> ids(kMost * kSlot);
    std::vector<float> weights(kMost * kSlot);
    std::vector<uint8_t> present(kMost);
    std::vector<int64_t> sequences(kMost), positions(kMost);
    moert_capture_rows_t rows{};
    rows.struct_size = sizeof rows;
    rows.rows = kMost;
    rows.ids = ids.data();
    rows.weights = weights.data();
    rows.present = present.data();
    rows.sequences = sequences.data();
    rows.positions = positions.data();
    must("read", [&](auto* e) { return table().read(self_, &rows, e); });
    std::vector<Row> found;
    for (size_t r = 0; r < static_cast<size_t>(rows.written); ++r) {
      found.push_back({positions[r], present[r] != 0});
      EXPECT_EQ(sequences[r], kSequence);
      for (size_t j = 0; present[r] != 0 && j < kSlot; j += kSlot - 1) {
        EXPECT_EQ(ids[r * kSlot + j], id_of(positions[r], static_cast<int64_t>(j)));
        EXPECT_EQ(weights[r * kSlot + j], weight_of(positions[r]));
      }
    }
    return found;
  }
  // As they stand in `read`.
  static std::vector<Row> all_present(int64_t count) {
    std::vector<Row> rows;
    for (int64_t position = 0; position < count; ++position) rows.push_back({position, true});
    return rows;
  }

 private:
  static int32_t id_of(int64_t position, int64_t slot) {
    return static_cast<int32_t>((position * 1001 + slot) % kExperts);
  }
  static float weight_of(int64_t position) { return 0.5f + static_cast<float>(position); }

  // What is recorded must outlive the stream's work.
  struct Rows {
    DeviceArray<int32_t> ids;
    DeviceArray<float> weights;
  };
  void record(int64_t first, int64_t count) {
    std::vector<int32_t> ids;
    std::vector<float> weights;
    for (int64_t slot = 0; slot < count * kSlots; ++slot) {
      ids.push_back(id_of(first + slot / kSlots, slot % kSlots));
      weights.push_back(weight_of(first + slot / kSlots));
    }
    Rows& rows = rows_.emplace_back();
    {
      const CurrentDevice current(here_.ordinal);
      rows.ids.assign(ids);
      rows.weights.assign(weights);
    }
    TensorView id_view(rows.ids.device(), MOERT_DTYPE_I32, {count, kSlots});
    TensorView weight_view(rows.weights.device(), MOERT_DTYPE_F32, {count, kSlots});
    id_view.set_device(here_);
    weight_view.set_device(here_);
    moert_capture_record_t record{};
    record.struct_size = sizeof record;
    record.ids = id_view;
    record.weights = weight_view;
    must("record", [&](auto* e) { return table().record(self_, &record, e); });
  }

  moert_device_id_t here_;
  std::optional<TestStream> streams_[2];
  std::deque<Rows> rows_;
  void* self_ = nullptr;
};

}  // namespace moert::gpu
