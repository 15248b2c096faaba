// Made-up captures for pages to be tested on: the same ones every time, with loads as routers give them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/report_capture.hpp"

namespace moert::testing {

// What a capture is made of. Loads follow a power law with another exponent and another order of experts in
// each layer; the last `dead` experts of that order have no tokens in every seventh layer.
struct SampleShape {
  int64_t layers = 0, experts = 0, top_k = 0, rows = 0, first_layer = 0, dead = 0, absent = 0;
  bool margins = false;
};

class Sampler {
 public:
  explicit Sampler(uint64_t seed) : bits_(seed) {}
  // Not a distribution of the standard library: those differ from library to library.
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  std::vector<size_t> order(size_t count) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = count; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(uniform() * static_cast<double>(i))]);
    return order;
  }

 private:
  std::mt19937_64 bits_;
};

inline double entropy_of(const std::vector<int64_t>& counts, int64_t slots) {
  double bits = 0;
  for (const int64_t count : counts) {
    const double share =
        static_cast<double>(count) / static_cast<double>(std::max<int64_t>(slots, 1));
    if (share > 0) bits -= share * std::log2(share);
  }
  return bits;
}

// Rounded so that they sum up to `slots`, none above `rows`.
inline std::vector<int64_t> counts_of(const std::vector<double>& shares, int64_t slots,
                                      int64_t rows) {
  std::vector<int64_t> counts;
  int64_t left = slots;
  for (const double share : shares) {
    counts.push_back(
        std::min<int64_t>({left, rows, std::llround(share * static_cast<double>(slots))}));
    left -= counts.back();
  }
  for (size_t i = 0; left > 0; i = (i + 1) % counts.size())
    if (shares[i] > 0 && counts[i] < rows) ++counts[i], --left;
  return counts;
}

inline std::vector<double> shares_of(const SampleShape& shape, int64_t layer, Sampler& random) {
  const auto experts = static_cast<size_t>(shape.experts);
  const std::vector<size_t> order = random.order(experts);
  const double place =
      static_cast<double>(layer) / static_cast<double>(std::max<int64_t>(shape.layers - 1, 1));
  const double exponent = 0.2 + 0.8 * (1 - place) * (1 - place) + 0.15 * random.uniform();
  const size_t living = experts - (layer % 7 == 2 ? static_cast<size_t>(shape.dead) : 0);
  std::vector<double> shares(experts, 0);
  double sum = 0;
  for (size_t rank = 0; rank < living; ++rank)
    sum += shares[order[rank]] =
        (0.7 + 0.6 * random.uniform()) / std::pow(static_cast<double>(rank) + 3, exponent);
  for (double& share : shares) share /= sum;
  return shares;
}

inline std::vector<capture::ExpertPair> pairs_of(const capture::LayerStatistics& layer,
                                                 Sampler& random) {
  std::vector<int64_t> order(layer.counts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = [&](int64_t e) { return layer.counts[static_cast<size_t>(e)]; };
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return count(a) != count(b) ? count(a) > count(b) : a < b;
  });
  std::vector<capture::ExpertPair> pairs;
  for (size_t i = 1; i < std::min<size_t>(order.size(), 4); ++i)
    for (size_t j = 0; j < i; ++j) {
      const double alone = static_cast<double>(count(order[i])) *
                           static_cast<double>(count(order[j])) /
                           static_cast<double>(std::max<int64_t>(layer.rows, 1));
      const double rows =
          std::min(alone * (0.8 + 2 * random.uniform()), static_cast<double>(count(order[i])));
      if (rows < 1) continue;
      pairs.push_back({std::min(order[i], order[j]), std::max(order[i], order[j]),
                       std::llround(rows), rows / alone});
    }
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    return std::tuple(b.rows, a.a, a.b) < std::tuple(a.rows, b.a, b.b);
  });
  pairs.resize(std::min<size_t>(pairs.size(), 5));
  return pairs;
}

