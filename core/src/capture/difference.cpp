// SPDX-License-Identifier: Apache-2.0
#include "capture/difference.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <moert/error.hpp>

#include "capture/statistics.hpp"

namespace moert::capture {
namespace {

int64_t common(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {  // both sorted
  int64_t n = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) ++n;
    const bool step_a = a[i] <= b[j], step_b = b[j] <= a[i];
    i += step_a ? 1 : 0;
    j += step_b ? 1 : 0;
  }
  return n;
}

// The two files' common layers.
struct Pairing {
  std::vector<CapturedLayer> layers;
  std::vector<size_t> in_a, in_b;
  std::vector<int64_t> alone;  // layers of one of them
};

Pairing pair_layers(const CaptureFile& a, const CaptureFile& b) {
  Pairing pairing;
  const std::vector<CapturedLayer>&left = a.info().layers, &right = b.info().layers;
  size_t i = 0, j = 0;
  while (i < left.size() && j < right.size()) {
    if (left[i].layer_id != right[j].layer_id) {
      const bool is_left = left[i].layer_id < right[j].layer_id;
      pairing.alone.push_back(is_left ? left[i++].layer_id : right[j++].layer_id);
      continue;
    }
    if (left[i] != right[j])
      throw Error(Fault::input,
                  "layer " + std::to_string(left[i].layer_id) + " has " +
                      std::to_string(left[i].num_experts) + " experts and top_k " +
                      std::to_string(left[i].top_k) + " in one capture, " +
                      std::to_string(right[j].num_experts) + " and " +
                      std::to_string(right[j].top_k) + " in the other",
                  a.path().string() + " and " + b.path().string(), "compare captures of one model");
    pairing.layers.push_back(left[i]);
    pairing.in_a.push_back(i++);
    pairing.in_b.push_back(j++);
  }
  for (; i < left.size(); ++i) pairing.alone.push_back(left[i].layer_id);
  for (; j < right.size(); ++j) pairing.alone.push_back(right[j].layer_id);
  return pairing;
}

// One row of a file, which may be missing.
class Side {
 public:
  Side(const CaptureFile& file, size_t most) : file_(file), ids_(most) {}
  bool has(int64_t row) const { return row < file_.rows(); }
  const int32_t* ids(int64_t row, size_t layer, float* margin = nullptr) {
    return row >= 0 && file_.read(row, layer, ids_.data(), nullptr, margin) ? ids_.data() : nullptr;
  }

 private:
  const CaptureFile& file_;
  std::vector<int32_t> ids_;
};

}  // namespace

DifferenceCounter::DifferenceCounter(std::vector<CapturedLayer> layers, double near_tie)
    : layers_(std::move(layers)), near_tie_(near_tie) {
  for (const CapturedLayer& layer : layers_) result_.layers.push_back({.layer_id = layer.layer_id});
}

void DifferenceCounter::add(size_t layer, int64_t row, RowKey token, const int32_t* ids,
                            const int32_t* other, const float* margin) {
  LayerDifference& into = result_.layers[layer];
  if (ids == nullptr || other == nullptr) {
    into.only_one += ids != other ? 1 : 0;
    return;
  }
  const int64_t k = layers_[layer].top_k;
  const auto at = static_cast<size_t>(row);
  if (at >= seen_.size()) {
    seen_.resize(at + 1);
    flipped_.resize(at + 1);
  }
  ++into.rows;
  result_.rows += std::exchange(seen_[at], uint8_t{1}) == 0 ? 1 : 0;
  if (std::equal(ids, ids + k, other)) {
    into.jaccard += 1;
    return;
  }
  sorted_.assign(ids, ids + k);
  other_sorted_.assign(other, other + k);
  std::sort(sorted_.begin(), sorted_.end());
  std::sort(other_sorted_.begin(), other_sorted_.end());
  const int64_t both = common(sorted_, other_sorted_);
  into.jaccard += static_cast<double>(both) / static_cast<double>(2 * k - both);
  into.exchanged += k - both;
  if (both == k) {
    ++into.reordered;
  } else {
    ++into.flipped;
    result_.rows_flipped += std::exchange(flipped_[at], uint8_t{1}) == 0 ? 1 : 0;
    const bool is_own = margin != nullptr && *margin >= 0;
    into.with_margin += is_own ? 1 : 0;
    into.near_ties += is_own && is_near_tie(*margin, near_tie_) ? 1 : 0;
  }
  if (result_.first && std::pair(first_layer_, first_row_) <= std::pair(layer, row)) return;
  first_layer_ = layer;
  first_row_ = row;
  result_.first = {into.layer_id, token, {ids, ids + k}, {other, other + k}, {}};
  if (margin != nullptr) result_.first->margin = *margin;
}

int64_t Difference::decisions_alone() const {
  int64_t decisions = 0;
  for (const LayerDifference& layer : layers) decisions += layer.only_one;
  return decisions;
}

Difference DifferenceCounter::take() { return std::move(result_); }

Difference difference(const CaptureFile& a, const CaptureFile& b, double near_tie) {
  const Pairing pairing = pair_layers(a, b);
  if (pairing.layers.empty())
    throw Error(Fault::input, "the captures have no layer in common",
                a.path().string() + " and " + b.path().string(), "compare captures of one model");
  size_t most = 0;
  for (const CapturedLayer& layer : pairing.layers)
    most = std::max(most, static_cast<size_t>(layer.top_k));
  DifferenceCounter counter(pairing.layers, near_tie);
  Side left(a, most), right(b, most);
  int64_t i = 0, j = 0;
  for (int64_t row = 0; left.has(i) || right.has(j); ++row) {
    const bool both = left.has(i) && right.has(j);
    const bool in_a = !right.has(j) || (both && a.key(i) <= b.key(j));
    const bool in_b = !left.has(i) || (both && b.key(j) <= a.key(i));
    const RowKey token = in_a ? a.key(i) : b.key(j);
    for (size_t layer = 0; layer < pairing.layers.size(); ++layer) {
      float margin = 0;
      const int32_t* ids = left.ids(in_a ? i : -1, pairing.in_a[layer], &margin);
      const int32_t* other = right.ids(in_b ? j : -1, pairing.in_b[layer]);
      counter.add(layer, row, token, ids, other, a.info().margins ? &margin : nullptr);
    }
    i += in_a ? 1 : 0;
    j += in_b ? 1 : 0;
  }
  Difference result = counter.take();
  result.layers_alone = pairing.alone;
  return result;
}

}  // namespace moert::capture
