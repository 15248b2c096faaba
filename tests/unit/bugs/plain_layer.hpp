// A layer's experts as plain matrices, put into checkpoints in the layouts of releases and computed by
// plain loops in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>
#include <numeric>

#include "tiny_model.hpp"

namespace moert::bugs {

// gate and up are [I, H], down is [H, I].
struct PlainExpert {
  std::vector<float> gate, up, down;
};

using PlainActivation = std::function<double(double gate, double up)>;

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double gate, double up) { return gate * sigmoid(gate) * up; }

inline PlainExpert plain_expert(int64_t hidden, int64_t intermediate, uint32_t seed) {
  const auto matrix = [&](uint32_t which) {
    std::vector<float> values = random_rows(intermediate, hidden, 1000 * seed + which);
    for (float& v : values) v *= 0.4f;
    return values;
  };
  return {matrix(1), matrix(2), matrix(3)};
}

inline std::vector<PlainExpert> plain_experts(const Sizes& s) {
  std::vector<PlainExpert> experts;
  for (int64_t e = 0; e < s.experts; ++e)
    experts.push_back(plain_expert(s.hidden, s.intermediate, static_cast<uint32_t>(e + 1)));
  return experts;
}

inline std::vector<double> output_of(const PlainExpert& expert, const float* row, int64_t hidden,
                                     const PlainActivation& act = silu) {
  const auto h = static_cast<size_t>(hidden), width = expert.gate.size() / h;
  std::vector<double> out(h, 0.0);
  for (size_t i = 0; i < width; ++i) {
    double gate = 0, up = 0;
    for (size_t c = 0; c < h; ++c) {
      gate += static_cast<double>(expert.gate[i * h + c]) * static_cast<double>(row[c]);
      up += static_cast<double>(expert.up[i * h + c]) * static_cast<double>(row[c]);
    }
    const double value = act(gate, up);
    for (size_t c = 0; c < h; ++c)
      out[c] += value * static_cast<double>(expert.down[c * width + i]);
  }
  return out;
}

// Softmax over all experts, the k largest, divided by their sum: (expert, weight).
inline std::vector<std::pair<size_t, double>> route_renormalised(const std::vector<double>& logits,
                                                                 int64_t top_k) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  order.resize(static_cast<size_t>(top_k));
  double sum = 0;
  for (const size_t e : order) sum += std::exp(logits[e]);
  std::vector<std::pair<size_t, double>> chosen;
  for (const size_t e : order) chosen.emplace_back(e, std::exp(logits[e]) / sum);
  return chosen;
}

inline double dot(const float* a, const float* b, int64_t n) {
  return std::inner_product(a, a + n, b, 0.0, std::plus<>(), [](float x, float y) {
    return static_cast<double>(x) * static_cast<double>(y);
  });
}

// [rows, columns] -> [columns, rows].
inline std::vector<float> transposed(const std::vector<float>& matrix, int64_t rows) {
  const auto r = static_cast<size_t>(rows), columns = matrix.size() / r;
  std::vector<float> result(matrix.size());
  for (size_t i = 0; i < r; ++i)
    for (size_t j = 0; j < columns; ++j) result[j * r + i] = matrix[i * columns + j];
  return result;
}

// How a fused tensor stands in the file.
struct Stacking {
  bool is_transposed = false;   // [E, in, out]
  bool is_interleaved = false;  // gate and up rows take turns
  std::string gate_up = "gate_up_proj", down = "down_proj";
};

inline void put_stacked(Tiny& tiny, const std::string& prefix,
                        const std::vector<PlainExpert>& experts, const Sizes& s,
                        const Stacking& how = {}) {
  const auto h = static_cast<ptrdiff_t>(s.hidden);
  std::vector<float> gate_up, down;
  for (const PlainExpert& expert : experts) {
    std::vector<float> both;
    for (ptrdiff_t i = 0; i < 2 * s.intermediate; ++i) {
      const bool is_up = how.is_interleaved ? i % 2 == 1 : i >= s.intermediate;
      const ptrdiff_t row = how.is_interleaved ? i / 2 : i % s.intermediate;
      const auto from = (is_up ? expert.up : expert.gate).begin() + row * h;
      both.insert(both.end(), from, from + h);
    }
    if (how.is_transposed) both = transposed(both, 2 * s.intermediate);
    gate_up.insert(gate_up.end(), both.begin(), both.end());
    const std::vector<float> one =
        how.is_transposed ? transposed(expert.down, s.hidden) : expert.down;
    down.insert(down.end(), one.begin(), one.end());
  }
  const int64_t wide = 2 * s.intermediate;
  const auto shape = [&](int64_t out, int64_t in) {
    return how.is_transposed ? std::vector<int64_t>{s.experts, in, out}
                             : std::vector<int64_t>{s.experts, out, in};
  };
  tiny.set(prefix + how.gate_up, shape(wide, s.hidden), std::move(gate_up));
  tiny.set(prefix + how.down, shape(s.hidden, s.intermediate), std::move(down));
}

// Names of gate, up and down, between the expert's number and ".weight".
using Names = std::vector<std::string>;

inline void put_expert(Tiny& tiny, const std::string& prefix, const PlainExpert& expert,
                       int64_t hidden, const Names& names = {"gate_proj", "up_proj", "down_proj"}) {
  const auto width = static_cast<int64_t>(expert.gate.size()) / hidden;
  tiny.set(prefix + names[0] + ".weight", {width, hidden}, expert.gate);
  tiny.set(prefix + names[1] + ".weight", {width, hidden}, expert.up);
  tiny.set(prefix + names[2] + ".weight", {hidden, width}, expert.down);
}

inline void put_per_expert(Tiny& tiny, const std::string& prefix,
                           const std::vector<PlainExpert>& experts, int64_t hidden,
                           const Names& names = {"gate_proj", "up_proj", "down_proj"}) {
  for (size_t e = 0; e < experts.size(); ++e)
    put_expert(tiny, prefix + std::to_string(e) + ".", experts[e], hidden, names);
}

// Row by row, relative to the row's norm.
inline void expect_rows(const std::vector<float>& got, const std::vector<double>& want,
                        int64_t hidden, const std::string& what = {}) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t row = 0; row < got.size(); row += static_cast<size_t>(hidden)) {
    double difference = 0, norm = 0;
    for (size_t c = row; c < row + static_cast<size_t>(hidden); ++c) {
      difference += std::pow(static_cast<double>(got[c]) - want[c], 2);
      norm += std::pow(want[c], 2);
    }
    EXPECT_GT(norm, 0) << what;
    EXPECT_LE(std::sqrt(difference / norm), 1e-5)
        << what << " row " << row / static_cast<size_t>(hidden);
  }
}

}  // namespace moert::bugs