inline capture::LayerStatistics sample_layer(const SampleShape& shape, int64_t index,
                                             Sampler& random) {
  capture::LayerStatistics layer;
  layer.layer_id = shape.first_layer + index;
  layer.num_experts = shape.experts;
  layer.top_k = shape.top_k;
  layer.absent = std::min(shape.absent, shape.rows);
  layer.rows = shape.rows - layer.absent;
  const std::vector<double> shares = shares_of(shape, index, random);
  layer.counts = layer.rows > 0 ? counts_of(shares, layer.rows * shape.top_k, layer.rows)
                                : std::vector<int64_t>(shares.size());
  layer.load = capture::summarize_load(layer.counts);
  layer.entropy = entropy_of(layer.counts, layer.load.slots);
  layer.even_entropy = std::log2(static_cast<double>(shape.experts));
  layer.pairs = pairs_of(layer, random);
  if (shape.margins && layer.rows > 0) {
    layer.mean_margin = 0.01 + 0.02 * random.uniform();
    layer.near_ties = std::llround(0.04 * random.uniform() * static_cast<double>(layer.rows));
  }
  return layer;
}

inline report::ReportCapture sample_capture(const SampleShape& shape, uint64_t seed = 1) {
  Sampler random(seed);
  report::ReportCapture capture;
  capture.path = "captures/sample.moert";
  capture.info.model = "sample-" + std::to_string(shape.layers) + "x" +
                       std::to_string(shape.experts) + " (made-up data)";
  capture.info.family = "sample";
  capture.info.source = "moert 0.1.0";
  capture.info.model_digest = "xxh3-128:7f1c0d5e9a3b42c68e0f1d2c3b4a5968";
  capture.info.router_digest = "xxh3-128:04b1e6a97c2d4f5580913eacb2d7f611";
  capture.info.hidden_layers = shape.first_layer + shape.layers;
  capture.info.margins = shape.margins;
  capture.rows = shape.rows;
  for (int64_t l = 0; l < shape.layers; ++l) {
    capture.info.layers.push_back({shape.first_layer + l, shape.experts, shape.top_k});
    capture.layers.push_back(sample_layer(shape, l, random));
    capture.absent += capture.layers.back().absent;
  }
  capture.complete = capture.absent == 0;
  capture.sequences = std::max<int64_t>(shape.rows / 512, shape.rows > 0 ? 1 : 0);
  return capture;
}

inline const std::string& hostile_text() {
  static const std::string text =
      "<script>document.title='taken'</script>\"><img src=x "
      "onerror=\"document.title='taken'\">'&amp; "
      "\xFF\xC3 \xE2\x80\xA8</title></style><!-- \xE2\x80\xAEtxt";
  return text;
}

// Every text of the file holds markup.
inline report::ReportCapture hostile_capture() {
  report::ReportCapture capture = sample_capture({.layers = 4,
                                                  .experts = 8,
                                                  .top_k = 2,
                                                  .rows = 1500,
                                                  .first_layer = 1,
                                                  .dead = 1,
                                                  .absent = 21},
                                                 7);
  for (std::string* text :
       {&capture.path, &capture.info.model, &capture.info.family, &capture.info.source,
        &capture.info.model_digest, &capture.info.router_digest, &capture.info.simulated,
        &capture.info.slot_order})
    *text = hostile_text();
  capture.info.lost = 12;
  capture.complete = false;
  return capture;
}

// By name; nothing for a name that there is none of.
inline std::vector<report::ReportCapture> sample_captures(const std::string& kind) {
  if (kind == "usual")
    return {sample_capture(
        {.layers = 48, .experts = 128, .top_k = 8, .rows = 65536, .dead = 5, .margins = true})};
  if (kind == "hostile")
    return {
        sample_capture(
            {.layers = 26, .experts = 64, .top_k = 6, .rows = 20000, .first_layer = 1, .dead = 2},
            3),
        hostile_capture()};
  if (kind == "large")
    return {sample_capture(
        {.layers = 94, .experts = 512, .top_k = 10, .rows = 1000000, .dead = 40, .margins = true},
        5)};
  if (kind == "small")
    return {sample_capture({.layers = 2, .experts = 8, .top_k = 2, .rows = 6, .dead = 1})};
  if (kind == "empty") return {sample_capture({.layers = 1, .experts = 8, .top_k = 2, .rows = 0})};
  return {};
}

}  // namespace moert::testing
