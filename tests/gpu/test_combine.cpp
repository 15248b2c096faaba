// The sum of a token's slots, bit by bit, and the sigmoid gate.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <moert/sdk/dtypes.hpp>
#include <random>

#include "gpu/device_array.hpp"
#include "gpu/experts/combine.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kGap = 0x7fc1abcd;  // what lies between rows

struct CombineCase {
  const char* label;
  int64_t tokens, cols;
  int32_t top_k;
  Number number = Number::f32;
  int64_t row_gap = 0, col_stride = 1;
  bool weighted = true, placed = true;
};

const CombineCase kCombineCases[] = {
    {"one", 1, 1, 1},
    {"odd", 5, 33, 3},
    {"wide", 3, 2056, 2},
    {"many_slots", 2, 24, 32},
    {"bf16", 4, 64, 8, Number::bf16},
    {"bf16_odd", 4, 37, 2, Number::bf16},
    {"f16", 4, 40, 2, Number::f16},
    {"rows_apart", 5, 40, 2, Number::bf16, 5},
    {"columns_apart", 5, 19, 2, Number::f32, 1, 3},
    {"bf16_columns_apart", 3, 16, 1, Number::bf16, 0, 2},
    {"unweighted", 5, 33, 3, Number::f32, 0, 1, false},
    {"in_place", 6, 33, 1, Number::bf16, 0, 1, true, false},
};

uint32_t bits_as_stored(Number number, float value) {
  if (number == Number::bf16) return f32_to_bf16(value);
  if (number == Number::f16) return f32_to_f16(value);
  return detail::bits_as<uint32_t>(value);
}

class Combined {
 public:
  explicit Combined(const CombineCase& c) : c_(c), random_(7) {
    const int64_t slots = c.tokens * c.top_k;
    stride_ = (c.cols + 15) / 16 * 16;
    std::vector<float> rows(static_cast<size_t>(slots * stride_)), weights;
    for (float& x : rows) x = number();
    std::vector<int32_t> places;
    for (int32_t slot = 0; slot < slots; ++slot) {
      weights.push_back(number());
      places.push_back(c.placed ? static_cast<int32_t>(slots - 1 - slot) : slot);
      // Absent slots with a row and a weight that must not be looked at, and a token that has no other.
      const bool absent = c.placed && (slot % 5 == 3 || slot / c.top_k == 1);
      if (!absent) continue;
      rows[static_cast<size_t>(places.back() * stride_)] = std::numeric_limits<float>::infinity();
      weights.back() = std::numeric_limits<float>::quiet_NaN();
      places.back() = -1;
    }
    rows_.assign(rows);
    weights_.assign(weights);
    places_.assign(places);
    row_stride_ = c.cols * c.col_stride + c.row_gap;
    out_.resize(c.tokens * row_stride_ * number_bytes(c.number));
    fill_gaps();
  }
  void run() {
    CombineArgs args;
    args.rows = rows_.device();
    args.stride = stride_;
    if (c_.placed) args.places = places_.device();
    if (c_.weighted) args.weights = {weights_.device(), c_.top_k, 1};
    args.tokens = c_.tokens;
    args.cols = c_.cols;
    args.top_k = c_.top_k;
    args.out = {out_.device(), row_stride_, c_.col_stride, c_.number};
    const TestStream stream;
    launch_combine(args, stream.get());
    synchronize(stream.get());
  }
  void expect_sums() const {
    const std::vector<unsigned char> out = out_.download();
    for (int64_t t = 0; t < c_.tokens; ++t)
      for (int64_t at = 0; at < row_stride_; ++at) {
        const bool element = at % c_.col_stride == 0 && at / c_.col_stride < c_.cols;
        const uint32_t want =
            element ? bits_as_stored(c_.number, sum(t, at / c_.col_stride)) : gap();
        EXPECT_EQ(stored(out, t * row_stride_ + at), want) << "token " << t << ", element " << at;
      }
  }

 private:
  float number() { return std::uniform_real_distribution<float>(-2, 2)(random_); }
  uint32_t gap() const { return c_.number == Number::f32 ? kGap : kGap & 0xffffu; }
  void fill_gaps() {
    const auto size = static_cast<size_t>(number_bytes(c_.number));
    for (int64_t i = 0; i < out_.size() / static_cast<int64_t>(size); ++i)
      std::memcpy(out_.host() + i * static_cast<int64_t>(size), &kGap, size);
    out_.upload();
  }
  uint32_t stored(const std::vector<unsigned char>& out, int64_t index) const {
    const auto size = static_cast<size_t>(number_bytes(c_.number));
    uint32_t bits = 0;
    std::memcpy(&bits, &out[static_cast<size_t>(index) * size], size);
    return bits;
  }
  float sum(int64_t t, int64_t col) const {
    float total = 0;
    for (int64_t j = 0; j < c_.top_k; ++j) {
      const int64_t slot = t * c_.top_k + j;
      const int32_t place = places_.host()[slot];
      if (place < 0) continue;
      const float weight = c_.weighted ? weights_.host()[slot] : 1.0f;
      total = std::fma(weight, rows_.host()[place * stride_ + col], total);
    }
    return total;
  }

  const CombineCase& c_;
  std::mt19937_64 random_;
  int64_t stride_ = 0, row_stride_ = 0;
  DeviceArray<float> rows_, weights_;
  DeviceArray<int32_t> places_;
  DeviceArray<unsigned char> out_;
};

TEST(Combine, AddsSlotsInOrder) {
  for (const CombineCase& c : kCombineCases) {
    SCOPED_TRACE(c.label);
    Combined combined(c);
    combined.run();
    combined.expect_sums();
  }
}

TEST(Combine, SigmoidGate) {
  for (const int64_t cols : {1, 33, 256, 300}) {
    constexpr int64_t kTokens = 9;
    std::mt19937_64 random(static_cast<uint64_t>(cols));
    std::uniform_real_distribution<double> uniform(-0.3, 0.3);
    std::vector<uint16_t> rows;
    std::vector<double> gate;
    for (int64_t i = 0; i < kTokens * cols; ++i)
      rows.push_back(f32_to_bf16(static_cast<float>(uniform(random))));
    for (int64_t i = 0; i < cols; ++i) gate.push_back(uniform(random));
    rows[static_cast<size_t>(4 * cols)] = 0x7fc0;  // NaN stays in its row
    DeviceArray<uint16_t> device_rows;
    DeviceArray<double> device_gate;
    DeviceArray<float> factors;
    device_rows.assign(rows);
    device_gate.assign(gate);
    factors.resize(kTokens);
    factors.poison();
    const TestStream stream;
    launch_sigmoid_gate({{device_rows.device(), cols, 1, Number::bf16},
                         device_gate.device(),
                         kTokens,
                         cols,
                         factors.device()},
                        remembered_facts(0).warp, stream.get());
    synchronize(stream.get());
    const std::vector<float> got = factors.download();
    for (int64_t t = 0; t < kTokens; ++t) {
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c)
        sum += gate[static_cast<size_t>(c)] *
               static_cast<double>(bf16_to_f32(rows[static_cast<size_t>(t * cols + c)]));
      const double want = 1 / (1 + std::exp(-sum));
      if (t == 4)
        EXPECT_TRUE(std::isnan(got[static_cast<size_t>(t)]));
      else
        EXPECT_NEAR(got[static_cast<size_t>(t)], want, 1e-7);
    }
  }
}

}  // namespace
}  // namespace moert::gpu
