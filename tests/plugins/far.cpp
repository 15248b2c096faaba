// A device of its own with runners and a capturer on it, to see what the core does with memory that it cannot read.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include <memory>
#include <vector>

#include "far_runner.hpp"

namespace {

using namespace moert;

constexpr moert_kv_t kFar[] = {{"device", "far"}};

struct Honest final : zoo::FarRunner<Honest> {
  static constexpr FeatureInfo kFeature = {"far.honest", MOERT_RANK_REFERENCE, 0, kFar, 1};
  using FarRunner::FarRunner;
};
struct Silent final : zoo::FarRunner<Silent> {  // forgets to report the last row
  static constexpr FeatureInfo kFeature = {"far.silent", MOERT_RANK_REFERENCE, 0, kFar, 1};
  using FarRunner::FarRunner;
  bool tells(int64_t row) const override { return row < 2; }
};
struct Stubborn final : zoo::FarRunner<Stubborn> {  // takes no forced ids
  static constexpr FeatureInfo kFeature = {"far.stubborn", MOERT_RANK_REFERENCE, 0, kFar, 1};
  using FarRunner::FarRunner;
  bool obeys() const override { return false; }
};

// Keeps steps that commit themselves. Rows are moved by the stream's own work: only reading waits for it.
class Memory final : public RoutedExpertsCapturer {
 public:
  static constexpr FeatureInfo kFeature = {"far.memory", MOERT_RANK_GOOD, 0, kFar, 1};
  static Support supports(const Host&, const moert_capture_spec_t& spec) {
    if (spec.device.kind != zoo::kFarKind) return Support::no("reads the memory of far alone");
    return Support::yes();
  }
  Memory(const Host&, const moert_capture_spec_t& spec, const Options& options)
      : top_k_(spec.top_k, spec.top_k + spec.n_layers) {
    options.allow({});
  }
  void begin(const moert_capture_step_t& step) override {
    step_ = std::make_shared<std::vector<Row>>();
    for (int64_t t = 0; t < step.tokens; ++t)
      step_->push_back({step.sequences[t], step.positions[t], std::vector<Cell>(top_k_.size())});
    stream_ = step.stream;
  }
  void record(const moert_capture_record_t& record) override {
    zoo::enqueue(stream_, [step = step_, layer = record.layer, k = top_k_[record.layer],
                           ids = zoo::inside_as<int32_t>(record.ids),
                           weights = zoo::inside_as<float>(record.weights),
                           margins = zoo::inside_as<float>(record.margins)] {
      for (size_t t = 0; t < step->size(); ++t) {
        const auto at = static_cast<int64_t>(t);
        (*step)[t].cells[layer] = {{ids + at * k, ids + (at + 1) * k},
                                   {weights + at * k, weights + (at + 1) * k},
                                   margins[t]};
      }
    });
  }
  void end() override {
    count_ += static_cast<int64_t>(step_->size());
    zoo::enqueue(stream_, [step = step_, rows = rows_] {
      rows->insert(rows->end(), step->begin(), step->end());
    });
  }
  void abort() override {}
  void drop(int64_t, int64_t) override {}
  void commit(int64_t, int64_t) override {}
  void read(moert_capture_rows_t& rows) override {
    if (stream_ != nullptr) zoo::finish(stream_);
    rows.written = std::min(rows.rows, count_ - rows.first);
    for (int64_t r = 0; r < rows.written; ++r)
      give((*rows_)[static_cast<size_t>(rows.first + r)], r, rows);
  }
  void counts(moert_capture_counts_t& out) override { out.rows = count_; }

 private:
  struct Cell {
    std::vector<int32_t> ids;
    std::vector<float> weights;
    float margin = 0;
  };
  struct Row {
    int64_t sequence, position;
    std::vector<Cell> cells;  // per layer; no ids: absent
  };
  void give(const Row& row, int64_t r, const moert_capture_rows_t& rows) const {
    const Cell& cell = row.cells[rows.layer];
    const int64_t k = top_k_[rows.layer];
    if (rows.sequences != nullptr) rows.sequences[r] = row.sequence;
    if (rows.positions != nullptr) rows.positions[r] = row.position;
    if (rows.present != nullptr) rows.present[r] = cell.ids.empty() ? 0 : 1;
    if (cell.ids.empty()) return;
    if (rows.ids != nullptr) std::copy(cell.ids.begin(), cell.ids.end(), rows.ids + r * k);
    if (rows.weights != nullptr)
      std::copy(cell.weights.begin(), cell.weights.end(), rows.weights + r * k);
    if (rows.margins != nullptr) rows.margins[r] = cell.margin;
  }

  std::vector<int64_t> top_k_;
  std::shared_ptr<std::vector<Row>> step_, rows_ = std::make_shared<std::vector<Row>>();
  int64_t count_ = 0;
  const moert_stream_t* stream_ = nullptr;
};

}  // namespace

MOERT_PLUGIN("org.zoo.far", "far", "The zoo", "1.0.0", zoo::FarDevice, Honest, Silent, Stubborn,
             Memory)
