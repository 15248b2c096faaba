// SPDX-License-Identifier: Apache-2.0
#include "machine_limits.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include <moert/error.hpp>

#include "text_table.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moert::tool {

namespace {

constexpr int64_t kParts = 64;
constexpr int64_t kRounds = 20000;  // of an arithmetic part: some milliseconds a thread in all
constexpr int kTries = 3;
constexpr uint64_t kPage = uint64_t{2} << 20u;

constexpr int kPortableChains = 12;
using Vector4 = float __attribute__((vector_size(16)));

// More chains than an instruction takes cycles, twice: two are begun in a cycle. `x` is not known to the compiler,
// which could else do without a product.
double sums_portable(float x) {
  Vector4 sums[kPortableChains] = {};
  const Vector4 factor = {x, x, x, x};
  for (int64_t i = 0; i < kRounds; ++i)
    for (Vector4& sum : sums) sum = sum * factor + factor;
  double total = 0;
  for (const Vector4& sum : sums) total += static_cast<double>(sum[0]);
  return total;
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) double sums_avx2(float value) {
  constexpr int kChains = 12;
  __m256 sums[kChains];
  const __m256 x = _mm256_set1_ps(value);
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm256_fmadd_ps(x, x, sums[c]);
  }
  double total = 0;
  for (const __m256& sum : sums) total += static_cast<double>(_mm256_cvtss_f32(sum));
  return total;
}

__attribute__((target("avx512f"))) double sums_avx512(float value) {
  constexpr int kChains = 24;
  __m512 sums[kChains];
  const __m512 x = _mm512_set1_ps(value);
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_fmadd_ps(x, x, sums[c]);
  }
  double total = 0;
  for (const __m512& sum : sums) total += static_cast<double>(_mm512_cvtss_f32(sum));
  return total;
}

__attribute__((target("avx512f,avx512bf16"))) double sums_bf16(float value) {
  constexpr int kChains = 24;
  __m512 sums[kChains];
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_ps(value));
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbf16_ps(sums[c], x, x);
  }
  double total = 0;
  for (const __m512& sum : sums) total += static_cast<double>(_mm512_cvtss_f32(sum));
  return total;
}

#endif

}  // namespace

struct MachineLimits::Arithmetic {
  const char* kind;
  double flop_of_round;  // of one thread
  double (*sums)(float);
};

const MachineLimits::Arithmetic& MachineLimits::arithmetic() {
  static const Arithmetic chosen = []() -> Arithmetic {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16"))
      return {"bf16 pairs, avx512_bf16", 24 * 64, sums_bf16};
    if (__builtin_cpu_supports("avx512f")) return {"f32, avx512", 24 * 32, sums_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return {"f32, avx2", 12 * 16, sums_avx2};
#endif
    return {"f32, 128 bits, unfused", kPortableChains * 8, sums_portable};
  }();
  return chosen;
}

MachineLimits::MachineLimits(const moert_host_t* host, uint64_t bytes) : host_(host) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  count_ = bytes / sizeof(uint64_t);
  memory_.reset(static_cast<uint64_t*>(std::aligned_alloc(kPage, bytes)));
  if (memory_ == nullptr)
    throw Error(Fault::device, "no memory for the bandwidth probe: " + bytes_text(bytes), "",
                "free memory, or leave the probes out with --no-probes");
  ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // as packed weights lie
  std::fill_n(memory_.get(), count_, uint64_t{1});
}

double MachineLimits::read_bytes_per_second() const {
  return static_cast<double>(memory_bytes()) / best_time(&read_part);
}

double MachineLimits::flop_per_second() const {
  const double flop =
      static_cast<double>(kParts) * static_cast<double>(kRounds) * arithmetic().flop_of_round;
  return flop / best_time(&arithmetic_part);
}

const char* MachineLimits::flop_kind() const { return arithmetic().kind; }

double MachineLimits::best_time(void (*part)(const MachineLimits&, int64_t)) const {
  struct Call {
    const MachineLimits* self;
    void (*part)(const MachineLimits&, int64_t);
  } call{this, part};
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    host_->parallel_for(
        host_->ctx, kParts, 1,
        [](void* arg, int64_t begin, int64_t end, int32_t) {
          const auto* it = static_cast<const Call*>(arg);
          for (int64_t p = begin; p < end; ++p) it->part(*it->self, p);
        },
        &call);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

void MachineLimits::read_part(const MachineLimits& self, int64_t index) {
  const uint64_t count = self.count_ / kParts;
  const uint64_t* from = self.memory_.get() + count * static_cast<uint64_t>(index);
  // Asked for ahead of time, as the kernels do: what the processor asks for by itself stops at each page.
  constexpr uint64_t kAhead = 4096 / sizeof(uint64_t);
  uint64_t sums[8] = {};
  for (uint64_t i = 0; i < count; i += 8) {
    __builtin_prefetch(from + i + kAhead);
    for (uint64_t j = 0; j < 8; ++j) sums[j] ^= from[i + j];
  }
  uint64_t all = 0;
  for (const uint64_t sum : sums) all ^= sum;
  self.sink_ += all;
}

void MachineLimits::arithmetic_part(const MachineLimits& self, int64_t) {
  self.sink_ += static_cast<uint64_t>(arithmetic().sums(self.one_));
}

}  // namespace moert::tool
