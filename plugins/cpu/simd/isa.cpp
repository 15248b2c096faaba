// Which instruction sets the kernels may use on this machine, and what the environment takes away.
// SPDX-License-Identifier: Apache-2.0
#include "isa.hpp"

#include <stdlib.h>

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(MOERT_CPU_AMX)
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#endif

namespace moert::cpu::simd {
namespace {

constexpr std::string_view kNames[kIsas] = {"portable", "avx2", "avx512", "avx512_bf16",
                                            "amx_bf16"};

constexpr uint32_t bit(int n) { return uint32_t{1} << n; }
constexpr bool has(uint64_t value, uint64_t all) { return (value & all) == all; }

// Leaf 1, ecx: FMA, XSAVE in use by the operating system, AVX, F16C.
constexpr uint32_t kLeaf1 = bit(12) | bit(27) | bit(28) | bit(29);
constexpr uint32_t kAvx2 = bit(5);                                   // leaf 7, ebx
constexpr uint32_t kAvx512 = bit(16) | bit(17) | bit(30) | bit(31);  // F, DQ, BW, VL
constexpr uint32_t kVbmi = bit(1);                                   // leaf 7, ecx
constexpr uint32_t kBf16 = bit(5);                                   // leaf 7.1, eax
constexpr uint32_t kAmx = bit(22) | bit(24);     // leaf 7, edx: AMX-BF16, AMX-TILE
constexpr uint64_t kYmmState = bit(1) | bit(2);  // XCR0: SSE, AVX
constexpr uint64_t kZmmState =
    kYmmState | bit(5) | bit(6) | bit(7);                       // masks, upper halves, zmm16-31
constexpr uint64_t kTileState = kZmmState | bit(17) | bit(18);  // configuration, data

}  // namespace

std::string_view isa_name(Isa isa) { return kNames[static_cast<int>(isa)]; }

#if defined(__x86_64__)
CpuFacts cpu_facts() {
  CpuFacts facts;
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) facts.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    facts.leaf7_ebx = ebx;
    facts.leaf7_ecx = ecx;
    facts.leaf7_edx = edx;
    if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) facts.leaf7s1_eax = eax;
  }
  if (has(facts.leaf1_ecx, bit(27))) {  // else xgetbv itself is an invalid instruction
    uint32_t low = 0;
    uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    facts.saved_state = (uint64_t{high} << 32) | low;
  }
  return facts;
}
#else
CpuFacts cpu_facts() { return {}; }
#endif

Isa isa_of(const CpuFacts& facts) {
  if (!has(facts.leaf1_ecx, kLeaf1) || !has(facts.leaf7_ebx, kAvx2) ||
      !has(facts.saved_state, kYmmState))
    return Isa::portable;
  if (!has(facts.leaf7_ebx, kAvx512) || !has(facts.saved_state, kZmmState)) return Isa::avx2;
  if (!has(facts.leaf7s1_eax, kBf16) || !has(facts.leaf7_ecx, kVbmi)) return Isa::avx512;
  return has(facts.leaf7_edx, kAmx) && has(facts.saved_state, kTileState) ? Isa::amx_bf16
                                                                          : Isa::avx512_bf16;
}

std::string ask_for_tiles() {
#if defined(MOERT_CPU_AMX)
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM of Linux's asm/prctl.h
  constexpr long kTileData = 18;     // the number of the state, as in XCR0
  if (::syscall(SYS_arch_prctl, kRequest, kTileData) == 0) return {};
  return "Linux does not let this process use tiles: " + std::system_category().message(errno);
#else
  return "its compiler left AMX out of this build";
#endif
}

namespace {

IsaChoice too_high(Isa machine, std::string_view wanted) {
  return {Isa::portable, "MOERT_CPU_ISA asks for " + std::string(wanted) + ", this machine has " +
                             std::string(isa_name(machine)) + " at most"};
}

}  // namespace

IsaChoice choose_isa(Isa machine, std::string_view wanted, std::string (*ask)()) {
  if (wanted.empty()) return {std::min(machine, kHighestUnasked), {}};
  for (int i = 0; i < kIsas; ++i) {
    if (wanted != kNames[i]) continue;
    const auto isa = static_cast<Isa>(i);
    if (isa > machine) return too_high(machine, wanted);
    const std::string reason = isa == Isa::amx_bf16 ? ask() : "";
    if (reason.empty()) return {isa, {}};
    IsaChoice choice = too_high(Isa::avx512_bf16, wanted);
    choice.refusal += ": " + reason;
    return choice;
  }
  return {Isa::portable, "MOERT_CPU_ISA is '" + std::string(wanted.substr(0, 40)) +
                             "', expected one of " + kIsaNames};
}

IsaChoice choose_isa() {
  const char* wanted = ::secure_getenv("MOERT_CPU_ISA");
  return choose_isa(isa_of(cpu_facts()), wanted == nullptr ? "" : wanted, &ask_for_tiles);
}

}  // namespace moert::cpu::simd
