// Rows on their way into a matrix product: bit by bit what the quant methods leave of them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "gpu/device_array.hpp"
#include "gpu/experts/rows.hpp"
#include "gpu/quant_plugin.hpp"

namespace moert::gpu {
namespace {

struct WordCase {
  const char* scheme;
  const char* word;
  float input_scale = 0;  // 0: none
  bool divides = false;
};

const WordCase kWords[] = {
    {"fp8_e4m3fn.tensor.f32", "static", 0.0173f},
    {"fp8_e4m3fn.tensor.f32", "token"},
    {"fp8_e4m3fn.channel.f32", "group128"},
    {"fp8_e4m3fn.channel.f32", "group32_ue8m0"},
    {"fp8_e4m3fn.block128x128.f32", "group8"},
    {"fp8_e4m3fn.tensor.f32", "group7"},
    {"fp8_e4m3fn.tensor.f32", "group96_ue8m0"},
    {"fp8_e4m3fn.tensor.f32", "group65536"},
    {"fp8_e4m3fn.block1x32.e8m0", "mxfp8"},
    {"fp8_e4m3fnuz.tensor.f32", "static", 0.0173f},
    {"fp8_e4m3fnuz.channel.f32", "token"},
    {"fp8_e4m3fnuz.channel.f32", "group16"},
    {"fp8_e5m2.tensor.f32", "static", 1e-4f},
    {"fp8_e5m2.tensor.f32", "token"},
    {"fp8_e5m2.tensor.f32", "group64_ue8m0"},
    {"int8.channel.f32", "token"},
    {"int8.tensor.f32", "static", 0.0311f},
    {"mxfp4.g32.e8m0", "mxfp8"},
    {"mxfp4.g32.e8m0", "fp8"},
    {"mxfp4.g32.e8m0", "group128"},
    {"mxfp4.g32.e8m0", "group32_ue8m0"},
    {"nvfp4.g16.e4m3fn", "nvfp4", 0.00137f},
    {"nvfp4.g16.e4m3fn", "nvfp4", 700.0f, true},
};

// Rows of every kind: usual ones, zeros, ties of codes, tiny and huge numbers, and such that are none.
std::vector<float> odd_rows(int64_t rows, int64_t cols) {
  std::mt19937_64 random(static_cast<uint64_t>(rows * 10000 + cols));
  std::uniform_real_distribution<float> uniform(-1, 1);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> all;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      float x = uniform(random);
      switch (r % 9) {
        case 0: break;
        case 1: x = std::ldexp(x, static_cast<int>(c % 24) - 16); break;
        case 2: x = c % 3 == 0 ? -0.0f : 0.0f; break;
        case 3: x = static_cast<float>(c % 61 - 30) / 16; break;
        case 4: x *= 3e-39f; break;
        case 5: x *= 3.3e38f; break;
        case 6: x = c % 7 == 2 ? (c % 2 == 0 ? kInf : -kInf) : x * 40; break;
        case 7: x = c % 5 == 1 ? std::nanf("") : x; break;
        default:
          x = std::ldexp(1.0f + static_cast<float>(c % 16) / 16, static_cast<int>(c % 40) - 20);
      }
      all.push_back(x);
    }
  return all;
}

uint32_t bits_of(float x) { return detail::bits_as<uint32_t>(x); }

// Equal bits; one NaN is as good as another.
void expect_same(const std::vector<float>& got, const std::vector<float>& want, int64_t cols) {
  ASSERT_EQ(got.size(), want.size());
  int64_t wrong = 0;
  for (size_t i = 0; i < got.size() && wrong < 5; ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (bits_of(got[i]) == bits_of(want[i])) continue;
    ++wrong;
    ADD_FAILURE() << "row " << static_cast<int64_t>(i) / cols << ", column "
                  << static_cast<int64_t>(i) % cols << ": got " << got[i] << ", want " << want[i];
  }
}

RowRule rule_of(const WordCase& c) {
  RowRule rule;
  EXPECT_TRUE(row_rule(c.scheme, c.word, &rule)) << c.scheme << " " << c.word;
  return rule;
}

// What the quant method leaves of rows.
std::vector<float> remains(const WordCase& c, std::vector<float> rows, int64_t cols) {
  const QuantObject quant(c.scheme, c.word, c.divides);
  std::optional<float> scale;
  if (c.input_scale != 0) scale = c.input_scale;
  quant.quantise(rows, cols, scale);
  return rows;
}

float scale_used(const WordCase& c) { return c.divides ? 1 / c.input_scale : c.input_scale; }

TEST(Rows, HostArithmeticIsThatOfTheQuantMethods) {
  for (const WordCase& c : kWords)
    for (const int64_t cols : {1, 32, 100, 384}) {
      SCOPED_TRACE(std::string(c.scheme) + " " + c.word + " " + std::to_string(cols));
      std::vector<float> rows = odd_rows(9, cols);
      const std::vector<float> want = remains(c, rows, cols);
      for (int64_t r = 0; r < 9; ++r)
        quantise_row(rule_of(c), scale_used(c), rows.data() + r * cols, cols);
      expect_same(rows, want, cols);
    }
}

TEST(Rows, UnknownWordsAreRefused) {
  RowRule rule;
  for (const auto& [scheme, word] : std::initializer_list<std::pair<const char*, const char*>>{
           {"bf16", "token"},
           {"fp8_e4m3fn.tensor.f32", "mixed"},
           {"fp8_e4m3fn.tensor.f32", "group0"},
           {"fp8_e4m3fn.tensor.f32", "group08"},
           {"fp8_e4m3fn.tensor.f32", "group65537"},
           {"fp8_e4m3fn.tensor.f32", "group128_ue8"},
           {"int8.channel.f32", "group128"},
           {"int8.channel.f32", "mxfp8"},
           {"mxfp4.g32.e8m0", "token"},
           {"mxfp4.g32.e8m0", "static"},
           {"nvfp4.g16.e4m3fn", "mxfp8"},
           {"mixed", "token"},
           {"fp8_e4m3fn.tensor.f32", "scaled"}})
    EXPECT_FALSE(row_rule(scheme, word, &rule)) << scheme << " " << word;
  for (const char* word : {"", "none"}) {
    EXPECT_TRUE(row_rule("anything", word, &rule));
    EXPECT_FALSE(rule.quantises());
  }
}

// One launch, and what it wrote.
struct Launched {
  std::vector<float> numbers;  // [rows, padded]
  std::vector<float> scales;
};

class Launch {
 public:
  Launch(Number number, int64_t rows, int64_t cols, int64_t row_gap = 0, int64_t col_stride = 1)
      : cols_(cols) {
    numbers_ = odd_rows(rows, cols);
    const int64_t row_stride = cols * col_stride + row_gap;
    const auto size = static_cast<size_t>(number_bytes(number));
    bytes_.resize(rows * row_stride * number_bytes(number));
    std::memset(bytes_.host(), 0xff, static_cast<size_t>(bytes_.size()));
    for (int64_t i = 0; i < rows * cols; ++i) {
      float& x = numbers_[static_cast<size_t>(i)];
      const uint32_t wide = bits_of(x);
      const uint16_t narrow = number == Number::bf16 ? f32_to_bf16(x) : f32_to_f16(x);
      if (number == Number::bf16) x = bf16_to_f32(narrow);
      if (number == Number::f16) x = f16_to_f32(narrow);
      std::memcpy(
          bytes_.host() + static_cast<size_t>(i / cols * row_stride + i % cols * col_stride) * size,
          size == 2 ? static_cast<const void*>(&narrow) : &wide, size);
    }
    bytes_.upload();
    args.from = {bytes_.device(), row_stride, col_stride, number};
    args.rows = rows;
    args.cols = cols;
    args.padded = (cols + 31) / 32 * 32;
  }
  Launched run(const RowRule& rule, Element element, bool codes) {
    args.rule = rule;
    args.element = element;
    args.groups = row_groups(rule, args.padded);
    to_.resize(args.rows * args.padded * element_bytes(element));
    to_.poison();
    args.to = to_.device();
    scales_.resize(codes ? args.rows * args.groups : 0);
    if (codes) scales_.poison();
    args.scales = codes ? scales_.device() : nullptr;
    const TestStream stream;
    launch_rows(args, remembered_facts(0).warp, stream.get());
    synchronize(stream.get());
    return {decoded(element), scales_.download()};
  }
  // Rows with their padding.
  std::vector<float> padded(const std::vector<float>& rows) const {
    std::vector<float> all(static_cast<size_t>(args.rows * args.padded), 0.0f);
    for (int64_t r = 0; r < args.rows; ++r)
      std::copy_n(rows.begin() + r * cols_, cols_, all.begin() + r * args.padded);
    return all;
  }
  const std::vector<float>& numbers() const { return numbers_; }

