// Where the scale of an element lies: by definition, and as a window over one expert's half.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include "unit/weights/support.hpp"
#include "weights/scale_window.hpp"

namespace moert::weights {
namespace {

int64_t blocks(int64_t size, int64_t block) { return block == 0 ? 1 : (size + block - 1) / block; }

// A weight's tensor drawn by chance: of `experts` experts, each of one or two halves [out, in].
struct Drawn {
  spec::TensorRule rule;
  int64_t out = 0, in = 0, experts = 1;  // out: of one half
  BlockSize block;

  explicit Drawn(uint32_t seed) {
    std::mt19937 random(seed);
    const auto number = [&random](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    rule.parts.assign(static_cast<size_t>(number(1, 2)), 0);
    rule.stacked = number(0, 2) != 0;
    rule.flat = rule.stacked && number(0, 2) == 0;
    rule.transposed = number(0, 1) != 0;
    rule.interleaved = halves() == 2 && number(0, 1) != 0;
    out = number(1, 9);
    in = number(1, 9);
    experts = rule.stacked ? number(1, 4) : 1;
    block = {number(0, 4), number(0, 4)};
  }
  int64_t halves() const { return static_cast<int64_t>(rule.parts.size()); }
  ScaleGrid grid() const { return {&rule, halves() * out, in, experts, block}; }
  // The matrix on which blocks are laid: an expert's, or all of a flat tensor.
  int64_t rows() const { return halves() * out * (rule.flat && !rule.transposed ? experts : 1); }
  int64_t cols() const { return in * (rule.flat && rule.transposed ? experts : 1); }
  std::vector<int64_t> scale_shape() const {
    std::vector<int64_t> shape = {blocks(rows(), block.rows), blocks(cols(), block.cols)};
    if (rule.transposed) std::swap(shape[0], shape[1]);
    if (rule.stacked && !rule.flat) shape.insert(shape.begin(), experts);
    return shape;
  }
  // The place of an element's scale in the dense tensor.
  int64_t by_definition(int64_t e, int64_t half, int64_t r, int64_t c) const {
    int64_t row = rule.interleaved ? r * halves() + half : half * out + r, col = c;
    if (rule.flat) (rule.transposed ? col : row) += e * (rule.transposed ? in : halves() * out);
    const int64_t down = block.rows == 0 ? 0 : row / block.rows;
    const int64_t right = block.cols == 0 ? 0 : col / block.cols;
    const int64_t tall = blocks(rows(), block.rows), wide = blocks(cols(), block.cols);
    const int64_t at = rule.transposed ? right * tall + down : down * wide + right;
    return at + (rule.stacked && !rule.flat ? e * tall * wide : 0);
  }
  // Blocks end where halves and experts end.
  bool is_clean() const {
    const bool across = rule.flat && experts > 1;
    const int64_t r = block.rows, c = block.cols;
    if (r > 1 && (rule.interleaved || (halves() == 2 && out % r != 0))) return false;
    if (r > 1 && across && !rule.transposed && halves() * out % r != 0) return false;
    return !(c > 1 && across && rule.transposed && in % c != 0);
  }
  std::string text() const {
    return std::to_string(experts) + " experts x " + std::to_string(halves()) + " halves of " +
           std::to_string(out) + " x " + std::to_string(in) + ", blocks " +
           std::to_string(block.rows) + " x " + std::to_string(block.cols) +
           (rule.stacked ? " stacked" : "") + (rule.flat ? " flat" : "") +
           (rule.transposed ? " transposed" : "") + (rule.interleaved ? " interleaved" : "");
  }
};

void expect_window(const Drawn& d, int64_t e, int64_t half) {
  Window window;
  std::string problem;
  ASSERT_TRUE(scale_window(d.scale_shape(), d.grid(), e, half, &window, &problem)) << problem;
  ASSERT_EQ(window.shape,
            (std::vector<int64_t>{blocks(d.out, d.block.rows), blocks(d.in, d.block.cols)}));
  for (int64_t r = 0; r < d.out; ++r)
    for (int64_t c = 0; c < d.in; ++c) {
      const int64_t down = d.block.rows == 0 ? 0 : r / d.block.rows;
      const int64_t right = d.block.cols == 0 ? 0 : c / d.block.cols;
      ASSERT_EQ(window.first + down * window.strides[0] + right * window.strides[1],
                d.by_definition(e, half, r, c))
          << "expert " << e << ", half " << half << ", [" << r << ", " << c << "]";
    }
}

TEST(ScaleWindow, IsTheDefinitionForEveryElementOfDrawnLayouts) {
  int clean = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    const Drawn d(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + d.text());
    bool fits = true;
    Window window;
    std::string problem;
    for (int64_t e = 0; e < d.experts; ++e)
      for (int64_t half = 0; half < d.halves(); ++half)
        fits = scale_window(d.scale_shape(), d.grid(), e, half, &window, &problem) && fits;
    ASSERT_EQ(fits, d.is_clean()) << problem;
    if (!fits) {
      EXPECT_NE(problem.find("expected blocks that end where"), std::string::npos) << problem;
      continue;
    }
    ++clean;
    for (int64_t e = 0; e < d.experts; ++e)
      for (int64_t half = 0; half < d.halves(); ++half)
        ASSERT_NO_FATAL_FAILURE(expect_window(d, e, half));
  }
  EXPECT_GT(clean, 1500);
}

TEST(ScaleWindow, AnotherShapeIsRefusedWithTheOneThatFits) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Drawn d(seed);
    std::vector<int64_t> shape = d.scale_shape();
    shape[seed % shape.size()] += 7;
    Window window;
    std::string problem;
    EXPECT_FALSE(scale_window(shape, d.grid(), 0, 0, &window, &problem)) << d.text();
    const std::vector<int64_t> wanted = d.scale_shape();
    EXPECT_EQ(problem,
              "expected " + shape_text(wanted.data(), static_cast<uint32_t>(wanted.size())))
        << d.text();
  }
}

