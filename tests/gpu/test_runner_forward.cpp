// The runner's stages against plain loops: latent rows, norms, zero experts, shared experts, padding, graphs.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>

#include "gpu/faults.hpp"
#include "runner_rig.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kZero = MOERT_LAYER_ZERO_EXPERTS, kLatent = MOERT_LAYER_LATENT;
constexpr uint32_t kNormIn = MOERT_LAYER_NORM_IN, kNormOut = MOERT_LAYER_NORM_OUT;
constexpr uint32_t kOutputBias = MOERT_LAYER_OUTPUT_BIAS;
constexpr uint32_t kSharedScale = MOERT_LAYER_SHARED_SCALE;

const RunnerLayer kForwardCases[] = {
    {"plain"},
    {"plain_bf16", 0, false, 1, 16, 16, MOERT_DTYPE_BF16},
    {"scaled", 0, false, 2.5},
    {"shared", 0, true, 0.5},
    {"averaged", kSharedScale, true, 0.5, 10, 10, MOERT_DTYPE_F32, 0.5},
    {"zero", kZero, false, 2, 10, 10, MOERT_DTYPE_F32, 0, 2},
    {"zero_shared_bf16", kZero, true, 2, 8, 8, MOERT_DTYPE_BF16, 0, 3},
    {"norm_in", kNormIn},
    {"norm_in_bf16", kNormIn, true, 1, 24, 24, MOERT_DTYPE_BF16},
    {"norm_out", kNormOut, false, 3},
    {"bias", kOutputBias, false, 2},
    {"latent", kLatent, false, 1, 10, 6},
    {"latent_norm_in_f16", kLatent | kNormIn, true, 1.5, 24, 16, MOERT_DTYPE_F16},
    {"latent_norm_out", kLatent | kNormOut, true, 1.5, 16, 11},
    {"everything", kLatent | kNormOut | kOutputBias | kZero | kSharedScale, true, 1.5, 19, 8,
     MOERT_DTYPE_F32, 0.25, 2},
};

class RunnerForward : public testing::TestWithParam<RunnerLayer> {
 protected:
  using Floats = std::vector<float>;
  using Row = std::vector<double>;

  RunnerForward() : c_(GetParam()), rig_(c_) {}
  void TearDown() override { EXPECT_EQ(take_fault(0), ""); }

  Floats uniform(int64_t count) {
    Floats values(static_cast<size_t>(count));
    for (float& x : values) x = std::uniform_real_distribution<float>(-1, 1)(random_);
    return values;
  }
  void load() {
    ASSERT_EQ(rig_.created(), MOERT_OK) << rig_.error()->message;
    down_ = uniform(c_.width * c_.hidden);
    up_ = uniform(c_.width * c_.hidden);
    norm_ = uniform(c_.width);
    bias_ = uniform(c_.hidden);
    if (c_.has(kLatent)) rig_.load(MOERT_PART_LATENT_DOWN, down_, c_.width, c_.hidden);
    if (c_.has(kLatent)) rig_.load(MOERT_PART_LATENT_UP, up_, c_.hidden, c_.width);
    if (c_.has(kNormIn | kNormOut)) rig_.load(MOERT_PART_EXPERT_NORM, norm_, c_.width, 0);
    if (c_.has(kOutputBias)) rig_.load(MOERT_PART_OUTPUT_BIAS, bias_, c_.hidden, 0);
    rig_.finish();
  }

