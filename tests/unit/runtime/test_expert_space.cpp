// The space of the experts against plain loops: projections, norm, scale and bias, and how they load.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/expert_space.hpp"
#include "runtime/host_services.hpp"
#include "unit/runtime/pieces.hpp"

namespace moert::runtime {
namespace {

constexpr uint32_t kLatent = MOERT_LAYER_LATENT, kIn = MOERT_LAYER_NORM_IN,
                   kOut = MOERT_LAYER_NORM_OUT, kBias = MOERT_LAYER_OUTPUT_BIAS;
constexpr double kEps = 0.25;  // large enough to be missed

// Multiples of 1/16 below 4 in size: bf16 holds them as they are.
std::vector<float> numbers(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 127) - 63) / 16.0f;
  return values;
}

using SpaceRow = std::vector<double>;

SpaceRow times(const std::vector<float>& matrix, const SpaceRow& x) {
  SpaceRow y(matrix.size() / x.size());
  for (size_t r = 0; r < y.size(); ++r)
    for (size_t c = 0; c < x.size(); ++c)
      y[r] += static_cast<double>(matrix[r * x.size() + c]) * x[c];
  return y;
}

SpaceRow normed(SpaceRow x, const std::vector<float>& weight) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double length = std::sqrt(squares / static_cast<double>(x.size()) + kEps);
  for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] / length * static_cast<double>(weight[i]);
  return x;
}

struct SpaceCase {
  const char* name;
  uint32_t flags;
  uint32_t dtype = MOERT_DTYPE_F32;  // of weights and rows
  Stored::Way way = Stored::dense;
};
std::ostream& operator<<(std::ostream& out, const SpaceCase& c) { return out << c.name; }

class Space : public ::testing::TestWithParam<SpaceCase> {
 protected:
  static constexpr int64_t kHidden = 5, kTokens = 4;

  int64_t width() const { return has(kLatent) ? 3 : kHidden; }
  bool has(uint32_t flag) const { return (flags_ & flag) != 0; }
  moert_moe_layer_t layer() {
    problem_.struct_size = sizeof problem_;
    problem_.hidden_size = width();
    moert_moe_layer_t it{};
    it.struct_size = sizeof it;
    it.flags = flags_ | MOERT_LAYER_ZERO_EXPERTS;  // no matter of this class
    it.experts = &problem_;
    it.norm_eps = kEps;
    it.hidden_size = kHidden;
    return it;
  }
  ExpertSpace loaded() {
    ExpertSpace space(Host(services_.table()), layer());
    const auto load = [&](uint32_t part, const std::vector<float>& values, int64_t rows,
                          int64_t cols) {
      space.load(Stored(values, rows, cols, GetParam().dtype, GetParam().way).piece(part));
    };
    if (has(kLatent)) load(MOERT_PART_LATENT_DOWN, down_, width(), kHidden);
    if (has(kLatent)) load(MOERT_PART_LATENT_UP, up_, kHidden, width());
    if (has(kIn | kOut)) load(MOERT_PART_EXPERT_NORM, norm_, width(), 0);
    if (has(kBias)) load(MOERT_PART_OUTPUT_BIAS, bias_, kHidden, 0);
    space.expect_complete();
    return space;
  }

  HostServices services_{2, ignore_log};
  moert_moe_problem_t problem_{};
  const uint32_t flags_ = GetParam().flags;
  const std::vector<float> down_ = numbers(static_cast<size_t>(width() * kHidden), 1);
  const std::vector<float> up_ = numbers(static_cast<size_t>(kHidden * width()), 2);
  const std::vector<float> norm_ = numbers(static_cast<size_t>(width()), 3);
  const std::vector<float> bias_ = numbers(kHidden, 4);
};

TEST_P(Space, WhatExpertsRead) {
  const ExpertSpace space = loaded();
  EXPECT_EQ(space.has_input(), has(kLatent | kIn));
  EXPECT_EQ(space.width(), width());
  EXPECT_EQ(space.hidden_size(), kHidden);
  if (!space.has_input()) return;
  const std::vector<float> values = numbers(kTokens * kHidden, 5);
  const Stored rows(values, kTokens, kHidden, GetParam().dtype, GetParam().way);
  const Stored inner(std::vector<float>(static_cast<size_t>(kTokens * width()), -99), kTokens,
                     width(), GetParam().dtype);
  std::vector<double> scratch(static_cast<size_t>(2 * space.scratch()), NAN);  // of two workers
  space.enter(*rows.tensor(), *inner.tensor(), scratch.data());
  for (int64_t t = 0; t < kTokens; ++t) {
    SpaceRow x(values.begin() + t * kHidden, values.begin() + (t + 1) * kHidden);
    if (has(kLatent)) x = times(down_, x);
    if (has(kIn)) x = normed(x, norm_);
    for (int64_t i = 0; i < width(); ++i) {
      const double want = x[static_cast<size_t>(i)];
      const double step = GetParam().dtype == MOERT_DTYPE_BF16 ? 0x1p-8 : 0x1p-23;
      EXPECT_NEAR(static_cast<double>(read_f32(*inner.tensor(), t * width() + i)), want,
                  step * std::abs(want) + 1e-12)
          << "token " << t << ", column " << i;
    }
  }
}