// One scale for a tensor, an expert or a half, in the shapes that savers give them: what is read for
// expert 2 of 3, second half.
struct SingleCase {
  const char* name;
  bool stacked;
  size_t halves;
  std::vector<int64_t> shape;
  int64_t at;  // -1: refused
};
void PrintTo(const SingleCase& tested, std::ostream* out) { *out << tested.name; }

class SingleScales : public ::testing::TestWithParam<SingleCase> {};

TEST_P(SingleScales, AreFoundInEveryShape) {
  const SingleCase& tested = GetParam();
  spec::TensorRule rule;
  rule.stacked = tested.stacked;
  rule.parts.assign(tested.halves, 0);
  const auto halves = static_cast<int64_t>(tested.halves);
  const ScaleGrid grid = {&rule, 4 * halves, 6, tested.stacked ? 3 : 1, {0, 0}};
  Window window;
  std::string problem;
  const bool fits =
      scale_window(tested.shape, grid, tested.stacked ? 2 : 0, halves - 1, &window, &problem);
  ASSERT_EQ(fits, tested.at >= 0) << problem;
  if (!fits) return;
  EXPECT_EQ(window.shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(window.first, tested.at);
}

INSTANTIATE_TEST_SUITE_P(
    ScaleWindow, SingleScales,
    ::testing::Values(SingleCase{"of_all_without_a_dimension", true, 2, {}, 0},
                      SingleCase{"of_all", true, 2, {1}, 0},
                      SingleCase{"of_experts", true, 2, {3}, 2},
                      SingleCase{"of_experts_as_a_column", true, 2, {3, 1}, 2},
                      SingleCase{"of_experts_as_blocks", true, 2, {3, 1, 1}, 2},
                      SingleCase{"of_halves", true, 2, {3, 2}, 5},
                      SingleCase{"of_halves_as_blocks", true, 2, {3, 2, 1}, 5},
                      SingleCase{"of_halves_where_there_is_one", true, 1, {3, 2}, -1},
                      SingleCase{"of_too_many_experts", true, 2, {4}, -1},
                      SingleCase{"turned", true, 2, {1, 3}, -1},
                      SingleCase{"halves_first", true, 2, {2, 3}, -1},
                      SingleCase{"of_one_expert_without_a_dimension", false, 1, {}, 0},
                      SingleCase{"of_one_expert", false, 1, {1}, 0},
                      SingleCase{"of_one_expert_as_a_block", false, 1, {1, 1}, 0},
                      SingleCase{"of_one_experts_halves", false, 2, {2}, 1},
                      SingleCase{"of_two_where_there_is_one", false, 1, {2}, -1},
                      SingleCase{"of_nothing", false, 1, {0}, -1}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace moert::weights