  RowsArgs args;

 private:
  std::vector<float> decoded(Element element) const {
    const std::vector<unsigned char> bytes = to_.download();
    std::vector<float> all(static_cast<size_t>(args.rows * args.padded));
    for (size_t i = 0; i < all.size(); ++i) {
      uint16_t narrow = 0;
      if (element == Element::f32) {
        std::memcpy(&all[i], &bytes[4 * i], 4);
        continue;
      }
      std::memcpy(&narrow, &bytes[2 * i], 2);
      all[i] = bf16_to_f32(narrow);
    }
    return all;
  }
  int64_t cols_;
  std::vector<float> numbers_;
  DeviceArray<unsigned char> bytes_, to_;
  DeviceArray<float> scales_;
};

struct Shape {
  Number number;
  int64_t cols, row_gap, col_stride;
};
const Shape kShapes[] = {{Number::f32, 32, 0, 1},   {Number::f32, 33, 3, 1},
                         {Number::bf16, 256, 0, 1}, {Number::bf16, 96, 8, 1},
                         {Number::bf16, 45, 1, 2},  {Number::f16, 160, 0, 1},
                         {Number::f16, 1, 0, 1},    {Number::bf16, 2080, 0, 1}};

TEST(Rows, ConvertsAndPads) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(s.cols);
    Launch rows(s.number, 9, s.cols, s.row_gap, s.col_stride);
    expect_same(rows.run({}, Element::f32, false).numbers, rows.padded(rows.numbers()),
                rows.args.padded);
    if (s.number == Number::bf16)
      expect_same(rows.run({}, Element::bf16, false).numbers, rows.padded(rows.numbers()),
                  rows.args.padded);
  }
}

