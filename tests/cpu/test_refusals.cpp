// Why cpu.simd does not serve, word for word: it is what a user reads in `moert explain`.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>

#include "cpu/rig.hpp"

namespace moert::cpu::testing {
namespace {

const Case kCase{"", {64, 48, 4, 2}};

struct Refusal {
  const char* name;
  std::function<void(moert_moe_problem_t&)> change;
  const char* reason;
};
const moert_activation_t kUnknown = {sizeof(moert_activation_t), 0, "mish", 0, 0, 0};
const Refusal kRefusals[] = {
    {"moving_static", [](auto& p) { p.act_scheme = "static", p.flags |= MOERT_PROBLEM_BUNDLES; },
     "experts that move while rows are quantised by each one's own scales ('static')"},
    {"f64_rows", [](auto& p) { p.activation_dtype = MOERT_DTYPE_F64; },
     "rows of type f64, only f32, bf16, f16"},
    {"f64_output", [](auto& p) { p.output_dtype = MOERT_DTYPE_F64; },
     "rows of type f64, only f32, bf16, f16"},
    {"i8_rows", [](auto& p) { p.activation_dtype = MOERT_DTYPE_I8; },
     "rows of type i8, only f32, bf16, f16, f64"},
    {"device", [](auto& p) { p.device.kind = MOERT_DEVICE_KIND('c', 'u', 'd', 'a'); },
     "the layer's device is not the cpu"},
    {"tensor_parallel", [](auto& p) { p.tp_size = 2; }, "tensor parallelism: tp_size 2, only 1"},
    {"lora", [](auto& p) { p.flags |= MOERT_PROBLEM_LORA; }, "adapters (LoRA) are not supported"},
    {"graph", [](auto& p) { p.flags |= MOERT_PROBLEM_GRAPH; }, "the cpu has no device graphs"},
    {"activation", [](auto& p) { p.activation = &kUnknown; },
     "activation 'mish' is not known, only silu, gelu, gelu_tanh, relu, relu2, swigluoai, "
     "swiglustep, situ"},
    {"too_large", [](auto& p) { p.hidden_size = p.intermediate_size = int64_t{1} << 31; },
     "the sizes do not fit 64 bits"},
    {"too_many_slots", [](auto& p) { p.max_tokens = int64_t{1} << 40, p.top_k = 1 << 20; },
     "the sizes do not fit 64 bits"},
};

class SimdRefusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(SimdRefusals, SayWhatIsAndWhatWouldBe) {
  if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  moert_moe_problem_t problem = problem_of(kCase);
  ASSERT_EQ(reason_of("cpu.simd", problem), "");
  GetParam().change(problem);
  EXPECT_EQ(reason_of("cpu.simd", problem), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(All, SimdRefusals, ::testing::ValuesIn(kRefusals),
                         [](const auto& one) { return std::string(one.param.name); });

// Gives the environment back what it had.
class Environment {
 public:
  explicit Environment(const char* value) {
    if (const char* old = ::getenv("MOERT_CPU_ISA"); old != nullptr) old_ = old;
    ::setenv("MOERT_CPU_ISA", value, 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    if (old_.empty())
      ::unsetenv("MOERT_CPU_ISA");
    else
      ::setenv("MOERT_CPU_ISA", old_.c_str(), 1);
  }

 private:
  std::string old_;
};

TEST(SimdLevel, AWordThatIsNoLevelIsARefusal) {
  const Environment environment("avx1024");
  EXPECT_EQ(reason_of("cpu.simd", problem_of(kCase)),
            "MOERT_CPU_ISA is 'avx1024', expected one of portable, avx2, avx512, "
            "avx512_bf16, amx_bf16");
  EXPECT_THROW(Layer("cpu.simd", kCase, 1), std::runtime_error);
}

TEST(SimdLevel, TheOracleDoesNotAskForIt) {
  const Environment environment("avx1024");
  EXPECT_EQ(reason_of("cpu.ref", problem_of(kCase)), "");
}

TEST(SimdLevel, EveryMachineHasThePortableOne) {
  const Environment environment("portable");
  EXPECT_EQ(reason_of("cpu.simd", problem_of(kCase)), "");
}

TEST(SimdLevel, EmptyIsTheHighest) {
  const Environment environment("");
  EXPECT_EQ(reason_of("cpu.simd", problem_of(kCase)), "");
}

}  // namespace
}  // namespace moert::cpu::testing
