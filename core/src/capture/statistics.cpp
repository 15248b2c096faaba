// SPDX-License-Identifier: Apache-2.0
#include "capture/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include <moert/error.hpp>

namespace moert::capture {
namespace {

constexpr int64_t kMostExperts = int64_t{1}
                                 << 24;  // far above any model; a damaged file may say more
constexpr int64_t kMostInTable = 1024;   // of whose pairs a whole table is kept
constexpr int64_t kBlock =
    1024;  // rows that are read for one layer after the other, while they are in the cache

// How often two experts were chosen together.
class PairCounter {
 public:
  explicit PairCounter(int64_t experts) {
    if (experts <= kMostInTable) table_.resize(static_cast<size_t>(experts * (experts - 1) / 2));
  }

  void add(std::vector<int32_t>& ids) {  // sorts them
    std::sort(ids.begin(), ids.end());
    for (size_t b = 1; b < ids.size(); ++b)
      for (size_t a = 0; a < b; ++a) {
        const auto low = static_cast<uint64_t>(ids[a]), high = static_cast<uint64_t>(ids[b]);
        ++(table_.empty() ? map_[high << 32 | low] : table_[high * (high - 1) / 2 + low]);
      }
  }

  // The `most` most frequent.
  std::vector<ExpertPair> top(size_t most) const {
    std::vector<ExpertPair> pairs;
    int64_t high = 1, low = 0;
    for (const int64_t rows : table_) {
      if (rows != 0) pairs.push_back({low, high, rows, 0});
      if (++low == high) {
        low = 0;
        ++high;
      }
    }
    for (const auto& [key, rows] : map_)
      pairs.push_back(
          {static_cast<int64_t>(key & 0xffffffffU), static_cast<int64_t>(key >> 32), rows, 0});
    const size_t kept = std::min(most, pairs.size());
    std::partial_sort(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(kept), pairs.end(),
                      [](const ExpertPair& x, const ExpertPair& y) {
                        return x.rows != y.rows ? x.rows > y.rows
                                                : std::pair(x.a, x.b) < std::pair(y.a, y.b);
                      });
    pairs.resize(kept);
    return pairs;
  }

 private:
  std::vector<int64_t> table_;  // [low below high], triangle by triangle; empty: use the map
  std::unordered_map<uint64_t, int64_t> map_;
};

// Collects one layer's rows.
class LayerCounter {
 public:
  LayerCounter(const CaptureFile& file, size_t layer, const StatisticsOptions& options)
      : file_(file),
        options_(options),
        layer_(layer),
        pairs_(options.pairs == 0 ? 0 : file.info().layers[layer].num_experts) {
    const CapturedLayer& at = file.info().layers[layer];
    result_.layer_id = at.layer_id;
    result_.num_experts = at.num_experts;
    result_.top_k = at.top_k;
    result_.counts.resize(static_cast<size_t>(at.num_experts));
    ids_.resize(static_cast<size_t>(at.top_k));
  }

  void add(int64_t row) {
    float margin = 0;
    if (!file_.read(row, layer_, ids_.data(), nullptr, &margin)) {
      ++result_.absent;
      return;
    }
    ++result_.rows;
    for (const int32_t id : ids_) ++result_.counts[static_cast<size_t>(id)];
    if (options_.pairs != 0) pairs_.add(ids_);
    if (!file_.info().margins) return;
    if (is_near_tie(margin, options_.near_tie)) ++result_.near_ties;
    if (!std::isfinite(margin)) return;  // no expert was left out, or the row had no numbers
    ++margins_;
    margin_sum_ += static_cast<double>(margin);
  }

  LayerStatistics take() {
    result_.load = summarize_load(result_.counts);
    const auto slots = static_cast<double>(result_.load.slots);
    for (const int64_t count : result_.counts) {
      const double share = static_cast<double>(count) / slots;
      if (count != 0) result_.entropy -= share * std::log2(share);
    }
    result_.even_entropy = std::log2(static_cast<double>(result_.num_experts));
    if (margins_ != 0) result_.mean_margin = margin_sum_ / static_cast<double>(margins_);
    result_.pairs = pairs_.top(options_.pairs);
    for (ExpertPair& pair : result_.pairs) {
      const double both = static_cast<double>(result_.counts[static_cast<size_t>(pair.a)]) *
                          static_cast<double>(result_.counts[static_cast<size_t>(pair.b)]);
      pair.lift = static_cast<double>(pair.rows) * static_cast<double>(result_.rows) / both;
    }
    return std::move(result_);
  }

 private:
  const CaptureFile& file_;
  const StatisticsOptions& options_;
  size_t layer_;
  PairCounter pairs_;
  LayerStatistics result_;
  std::vector<int32_t> ids_;
  int64_t margins_ = 0;
  double margin_sum_ = 0;
};

}  // namespace

std::vector<LayerStatistics> statistics(const CaptureFile& file, const StatisticsOptions& options) {
  int64_t experts = 0;
  for (const CapturedLayer& layer : file.info().layers) experts += layer.num_experts;
  if (experts > kMostExperts)
    throw Error(Fault::input,
                "its layers have " + std::to_string(experts) + " experts; at most " +
                    std::to_string(kMostExperts) + " are counted",
                file.path().string(), "check num_experts in the file's metadata");
  std::vector<LayerCounter> counters;
  for (size_t layer = 0; layer < file.info().layers.size(); ++layer)
    counters.emplace_back(file, layer, options);
  std::pair<int64_t, int64_t> rows = {0, file.rows()};
  if (options.sequence) rows = file.rows_of(*options.sequence);
  for (int64_t begin = rows.first; begin < rows.second; begin += kBlock)
    for (LayerCounter& counter : counters)
      for (int64_t row = begin; row < std::min(begin + kBlock, rows.second); ++row)
        counter.add(row);
  std::vector<LayerStatistics> result;
  for (LayerCounter& counter : counters) result.push_back(counter.take());
  return result;
}

}  // namespace moert::capture
