// The level of an instruction set, from registers that other machines have.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "../../plugins/cpu/simd/isa.hpp"

namespace moert::cpu::simd {
namespace {

constexpr uint32_t bit(int n) { return 1u << n; }
constexpr uint32_t kLeaf1 = bit(12) | bit(27) | bit(28) | bit(29);
constexpr uint32_t kAvx2 = bit(5);
constexpr uint32_t kAvx512 = bit(16) | bit(17) | bit(30) | bit(31);
constexpr uint32_t kVbmi = bit(1);
constexpr uint64_t kYmm = 6;
constexpr uint64_t kZmm = 0xe6;
constexpr uint64_t kTiles = 0x60000;
constexpr uint32_t kAmx = bit(22) | bit(24);

struct Machine {
  const char* what;
  CpuFacts facts;
  Isa isa;
};
const Machine kMachines[] = {
    {"no AVX", {0, 0, 0, 0}, Isa::portable},
    {"Zen 4", {kLeaf1, kAvx2 | kAvx512, bit(5), kZmm, kVbmi}, Isa::avx512_bf16},
    {"Cooper Lake: no VBMI", {kLeaf1, kAvx2 | kAvx512, bit(5), kZmm}, Isa::avx512},
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
    {"Sapphire Rapids",
     {kLeaf1, kAvx2 | kAvx512, bit(5), kZmm | kTiles, kVbmi, kAmx},
     Isa::amx_bf16},
    {"AMX without AVX-512", {kLeaf1, kAvx2, 0, kYmm | kTiles, kVbmi, kAmx}, Isa::avx2},
    {"AMX without BF16 of AVX-512",
     {kLeaf1, kAvx2 | kAvx512, 0, kZmm | kTiles, kVbmi, kAmx},
     Isa::avx512},
    {"AMX where no zmm are saved",
     {kLeaf1, kAvx2 | kAvx512, bit(5), kYmm | kTiles, kVbmi, kAmx},
     Isa::avx2},
    {"no XSAVE", {kLeaf1 & ~bit(27), kAvx2 | kAvx512, bit(5), 0}, Isa::portable},
};

TEST(Isa, NeedsTheProcessorAndTheSystem) {
  for (const Machine& machine : kMachines)
    EXPECT_EQ(isa_name(isa_of(machine.facts)), isa_name(machine.isa)) << machine.what;
}

// Tiles need four bits of three kinds, all of them.
TEST(Isa, NeedsAllThatTilesNeed) {
  for (uint32_t word = 0; word < 16; ++word) {
    const uint32_t amx = (word & 1) * bit(22) + (word >> 1 & 1) * bit(24);
    const uint64_t saved =
        (word >> 2 & 1) * uint64_t{0x20000} + (word >> 3 & 1) * uint64_t{0x40000};
    const CpuFacts facts = {kLeaf1, kAvx2 | kAvx512, bit(5), kZmm | saved, kVbmi, amx};
    EXPECT_EQ(isa_name(isa_of(facts)), word == 15 ? "amx_bf16" : "avx512_bf16") << word;
  }
}

int times_asked = 0;
std::string permit() { return ++times_asked, ""; }
std::string refuse() { return ++times_asked, "not today"; }

TEST(Isa, MayBeLowered) {
  EXPECT_EQ(choose_isa(Isa::avx512, "", &refuse).isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "avx512", &refuse).isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "avx2", &refuse).isa, Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::avx512, "portable", &refuse).isa, Isa::portable);
  EXPECT_EQ(choose_isa(Isa::avx512, "portable", &refuse).refusal, "");
}

TEST(Isa, MayNotBeRaised) {
  EXPECT_EQ(choose_isa(Isa::avx2, "avx512_bf16", &permit).refusal,
            "MOERT_CPU_ISA asks for avx512_bf16, this machine has avx2 at most");
  for (const char* word : {"AVX2", "avx", "avx512_bf16 ", "native", "amx"})
    EXPECT_EQ(choose_isa(Isa::amx_bf16, word, &permit).refusal,
              std::string("MOERT_CPU_ISA is '") + word +
                  "', expected one of portable, avx2, avx512, avx512_bf16, amx_bf16");
}

// Every machine with every word: the tiles are asked for where they are named and there, and nowhere else.
TEST(Isa, TilesAreUsedWhereTheyAreNamedAndPermitted) {
  for (int machine = 0; machine < kIsas; ++machine)
    for (int wanted = -1; wanted < kIsas; ++wanted)
      for (const auto ask : {&permit, &refuse}) {
        const auto level = static_cast<Isa>(machine);
        const std::string word(wanted < 0 ? "" : isa_name(static_cast<Isa>(wanted)));
        SCOPED_TRACE(std::string(isa_name(level)) + " is asked for '" + word + "'");
        times_asked = 0;
        const IsaChoice choice = choose_isa(level, word, ask);
        const bool tiles = level == Isa::amx_bf16 && word == "amx_bf16";
        const bool served = wanted <= machine && (!tiles || ask == &permit);
        EXPECT_EQ(times_asked, tiles ? 1 : 0);
        EXPECT_EQ(choice.refusal.empty(), served) << choice.refusal;
        if (!served) continue;
        EXPECT_EQ(choice.isa,
                  wanted < 0 ? std::min(level, Isa::avx512_bf16) : static_cast<Isa>(wanted));
      }
}

TEST(Isa, SaysWhyThereAreNoTiles) {
  EXPECT_EQ(choose_isa(Isa::amx_bf16, "amx_bf16", &refuse).refusal,
            "MOERT_CPU_ISA asks for amx_bf16, this machine has avx512_bf16 at most: not today");
  EXPECT_EQ(choose_isa(Isa::avx512_bf16, "amx_bf16", &refuse).refusal,
            "MOERT_CPU_ISA asks for amx_bf16, this machine has avx512_bf16 at most");
}

// Without room for tiles in what the system saves there is nothing to permit.
TEST(Isa, AsksThisMachine) {
  const bool saved = (cpu_facts().saved_state & kTiles) == kTiles;
  const std::string reason = ask_for_tiles();
  if (saved) GTEST_SKIP() << "this machine saves tiles, and its system may refuse them or not";
  EXPECT_NE(reason, "");
}

}  // namespace
}  // namespace moert::cpu::simd