TEST_P(Space, WhatTheyGave) {
  const ExpertSpace space = loaded();
  EXPECT_EQ(space.has_output(), flags_ != 0);
  const std::vector<float> given = numbers(static_cast<size_t>(width()), 6);
  SpaceRow want(given.begin(), given.end());
  if (has(kOut)) want = normed(want, norm_);
  if (has(kLatent)) want = times(up_, want);
  for (size_t h = 0; h < want.size(); ++h)
    want[h] = 1.5 * want[h] + (has(kBias) ? static_cast<double>(bias_[h]) : 0);
  SpaceRow scratch(static_cast<size_t>(width()), NAN), row(kHidden, NAN);
  space.leave(given.data(), 1.5, scratch.data(), row.data());
  for (size_t h = 0; h < row.size(); ++h) EXPECT_NEAR(row[h], want[h], 1e-12) << "column " << h;
}

INSTANTIATE_TEST_SUITE_P(
    ExpertSpace, Space,
    ::testing::Values(
        SpaceCase{"plain", 0}, SpaceCase{"latent", kLatent}, SpaceCase{"norm_in", kIn},
        SpaceCase{"norm_out", kOut}, SpaceCase{"bias", kBias},
        SpaceCase{"latent_norm_in", kLatent | kIn}, SpaceCase{"latent_norm_out", kLatent | kOut},
        SpaceCase{"all", kLatent | kOut | kBias},
        SpaceCase{"all_spread", kLatent | kIn | kBias, MOERT_DTYPE_F32, Stored::spread},
        SpaceCase{"all_bf16", kLatent | kIn | kBias, MOERT_DTYPE_BF16},
        SpaceCase{"out_bf16_spread", kLatent | kOut | kBias, MOERT_DTYPE_BF16, Stored::spread}),
    [](const auto& test) { return std::string(test.param.name); });

// --- loading ------------------------------------------------------------------------------------

