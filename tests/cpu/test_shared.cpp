// The shared experts of cpu.simd: its routed expert's bits for a token that takes one, and the oracle's numbers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <moert/abi/shared_experts.h>

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "cpu/rig.hpp"
#include "moert/sdk/tensor.hpp"

namespace moert::cpu::testing {
namespace {

constexpr uint32_t kF32 = MOERT_DTYPE_F32;
constexpr uint32_t kF16 = MOERT_DTYPE_F16;
constexpr uint32_t kBf16 = MOERT_DTYPE_BF16;
constexpr uint32_t kBias = MOERT_PROBLEM_BIAS;
constexpr uint32_t kPlain = MOERT_PROBLEM_NON_GATED;

moert_activation_t act(const char* name, double alpha = 0, double beta = 0, double limit = 0) {
  return {sizeof(moert_activation_t), 0, name, alpha, beta, limit};
}

struct SharedCase {
  Case mlp;  // of one expert
  bool sigmoid = false;
};
const SharedCase kCases[] = {
    {{"bf16", {96, 70, 1, 1}, kBf16, "bf16", kBf16}},
    {{"bf16_sigmoid", {67, 33, 1, 1}, kBf16, "bf16", kF32}, true},
    {{"one", {1, 1, 1, 1}, kF32, "f32", kF32}, true},
    {{"f32", {65, 64, 1, 1}, kF32, "f32", kF32}},
    {{"f32_rows_of_bf16", {67, 45, 1, 1}, kF32, "bf16", kF32}, true},
    {{"f16", {65, 49, 1, 1}, kF16, "f16", kF16}, true},
    {{"bias", {71, 33, 1, 1}, kF32, "f32", kF32, act("swigluoai", 1.702, 1, 0.75), kBias}},
    {{"non_gated", {40, 65, 1, 1}, kBf16, "bf16", kF32, act("relu2"), kPlain}, true},
    {{"situ", {33, 40, 1, 1}, kBf16, "bf16", kF32, act("situ", 0.75, 1.5)}},
    {{"mxfp4", {96, 160, 1, 1}, kBf16, kMxfp4, kBf16}, true},
    {{"fp8", {96, 160, 1, 1}, kBf16, kFp8Blocks, kBf16}, true},
    {{"fp8_token", {96, 160, 1, 1}, kBf16, kFp8Blocks, kF32, act("silu"), 0, "token"}},
    {{"int8_static", {65, 70, 1, 1}, kF32, "int8.tensor.f32", kF32, act("silu"), 0, "static"},
     true},
};
void PrintTo(const SharedCase& c, std::ostream* out) { *out << c.mlp.name; }

constexpr int64_t kTokens[] = {0, 1, 7, 64, 260};

template <class F>
void must(F f) {
  moert_error_t error{};
  error.struct_size = sizeof error;
  if (f(&error) != MOERT_OK) throw std::runtime_error(error.message);
}

moert_shared_problem_t shared_problem_of(const SharedCase& c) {
  const moert_moe_problem_t one = problem_of(c.mlp);
  moert_shared_problem_t p{};
  p.struct_size = sizeof p;
  if ((one.flags & MOERT_PROBLEM_NON_GATED) != 0) p.flags |= MOERT_SHARED_NON_GATED;
  if ((one.flags & MOERT_PROBLEM_BIAS) != 0) p.flags |= MOERT_SHARED_BIAS;
  if (c.sigmoid) p.flags |= MOERT_SHARED_SIGMOID_GATE;
  p.device = one.device;
  p.max_tokens = one.max_tokens;
  p.hidden_size = one.hidden_size;
  p.intermediate_size = one.intermediate_size;
  p.activation_dtype = one.activation_dtype;
  p.output_dtype = one.output_dtype;
  p.weight_scheme = one.weight_scheme;
  p.act_scheme = one.act_scheme;
  p.activation = one.activation;
  p.tp_size = 1;
  return p;
}

const moert_shared_experts_t& table_of(const char* candidate) {
  return *static_cast<const moert_shared_experts_t*>(
      feature_table(MOERT_KIND_SHARED_EXPERTS, candidate));
}

std::string shared_reason(const char* candidate, const moert_shared_problem_t& problem) {
  runtime::HostServices host(1, ignore_log);
  moert_support_t support{};
  support.struct_size = sizeof support;
  must([&](auto* e) { return table_of(candidate).supports(host.table(), &problem, &support, e); });
  return support.verdict != 0 ? "" : support.reason;
}

std::vector<float> gate_of(const SharedCase& c) {
  std::mt19937_64 random(31);
  std::vector<float> gate(static_cast<size_t>(c.mlp.sizes.hidden));
  for (float& x : gate) x = static_cast<float>(random() % 2001) / 1000 - 1;
  return gate;
}

// Shared experts with the weights of a routed layer of one expert.
class Shared {
 public:
  Shared(const char* candidate, const SharedCase& c, int32_t threads)
      : case_(c), host_(threads, ignore_log), table_(table_of(candidate)) {
    const moert_shared_problem_t problem = shared_problem_of(case_);
    must([&](auto* e) { return table_.create(host_.table(), &problem, nullptr, 0, &self_, e); });
    routed_ = std::make_unique<Layer>(
        candidate, case_.mlp, threads, Weights::random, [this](const moert_piece_t& piece) {
          must([&](auto* e) { return table_.load(self_, &piece, e); });
        });
    if (c.sigmoid) {
      const std::vector<float> gate = gate_of(c);
      const TensorView view(static_cast<const void*>(gate.data()), kF32, {c.mlp.sizes.hidden});
      moert_piece_t piece{};
      piece.struct_size = sizeof piece;
      piece.part = MOERT_PART_SIGMOID_GATE;
      piece.role = MOERT_ROLE_WEIGHT;
      piece.tensor = view;
      must([&](auto* e) { return table_.load(self_, &piece, e); });
    }
    must([&](auto* e) { return table_.finish(self_, e); });
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { table_.destroy(self_); }

  const Layer& routed() const { return *routed_; }

  std::vector<unsigned char> forward(const Batch& batch) const {
    const int64_t h = case_.mlp.sizes.hidden;
    std::vector<unsigned char> out(dtype_bytes(case_.mlp.out, batch.tokens * h), 0xff);
    const TensorView hidden(static_cast<const void*>(batch.hidden.data()), case_.mlp.rows,
                            {batch.tokens, h});
    const TensorView result(out.data(), case_.mlp.out, {batch.tokens, h});
    moert_shared_args_t args{};
    args.struct_size = sizeof args;
    args.hidden = hidden;
    args.out = result;
    must([&](auto* e) { return table_.workspace(self_, batch.tokens, &args.workspace_bytes, e); });
    std::vector<unsigned char> memory(args.workspace_bytes + 64, 0xff);
    args.workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    must([&](auto* e) { return table_.forward(self_, &args, e); });
    return out;
  }

 private:
  const SharedCase case_;
  runtime::HostServices host_;
  const moert_shared_experts_t& table_;
  void* self_ = nullptr;
  std::unique_ptr<Layer> routed_;  // its quant method must live as long as what was loaded by it
};

// A batch of which every row takes the one expert, weighed as the sigmoid gate says.
Batch batch_of(const SharedCase& c, int64_t tokens) {
  Batch batch = make_batch(c.mlp, tokens, Routing::one_expert);
  const std::vector<float> gate = gate_of(c);
  const int64_t h = c.mlp.sizes.hidden;
  const TensorView rows(static_cast<const void*>(batch.hidden.data()), c.mlp.rows, {tokens * h});
  for (int64_t t = 0; t < tokens; ++t) {
    double sum = 0;
    for (int64_t i = 0; i < h; ++i)
      sum += static_cast<double>(gate[static_cast<size_t>(i)]) *
             static_cast<double>(read_f32(*rows.get(), t * h + i));
    batch.weights[static_cast<size_t>(t)] =
        c.sigmoid ? static_cast<float>(1 / (1 + std::exp(-sum))) : 1.0f;
  }
  return batch;
}

double number_at(const std::vector<unsigned char>& bytes, uint32_t dtype, size_t index) {
  const TensorView view(static_cast<const void*>(bytes.data()), dtype,
                        {static_cast<int64_t>(bytes.size() / dtype_bytes(dtype, 1))});
  return static_cast<double>(read_f32(*view.get(), static_cast<int64_t>(index)));
}

// As in test_rows.cpp, and the weight that is rounded to f32.
double tolerance(const Case& c) {
  const auto of = [](uint32_t dtype) {
    return dtype == kBf16 ? 0x1p-8 : dtype == kF16 ? 0x1p-11 : 0.0;
  };
  return 1e-5 + 3 * std::max(of(c.rows), of(c.out));
}

class SimdShared : public ::testing::TestWithParam<SharedCase> {
 protected:
  void SetUp() override {
    if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  }
};

TEST_P(SimdShared, IsTheRoutedExpert) {
  const SharedCase& c = GetParam();
  for (const int32_t threads : {1, 2, 3, 7}) {
    const Shared ours("cpu.simd", c, threads);
    for (const int64_t tokens : kTokens) {
      const Batch batch = batch_of(c, tokens);
      EXPECT_TRUE(ours.forward(batch) == ours.routed().forward(batch))
          << threads << " threads, " << tokens << " tokens";
    }
  }
}

TEST_P(SimdShared, IsTheOracles) {
  const SharedCase& c = GetParam();
  const Shared ours("cpu.simd", c, 2);
  const Shared oracle("cpu.ref", c, 2);
  for (const int64_t tokens : kTokens) {
    const Batch batch = batch_of(c, tokens);
    const auto got = ours.forward(batch);
    const auto want = oracle.forward(batch);
    const auto h = static_cast<size_t>(c.mlp.sizes.hidden);
    for (size_t t = 0; t < static_cast<size_t>(tokens); ++t) {
      double error = 0;
      double norm = 0;
      for (size_t i = t * h; i < (t + 1) * h; ++i) {
        const double is = number_at(got, c.mlp.out, i);
        const double should = number_at(want, c.mlp.out, i);
        error += (is - should) * (is - should);
        norm += should * should;
      }
      EXPECT_LE(std::sqrt(error), tolerance(c.mlp) * std::sqrt(norm)) << "row " << t;
    }
  }
}

TEST_P(SimdShared, HasTheSameBitsOnAnyThreadsAndInAnyBatch) {
  const SharedCase& c = GetParam();
  const size_t bytes = dtype_bytes(c.mlp.out, c.mlp.sizes.hidden);
  const Batch batch = batch_of(c, 260);
  const auto first = Shared("cpu.simd", c, 1).forward(batch);
  for (const int32_t threads : {2, 3, 7}) {
    const Shared layer("cpu.simd", c, threads);
    EXPECT_TRUE(layer.forward(batch) == first) << threads << " threads";
    for (int64_t t = 0; t < batch.tokens; t += 37)
      EXPECT_EQ(std::memcmp(layer.forward(batch.row(c.mlp, t)).data(),
                            &first[static_cast<size_t>(t) * bytes], bytes),
                0)
          << threads << " threads, row " << t;
  }
}

TEST_P(SimdShared, KeepsNanInItsRow) {
  const SharedCase& c = GetParam();
  const Shared layer("cpu.simd", c, 2);
  Batch batch = batch_of(c, 7);
  const auto clean = layer.forward(batch);
  const int64_t h = c.mlp.sizes.hidden;
  const TensorView rows(batch.hidden.data(), c.mlp.rows, {batch.tokens * h});
  write_f32(*rows.get(), 3 * h, std::nanf(""));
  const auto dirty = layer.forward(batch);
  for (size_t i = 0; i < static_cast<size_t>(batch.tokens * h); ++i) {
    if (static_cast<int64_t>(i) / h == 3)
      EXPECT_TRUE(std::isnan(number_at(dirty, c.mlp.out, i)));
    else
      EXPECT_EQ(number_at(dirty, c.mlp.out, i), number_at(clean, c.mlp.out, i));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SimdShared, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.mlp.name); });

// What routed experts refuse, they refuse, in the same words.
TEST(SimdSharedRefusals, AreTheRoutedExperts) {
  if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  const moert_activation_t unknown = act("mish");
  const std::function<void(Case&)> changes[] = {
      [](Case&) {},
      [](Case& c) { c.rows = MOERT_DTYPE_F64; },
      [](Case& c) { c.out = MOERT_DTYPE_I8; },
      [&](Case& c) { c.activation = unknown; },
      [](Case& c) { c.sizes.hidden = 0; },
      [](Case& c) { c.sizes.hidden = c.sizes.intermediate = int64_t{1} << 31; }};
  for (const auto& change : changes) {
    SharedCase c{{"", {64, 48, 1, 1}}};
    change(c.mlp);
    EXPECT_EQ(shared_reason("cpu.simd", shared_problem_of(c)),
              reason_of("cpu.simd", problem_of(c.mlp)));
  }
  SharedCase c{{"", {64, 48, 1, 1}}};
  moert_shared_problem_t problem = shared_problem_of(c);
  EXPECT_EQ(shared_reason("cpu.simd", problem), "");
  problem.tp_size = 2;
  EXPECT_EQ(shared_reason("cpu.simd", problem), "tensor parallelism: tp_size 2, only 1");
  problem = shared_problem_of(c);
  problem.flags |= 1u << 20;
  EXPECT_EQ(shared_reason("cpu.simd", problem), "problem flag bits 1048576 are not known");
}

}  // namespace
}  // namespace moert::cpu::testing