// The device leaves the same numbers as the quant methods; codes and scales stand for them.
TEST(Rows, QuantisesLikeTheQuantMethods) {
  for (const WordCase& c : kWords)
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(std::string(c.scheme) + " " + c.word + " " + std::to_string(s.cols));
      const RowRule rule = rule_of(c);
      Launch rows(s.number, 9, s.cols, s.row_gap, s.col_stride);
      const std::vector<float> want = rows.padded(remains(c, rows.numbers(), s.cols));
      DeviceArray<float> given;
      given.assign({scale_used(c)});
      if (rule.by_weight()) rows.args.input_scales = given.device();
      expect_same(rows.run(rule, Element::f32, false).numbers, want, rows.args.padded);
      if (!rule.has_codes()) continue;
      const Launched coded = rows.run(rule, Element::bf16, true);
      std::vector<float> got = coded.numbers;
      const int64_t group = rule.group == 0 ? rows.args.padded : rule.group;
      for (size_t i = 0; i < got.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / rows.args.padded;
        const auto col = static_cast<int64_t>(i) % rows.args.padded;
        if (!std::isfinite(got[i])) continue;
        got[i] *= coded.scales[static_cast<size_t>(row * rows.args.groups + col / group)];
        got[i] = std::clamp(got[i], -std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::max());
      }
      expect_same(got, want, rows.args.padded);
    }
}

// Rows by position: that of a slot's token, times the slot's weight, by the expert's own scale.
TEST(Rows, ByPosition) {
  constexpr int64_t kTokens = 9, kCols = 40;
  constexpr int32_t kTopK = 2;
  const std::vector<int32_t> slots = {17, 0, 3, 4, 5, 11, 2};
  const std::vector<int32_t> offsets = {0, 2, 2, 5, 7};  // expert 1 has none
  const std::vector<float> scales = {0.02f, 99.0f, 0.5f, 0.003f};
  std::vector<float> weights;
  for (int32_t slot = 0; slot < kTokens * kTopK; ++slot)
    weights.push_back(0.3f + 0.1f * static_cast<float>(slot));
  DeviceArray<int32_t> device_slots, device_offsets;
  DeviceArray<float> device_scales, device_weights;
  device_slots.assign(slots);
  device_offsets.assign(offsets);
  device_scales.assign(scales);
  device_weights.assign(weights);
  for (const WordCase& c :
       {WordCase{"", "none"}, WordCase{"fp8_e4m3fn.tensor.f32", "static", 1.0f},
        WordCase{"nvfp4.g16.e4m3fn", "nvfp4", 1.0f}, WordCase{"int8.channel.f32", "token"}})
    for (const bool weighted : {false, true}) {
      SCOPED_TRACE(std::string(c.word) + (weighted ? " weighted" : ""));
      Launch rows(Number::bf16, kTokens, kCols);
      const RowRule rule = rule_of(c);
      rows.args.rows = kTokens * kTopK;  // more than there are positions
      rows.args.by_position = true;
      rows.args.plan.slots = device_slots.device();
      rows.args.plan.offsets = device_offsets.device();
      rows.args.top_k = kTopK;
      rows.args.experts = 4;
      if (weighted) rows.args.weights = {device_weights.device(), kTopK, 1};
      if (rule.by_weight()) rows.args.input_scales = device_scales.device();
      Launched got = rows.run(rule, Element::f32, false);
      std::vector<float> want;
      for (size_t p = 0; p < slots.size(); ++p) {
        std::vector<float> row(rows.numbers().begin() + slots[p] / kTopK * kCols,
                               rows.numbers().begin() + (slots[p] / kTopK + 1) * kCols);
        for (float& x : row) x = weighted ? x * weights[static_cast<size_t>(slots[p])] : x;
        WordCase own = c;
        own.input_scale = !rule.by_weight() ? 0 : scales[p < 2 ? 0 : p < 5 ? 2 : 3];
        if (rule.quantises()) row = remains(own, row, kCols);
        row.resize(static_cast<size_t>(rows.args.padded), 0.0f);
        want.insert(want.end(), row.begin(), row.end());
      }
      const auto written = static_cast<std::ptrdiff_t>(want.size());
      for (auto x = got.numbers.begin() + written; x != got.numbers.end(); ++x)
        EXPECT_EQ(bits_of(*x), 0xffffffffu) << "a row without position was written";
      got.numbers.resize(want.size());
      expect_same(got.numbers, want, rows.args.padded);
    }
}

}  // namespace
}  // namespace moert::gpu