class SpaceLoading : public ::testing::Test {
 protected:
  ExpertSpace space(uint32_t flags, int64_t width = 3, int64_t hidden = 5) {
    problem_.hidden_size = width;
    moert_moe_layer_t layer{};
    layer.flags = flags;
    layer.experts = &problem_;
    layer.hidden_size = hidden;
    return {Host(services_.table()), layer};
  }
  static void expect(moert_code_t code, const std::string& text,
                     const std::function<void()>& body) {
    try {
      body();
      ADD_FAILURE() << "no error; expected: " << text;
    } catch (const PluginError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }

  HostServices services_{1, ignore_log};
  moert_moe_problem_t problem_{};
  const Stored down_{numbers(15, 1), 3, 5}, up_{numbers(15, 2), 5, 3}, norm_{numbers(3, 3), 3, 0},
      bias_{numbers(5, 4), 5, 0};
};

TEST_F(SpaceLoading, EveryTensorIsMissedByName) {
  const std::pair<uint32_t, const Stored*> all[] = {{MOERT_PART_LATENT_DOWN, &down_},
                                                    {MOERT_PART_LATENT_UP, &up_},
                                                    {MOERT_PART_EXPERT_NORM, &norm_},
                                                    {MOERT_PART_OUTPUT_BIAS, &bias_}};
  const char* const names[] = {"latent down", "latent up", "expert norm", "output bias"};
  for (size_t left_out = 0; left_out < std::size(all); ++left_out) {
    ExpertSpace it = space(kLatent | kIn | kBias);
    for (size_t i = std::size(all); i-- > 0;)  // in any order
      if (i != left_out) it.load(all[i].second->piece(all[i].first));
    expect(MOERT_FAILED_PRECONDITION, std::string(names[left_out]) + " was never loaded",
           [&] { it.expect_complete(); });
    it.load(all[left_out].second->piece(all[left_out].first));
    EXPECT_NO_THROW(it.expect_complete());
    expect(MOERT_ALREADY_EXISTS, std::string(names[left_out]) + " was loaded before",
           [&] { it.load(all[left_out].second->piece(all[left_out].first)); });
  }
}

TEST_F(SpaceLoading, OtherShapes) {
  ExpertSpace it = space(kLatent | kOut | kBias);
  const Stored four(numbers(4, 1), 4, 0);
  expect(MOERT_DATA_LOSS, "latent down is f32 [5, 3], expected shape [3, 5]",
         [&] { it.load(up_.piece(MOERT_PART_LATENT_DOWN)); });
  expect(MOERT_DATA_LOSS, "latent up is f32 [3, 5], expected shape [5, 3]",
         [&] { it.load(down_.piece(MOERT_PART_LATENT_UP)); });
  expect(MOERT_INVALID_ARGUMENT, "expert norm is f32 [5], expected f32 [3]",
         [&] { it.load(bias_.piece(MOERT_PART_EXPERT_NORM)); });
  expect(MOERT_INVALID_ARGUMENT, "output bias is f32 [4], expected f32 [5]",
         [&] { it.load(four.piece(MOERT_PART_OUTPUT_BIAS)); });
  expect(MOERT_INVALID_ARGUMENT, "output bias is f32 [3, 5]",
         [&] { it.load(down_.piece(MOERT_PART_OUTPUT_BIAS)); });
  // What was refused was not loaded.
  EXPECT_NO_THROW(it.load(down_.piece(MOERT_PART_LATENT_DOWN)));
  EXPECT_NO_THROW(it.load(norm_.piece(MOERT_PART_EXPERT_NORM)));
}

TEST_F(SpaceLoading, WhatTheLayerHasNot) {
  ExpertSpace it = space(kBias, 5);
  expect(MOERT_INVALID_ARGUMENT, "the layer has no latent down",
         [&] { it.load(down_.piece(MOERT_PART_LATENT_DOWN)); });
  expect(MOERT_INVALID_ARGUMENT, "the layer has no expert norm",
         [&] { it.load(norm_.piece(MOERT_PART_EXPERT_NORM)); });
  for (const uint32_t part : {uint32_t{MOERT_PART_DOWN}, uint32_t{3}, uint32_t{8}, UINT32_MAX})
    expect(MOERT_INVALID_ARGUMENT, "part " + std::to_string(part) + " is no tensor of a layer",
           [&] { it.load(bias_.piece(part)); });
}

TEST_F(SpaceLoading, PiecesThatCannotBeRead) {
  ExpertSpace it = space(kLatent | kIn);
  moert_piece_t piece = down_.piece(MOERT_PART_LATENT_DOWN);
  piece.quant = nullptr;
  expect(MOERT_INVALID_ARGUMENT, "latent down comes without a quant method",
         [&] { it.load(piece); });
  piece = down_.piece(MOERT_PART_LATENT_DOWN);
  piece.tensor = nullptr;
  expect(MOERT_INVALID_ARGUMENT, "latent down is missing", [&] { it.load(piece); });
  std::vector<int32_t> whole(15);
  const TensorView matrix(whole.data(), MOERT_DTYPE_I32, {3, 5});
  const TensorView vector(whole.data(), MOERT_DTYPE_I32, {3});
  piece.tensor = matrix;  // the quant method's own error, with the tensor's name before it
  EXPECT_THROW(it.load(piece), PluginError);
  piece = norm_.piece(MOERT_PART_EXPERT_NORM);
  piece.tensor = vector;
  EXPECT_THROW(it.load(piece), PluginError);
}

// A matrix of one row is a matrix.
TEST_F(SpaceLoading, WidthsOfOne) {
  ExpertSpace it = space(kLatent | kOut, 1, 2);
  const Stored down({3, 5}, 1, 2), up({7, -1}, 2, 1), norm({2}, 1, 0);
  it.load(down.piece(MOERT_PART_LATENT_DOWN));
  it.load(up.piece(MOERT_PART_LATENT_UP));
  it.load(norm.piece(MOERT_PART_EXPERT_NORM));
  it.expect_complete();
  const Stored row({1, 2}, 1, 2), inner({-99}, 1, 1);
  std::vector<double> scratch(static_cast<size_t>(it.scratch()), NAN), out(2, NAN);
  it.enter(*row.tensor(), *inner.tensor(), scratch.data());
  EXPECT_EQ(read_f32(*inner.tensor(), 0), 3 * 1 + 5 * 2);
  const float given = -4;  // its norm is -1, times 2
  it.leave(&given, 1, scratch.data(), out.data());
  EXPECT_EQ(out, (SpaceRow{-14, 2}));
  // A layer of width 1 around wider experts.
  ExpertSpace narrow = space(kLatent | kBias, 2, 1);
  EXPECT_NO_THROW(narrow.load(up.piece(MOERT_PART_LATENT_DOWN)));
  EXPECT_NO_THROW(narrow.load(down.piece(MOERT_PART_LATENT_UP)));
  EXPECT_NO_THROW(narrow.load(norm.piece(MOERT_PART_OUTPUT_BIAS)));
}

TEST_F(SpaceLoading, AWidthOf0IsThatOfTheExperts) {
  EXPECT_EQ(space(kBias, 3, 0).hidden_size(), 3);
}

TEST_F(SpaceLoading, RolesAndFlagsThatNoSuchTensorHas) {
  ExpertSpace it = space(kLatent);
  moert_piece_t piece = down_.piece(MOERT_PART_LATENT_DOWN);
  piece.role = MOERT_ROLE_BIAS;
  expect(MOERT_INVALID_ARGUMENT, "latent down has one role", [&] { it.load(piece); });
  piece = down_.piece(MOERT_PART_LATENT_DOWN);
  piece.flags = 1;
  expect(MOERT_UNIMPLEMENTED, "piece", [&] { it.load(piece); });
}

}  // namespace
}  // namespace moert::runtime
