// Which instruction sets the kernels may use on this machine, and what the environment takes away.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moert::cpu::simd {

// Each level has all that is below it.
enum class Isa { portable, avx2, avx512, avx512_bf16, amx_bf16 };
inline constexpr int kIsas = 5;
inline constexpr char kIsaNames[] = "portable, avx2, avx512, avx512_bf16, amx_bf16";
// What is chosen where nobody names a level. The one above has run on emulated tiles alone so far.
inline constexpr Isa kHighestUnasked = Isa::avx512_bf16;
std::string_view isa_name(Isa isa);

// What tells the level: registers of cpuid, and the state that the operating system saves (xgetbv), 0 where
// there is no such thing.
struct CpuFacts {
  uint32_t leaf1_ecx = 0;    // leaf 1
  uint32_t leaf7_ebx = 0;    // leaf 7, subleaf 0
  uint32_t leaf7s1_eax = 0;  // leaf 7, subleaf 1
  uint64_t saved_state = 0;  // XCR0
  uint32_t leaf7_ecx = 0;    // leaf 7, subleaf 0
  uint32_t leaf7_edx = 0;
};
CpuFacts cpu_facts();
// The highest level that these facts allow. An instruction set whose registers the operating system does not
// save would lose them at the next change of process, so it does not count.
Isa isa_of(const CpuFacts& facts);

// Asks Linux to let this process use the data of tiles, for all its threads and for good: 8 KiB of state a thread
// that nobody has before asking. Returns why not, or "". To ask again changes nothing.
std::string ask_for_tiles();

// The level to use here. `wanted` is a name of kIsaNames, or empty for the highest one that needs no name.
struct IsaChoice {
  Isa isa = Isa::portable;
  std::string
      refusal;  // empty, or why there is none: an unknown word, a level that the machine lacks
};
// `ask` is ask_for_tiles, or what stands in for it; called only where amx_bf16 is wanted and the machine has it.
IsaChoice choose_isa(Isa machine, std::string_view wanted, std::string (*ask)());
// By this machine and the environment's MOERT_CPU_ISA, which a program with more rights than its user does
// not read. Any thread.
IsaChoice choose_isa();

}  // namespace moert::cpu::simd