  // As the rows' type keeps it.
  float kept(double value) const {
    std::byte memory[8];
    const TensorView one(memory, c_.dtype, {1});
    write_f32(*one.get(), 0, static_cast<float>(value));
    return read_f32(*one.get(), 0);
  }
  static Row times(const Floats& matrix, const Row& x) {
    Row y(matrix.size() / x.size(), 0.0);
    for (size_t i = 0; i < matrix.size(); ++i)
      y[i / x.size()] += static_cast<double>(matrix[i]) * x[i % x.size()];
    return y;
  }
  Row normed(Row z) const {
    double squares = 0;
    for (const double v : z) squares += v * v;
    for (size_t i = 0; i < z.size(); ++i)
      z[i] = z[i] * static_cast<double>(norm_[i]) /
             std::sqrt(squares / static_cast<double>(z.size()) + 0.25);
    return z;
  }
  // docs/numerics.md, "The layer"; ids are logical and -1 in rows without experts.
  Row want(const Floats& hidden, const std::vector<int32_t>& ids, int64_t t) const {
    const auto first = hidden.begin() + t * c_.hidden;
    const Row x(first, first + c_.hidden);
    Row z = c_.has(kLatent) ? times(down_, x) : x;
    if (c_.has(kNormIn)) z = normed(z);
    const double weights[] = {0.75, 0.25};
    double factor = 0;
    double zero = 0;
    for (size_t j = 0; j < 2; ++j) {
      const int32_t id = ids[static_cast<size_t>(t) * 2 + j];
      if (id >= kExperts) zero += c_.output_scale * weights[j];
      if (id >= 0 && id < kExperts) factor += weights[j] * (id + 1);
    }
    Row r;
    for (const double v : z)
      r.push_back(static_cast<double>(static_cast<float>(factor * static_cast<double>(kept(v)))));
    if (c_.has(kNormOut)) r = normed(r);
    if (c_.has(kLatent)) r = times(up_, r);
    for (size_t h = 0; h < r.size(); ++h) {
      r[h] *= c_.output_scale;
      if (c_.has(kOutputBias)) r[h] += static_cast<double>(bias_[h]);
      if (c_.shared)
        r[h] += (c_.has(kSharedScale) ? c_.shared_scale : 1) * static_cast<double>(100 + t);
      r[h] += zero * x[h];
    }
    return r;
  }
  void expect_rows(const Floats& got, const Floats& hidden, const std::vector<int32_t>& ids,
                   const std::vector<unsigned char>& valid) const {
    const double unit = c_.dtype == MOERT_DTYPE_F32 ? 1e-6 : 0x1p-8;
    for (int64_t t = 0; t < static_cast<int64_t>(ids.size()) / kSlots; ++t) {
      const Row wanted = want(hidden, ids, t);
      for (size_t h = 0; h < wanted.size(); ++h) {
        const bool padded = !valid.empty() && valid[static_cast<size_t>(t)] == 0;
        const double value = padded ? 0 : wanted[h];
        const auto found = static_cast<double>(got[static_cast<size_t>(t * c_.hidden) + h]);
        EXPECT_TRUE(std::fabs(found - value) <= (padded ? 0 : unit * (1 + std::fabs(value))))
            << "token " << t << ", column " << h << ": " << found << ", want " << value;
      }
    }
  }

  RunnerLayer c_;
  RunnerRig rig_;
  std::mt19937_64 random_{20261201};
  Floats down_, up_, norm_, bias_;
};

TEST_P(RunnerForward, FollowsTheStages) {
  load();
  const int64_t tokens = 6;
  Floats hidden = uniform(tokens * c_.hidden);
  for (float& x : hidden) x = kept(static_cast<double>(x));
  const auto last = static_cast<int32_t>(rig_.ids() - 1);
  const std::vector<int32_t> ids = {0, 1, 3, last, last, 2, -1, -1, 2, 3, 1, 0};
  const std::vector<unsigned char> valid = {1, 1, 1, 1, 0, 1};
  RunnerRig::Batch batch;
  rig_.prepare(batch, hidden, ids, valid);
  const TestStream stream;
  ASSERT_EQ(rig_.forward(batch, stream.get()), MOERT_OK) << rig_.error()->message;
  synchronize(stream.get());
  expect_rows(rig_.output(batch), hidden, ids, valid);
  std::vector<int32_t> masked = ids;
  masked[8] = masked[9] = -1;
  EXPECT_EQ(batch.ids.download(), masked);
  const std::vector<float> weights = batch.weights.download();
  EXPECT_EQ(weights[8], 0);
  EXPECT_EQ(weights[9], 0);
  EXPECT_EQ(weights[10], 0.75f);
  EXPECT_EQ(batch.logits.download()[0], 7);
  std::vector<int64_t> counts(static_cast<size_t>(rig_.ids()), 0);
  for (const int32_t id : masked)
    if (id >= 0) ++counts[static_cast<size_t>(id)];
  EXPECT_EQ(rig_.statistics(true), counts);
  EXPECT_EQ(rig_.statistics(false), std::vector<int64_t>(counts.size(), 0));
}

