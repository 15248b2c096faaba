// The gate's logits and the norm before it against plain sums, and the same bits in any batch.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <moert/sdk/dtypes.hpp>
#include <random>

#include "gpu/dense/factors.hpp"
#include "gpu/device_array.hpp"
#include "gpu/router/route.hpp"

namespace moert::gpu {
namespace {

struct LogitsCase {
  const char* label;
  Float gate, rows;
  int64_t experts, cols;
  bool norm = false, bias = false;
  int64_t gap = 0;  // elements between rows
  int64_t col_stride = 1;
};
const LogitsCase kCases[] = {
    {"bf16", Float::bf16, Float::bf16, 9, 64},
    {"f16", Float::f16, Float::f16, 5, 40, false, true},
    {"f32", Float::f32, Float::f32, 6, 2064, false, true},
    {"f64_gate", Float::f64, Float::f32, 3, 33},
    {"f32_gate_of_bf16_rows", Float::f32, Float::bf16, 8, 2200},
    {"normed", Float::bf16, Float::bf16, 7, 264, true, true},
    {"apart", Float::bf16, Float::f32, 4, 48, true, false, 3},
    {"columns_apart", Float::f32, Float::f16, 4, 33, false, false, 5, 2},
    {"one", Float::f32, Float::f32, 1, 1, true, true},
};
void PrintTo(const LogitsCase& c, std::ostream* out) { *out << c.label; }

// Numbers as a type of float keeps them.
class Stored {
 public:
  Stored(Float type, int64_t count) : type_(type) { bytes_.resize(count * float_bytes(type)); }
  void set(int64_t at, double value) {
    const auto single = static_cast<float>(value);
    switch (type_) {
      case Float::f64: put(at, value); break;
      case Float::f32: put(at, single); break;
      case Float::bf16: put(at, f32_to_bf16(single)); break;
      default: put(at, f32_to_f16(single)); break;
    }
  }
  double get(int64_t at) const {
    switch (type_) {
      case Float::f64: return taken<double>(at);
      case Float::f32: return static_cast<double>(taken<float>(at));
      case Float::bf16: return static_cast<double>(bf16_to_f32(taken<uint16_t>(at)));
      default: return static_cast<double>(f16_to_f32(taken<uint16_t>(at)));
    }
  }
  void* device() {
    bytes_.upload();
    return bytes_.device();
  }

 private:
  template <class T>
  void put(int64_t at, T value) {
    std::memcpy(bytes_.host() + at * static_cast<int64_t>(sizeof value), &value, sizeof value);
  }
  template <class T>
  T taken(int64_t at) const {
    T value;
    std::memcpy(&value, bytes_.host() + at * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  }
  Float type_;
  DeviceArray<unsigned char> bytes_;
};

class Logits : public testing::TestWithParam<LogitsCase> {
 protected:
  static constexpr int64_t kTokens = 37;
  static constexpr double kEps = 0.25, kGain = 1.5;
  Logits()
      : c_(GetParam()),
        pitch_(whole_runs(c_.cols)),
        row_stride_(c_.cols * c_.col_stride + c_.gap),
        gate_(c_.gate, c_.experts * pitch_),
        rows_(c_.rows, kTokens * row_stride_) {
    for (int64_t r = 0; r < c_.experts; ++r)
      for (int64_t i = 0; i < c_.cols; ++i) gate_.set(r * pitch_ + i, uniform());
    for (int64_t i = 0; i < kTokens * row_stride_; ++i) rows_.set(i, uniform());
    std::vector<double> scale(static_cast<size_t>(pitch_), 0.0), bias;
    for (int64_t i = 0; i < c_.cols; ++i) scale[static_cast<size_t>(i)] = uniform();
    for (int64_t r = 0; r < c_.experts; ++r) bias.push_back(uniform());
    scale_.assign(scale);
    bias_.assign(bias);
  }
  double uniform() { return std::uniform_real_distribution<double>(-1, 1)(random_); }
  double x(int64_t t, int64_t i) const { return rows_.get(t * row_stride_ + i * c_.col_stride); }

  // Rows [first, first + count).
  std::vector<float> run(int64_t first, int64_t count) {
    DeviceArray<float> out;
    out.resize(count * c_.experts);
    out.poison();
    DeviceArray<double> factors;
    factors.resize(count);
    LogitsArgs args;
    auto* data =
        static_cast<unsigned char*>(rows_.device()) + first * row_stride_ * float_bytes(c_.rows);
    const bool runs =
        c_.col_stride == 1 && c_.cols % kRun == 0 && row_stride_ * float_bytes(c_.rows) % 16 == 0;
    args.rows = {data, row_stride_, c_.col_stride, count, c_.cols, c_.rows, runs};
    args.gate = {gate_.device(), c_.experts, pitch_, c_.gate};
    args.bias = c_.bias ? bias_.device() : nullptr;
    args.logits = {out.device(), c_.experts, 1};
    const int warp = remembered_facts(0).warp;
    const TestStream stream;
    if (c_.norm) {
      launch_row_factors(warp, stream.get(), {args.rows, kEps, kGain, factors.device()});
      args.norm = {factors.device(), scale_.device()};
    }
    launch_logits(warp, stream.get(), args);
    synchronize(stream.get());
    return out.download();
  }

  double want(int64_t t, int64_t r, double* size) const {
    double squares = 0;
    for (int64_t i = 0; i < c_.cols; ++i) squares += x(t, i) * x(t, i);
    const double factor = kGain / std::sqrt(squares / static_cast<double>(c_.cols) + kEps);
    double sum = c_.bias ? bias_.host()[r] : 0;
    *size = std::fabs(sum);
    for (int64_t i = 0; i < c_.cols; ++i) {
      const double product =
          gate_.get(r * pitch_ + i) * x(t, i) * (c_.norm ? factor * scale_.host()[i] : 1);
      sum += product;
      *size += std::fabs(product);
    }
    return sum;
  }

  const LogitsCase c_;
  std::mt19937_64 random_{20261201};
  int64_t pitch_, row_stride_;
  Stored gate_, rows_;
  DeviceArray<double> scale_, bias_;
};

// Sums are f64: what is left is the rounding to f32, and n roundings of f64.
TEST_P(Logits, AreSumsOfF64RoundedOnce) {
  const std::vector<float> got = run(0, kTokens);
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t r = 0; r < c_.experts; ++r) {
      double size = 0;
      const double wanted = want(t, r, &size);
      const auto found = static_cast<double>(got[static_cast<size_t>(t * c_.experts + r)]);
      EXPECT_TRUE(std::fabs(found - wanted) <= 0x1p-24 * std::fabs(wanted) + 1e-12 * size)
          << "token " << t << ", expert " << r << ": " << found << ", want " << wanted;
    }
}

// Tiles of all sizes: 1, 4 and 4 x 4.
TEST_P(Logits, HaveTheSameBitsInAnyBatch) {
  const std::vector<float> whole = run(0, kTokens);
  std::vector<float> parts;
  for (const auto& [first, count] : {std::pair{0, 1}, {1, 3}, {4, 0}, {4, 5}, {9, 28}}) {
    const std::vector<float> part = run(first, count);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  ASSERT_EQ(parts.size(), whole.size());
  EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Router, Logits, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.label); });

}  // namespace
}  // namespace moert::gpu
