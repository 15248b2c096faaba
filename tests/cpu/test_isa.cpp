// The level of an instruction set, from registers that other machines have.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "../../plugins/cpu/simd/isa.hpp"

namespace moert::cpu::simd {
namespace {

constexpr uint32_t bit(int n) { return 1u << n; }
constexpr uint32_t kLeaf1 = bit(12) | bit(27) | bit(28) | bit(29);
constexpr uint32_t kAvx2 = bit(5);
constexpr uint32_t kAvx512 = bit(16) | bit(17) | bit(30) | bit(31);
constexpr uint64_t kYmm = 6;
constexpr uint64_t kZmm = 0xe6;

struct Machine {
  const char* what;
  CpuFacts facts;
  Isa isa;
};
const Machine kMachines[] = {
    {"no AVX", {0, 0, 0, 0}, Isa::portable},
    {"Zen 4", {kLeaf1, kAvx2 | kAvx512, bit(5), kZmm}, Isa::avx512_bf16},
    {"Skylake server", {kLeaf1, kAvx2 | kAvx512, 0, kZmm}, Isa::avx512},
    {"Haswell", {kLeaf1, kAvx2, 0, kYmm}, Isa::avx2},
    {"Sandy Bridge: no AVX2", {kLeaf1, 0, 0, kYmm}, Isa::portable},
    {"no FMA", {kLeaf1 & ~bit(12), kAvx2, 0, kYmm}, Isa::portable},
    {"no F16C", {kLeaf1 & ~bit(29), kAvx2, 0, kYmm}, Isa::portable},
    {"Knights Landing: F without BW", {kLeaf1, kAvx2 | bit(16), 0, kZmm}, Isa::avx2},
    {"without VL", {kLeaf1, (kAvx2 | kAvx512) & ~bit(31), bit(5), kZmm}, Isa::avx2},
    {"the system saves no zmm", {kLeaf1, kAvx2 | kAvx512, bit(5), kYmm}, Isa::avx2},
    {"the system saves no masks",
     {kLeaf1, kAvx2 | kAvx512, bit(5), kZmm & ~uint64_t{0x20}},
     Isa::avx2},
    {"the system saves no ymm", {kLeaf1, kAvx2 | kAvx512, bit(5), 2}, Isa::portable},
    {"no XSAVE", {kLeaf1 & ~bit(27), kAvx2 | kAvx512, bit(5), 0}, Isa::portable},
};

TEST(Isa, NeedsTheProcessorAndTheSystem) {
  for (const Machine& machine : kMachines)
    EXPECT_EQ(isa_name(isa_of(machine.facts)), isa_name(machine.isa)) << machine.what;
}

TEST(Isa, MayBeLowered) {
  EXPECT_EQ(choose_isa(Isa::avx512, "").isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "avx512").isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "avx2").isa, Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::avx512, "portable").isa, Isa::portable);
  EXPECT_EQ(choose_isa(Isa::avx512, "portable").refusal, "");
}

TEST(Isa, MayNotBeRaised) {
  EXPECT_EQ(choose_isa(Isa::avx2, "avx512_bf16").refusal,
            "MOERT_CPU_ISA asks for avx512_bf16, this machine has avx2 at most");
  for (const char* word : {"AVX2", "avx", "avx512_bf16 ", "native"})
    EXPECT_EQ(choose_isa(Isa::avx512_bf16, word).refusal,
              std::string("MOERT_CPU_ISA is '") + word +
                  "', expected one of portable, avx2, avx512, avx512_bf16");
}

}  // namespace
}  // namespace moert::cpu::simd