// What stands in a padded row is nobody's: stale ids and tokens that no expert and no table has are no fault, called or
// by a graph, whose marks may be others than when it was recorded.
TEST_P(RunnerForward, StaleNumbersOfPaddedRowsAreNoFault) {
  load();
  Floats hidden = uniform(4 * c_.hidden);
  for (float& x : hidden) x = kept(static_cast<double>(x));
  const std::vector<int32_t> good = {0, 1, 2, 3, 1, 2, 3, 0};
  const std::vector<std::vector<int32_t>> stale = {{0, 1, 77, -5, 1, 2, 3, 0},
                                                   {INT32_MAX, INT32_MIN, 2, 3, 1, 2, 9, 9}};
  const std::vector<std::vector<int64_t>> tokens = {{5, INT64_MIN, 0, 99}, {100, 1, -1, -2}};
  const std::vector<std::vector<unsigned char>> valid = {{1, 0, 1, 1}, {0, 1, 1, 0}};
  RunnerRig::Batch batch;
  rig_.prepare(batch, hidden, stale[0], valid[0]);
  batch.token_ids.assign(tokens[0]);
  const TestStream stream;
  const auto expect = [&](size_t i) {
    synchronize(stream.get());
    EXPECT_EQ(take_fault(0), "") << i;
    std::vector<int32_t> want = good;
    for (size_t slot = 0; slot < want.size(); ++slot)
      if (valid[i][slot / 2] == 0) want[slot] = -1;
    EXPECT_EQ(batch.ids.download(), want) << i;
    expect_rows(rig_.output(batch), hidden, good, valid[i]);
  };
  ASSERT_EQ(rig_.forward(batch, stream.get()), MOERT_OK) << rig_.error()->message;
  expect(0);
  begin_graph(stream.get());
  const moert_code_t code = rig_.forward(batch, stream.get());
  Graph graph = end_graph(stream.get());
  ASSERT_EQ(code, MOERT_OK) << rig_.error()->message;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    std::copy(stale[i].begin(), stale[i].end(), batch.forced.host());
    std::copy(tokens[i].begin(), tokens[i].end(), batch.token_ids.host());
    std::copy(valid[i].begin(), valid[i].end(), batch.valid.host());
    batch.forced.upload();
    batch.token_ids.upload();
    batch.valid.upload();
    launch_graph(stream.get(), graph);
    expect(i);
  }
  destroy_graph(graph);
}

// Rows that are tokens are told as they are.
TEST_P(RunnerForward, WrongNumbersOfTokensAreStillFaults) {
  load();
  const Floats hidden = uniform(2 * c_.hidden);
  const TestStream stream;
  for (const bool by_token : {false, true}) {
    RunnerRig::Batch batch;
    rig_.prepare(batch, hidden, {0, 1, 2, by_token ? 3 : -7}, {0, 1});
    batch.token_ids.assign({1, by_token ? 100 : 2});
    ASSERT_EQ(rig_.forward(batch, stream.get()), MOERT_OK) << rig_.error()->message;
    synchronize(stream.get());
    const std::string fault = take_fault(0);
    EXPECT_NE(fault.find(by_token ? "row 1 has 100" : "row 1 has -7"), std::string::npos) << fault;
  }
}

// Rows do not see the batch: 40 of them take the large tiles, 1 the small ones.
TEST_P(RunnerForward, GivesARowTheSameBitsInAnyBatch) {
  load();
  const int64_t tokens = 40;
  const Floats hidden = uniform(tokens * c_.hidden);
  const TestStream stream;
  const auto run = [&](const Floats& rows, const std::vector<int32_t>& ids) {
    RunnerRig::Batch batch;
    rig_.prepare(batch, rows, ids, {});
    EXPECT_EQ(rig_.forward(batch, stream.get()), MOERT_OK) << rig_.error()->message;
    synchronize(stream.get());
    return rig_.output(batch);
  };
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < tokens * 2; ++t) ids.push_back(static_cast<int32_t>(t % rig_.ids()));
  const Floats whole = run(hidden, ids);
  const Floats one = run({hidden.begin(), hidden.begin() + c_.hidden}, {ids[0], ids[1]});
  EXPECT_EQ(std::memcmp(one.data(), whole.data(), one.size() * sizeof(float)), 0);
  EXPECT_TRUE(run({}, {}).empty());
}

// Captured once, played for other rows; every play counts.
TEST_P(RunnerForward, CanBeCaptured) {
  load();
  Floats hidden = uniform(3 * c_.hidden);
  for (float& x : hidden) x = kept(static_cast<double>(x));
  const std::vector<int32_t> ids = {0, 1, 1, 2, 2, 3};
  RunnerRig::Batch batch;
  rig_.prepare(batch, Floats(hidden.size(), 0.0f), {}, {});
  const TestStream stream;
  begin_graph(stream.get());
  const moert_code_t code = rig_.forward(batch, stream.get());
  Graph graph = end_graph(stream.get());
  ASSERT_EQ(code, MOERT_OK) << rig_.error()->message;
  const int64_t count = static_cast<int64_t>(hidden.size());
  const TensorView rows(batch.hidden.host(), c_.dtype, {count});
  for (int64_t i = 0; i < count; ++i) write_f32(*rows.get(), i, hidden[static_cast<size_t>(i)]);
  batch.hidden.upload();
  launch_graph(stream.get(), graph);
  launch_graph(stream.get(), graph);
  synchronize(stream.get());
  destroy_graph(graph);
  expect_rows(rig_.output(batch), hidden, ids, {});
  std::vector<int64_t> counts(static_cast<size_t>(rig_.ids()), 0);
  for (const int32_t id : ids) counts[static_cast<size_t>(id)] += 2;
  EXPECT_EQ(rig_.statistics(false), counts);
}

INSTANTIATE_TEST_SUITE_P(Runner, RunnerForward, testing::ValuesIn(kForwardCases),
                         [](const auto& tested) { return std::string(tested.param.label); });

}  // namespace
}  // namespace moert::gpu
