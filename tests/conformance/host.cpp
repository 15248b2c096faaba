// The host's side of the border, as strict as the headers allow it to be.
// SPDX-License-Identifier: Apache-2.0
#include "host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace moert::conformance {
namespace {
constexpr uint64_t kGuard = 64;
constexpr unsigned char kGuardByte = 0x5a;
constexpr unsigned char kPoison = 0xff;  // NaN in every float type
}  // namespace

TestHost::TestHost(uint64_t seed)
    : table_{sizeof(moert_host_t), 0,         this, &log, &alloc, &release, &parallel_for,
             &num_threads,         &extension},
      random_(seed) {}

TestHost::~TestHost() {
  for (const auto& [pointer, bytes] : blocks_) std::free(pointer);
}

size_t TestHost::live() const {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}

void* TestHost::alloc(void* ctx, uint64_t bytes, uint64_t align) {
  auto* self = static_cast<TestHost*>(ctx);
  EXPECT_TRUE(align != 0 && (align & (align - 1)) == 0) << "alloc with alignment " << align;
  if (bytes == 0) return nullptr;
  void* p = nullptr;
  if (bytes > UINT64_MAX - kGuard ||
      posix_memalign(&p, std::max<uint64_t>(align, sizeof(void*)), bytes + kGuard) != 0)
    return nullptr;
  std::memset(p, kPoison, bytes);
  std::memset(static_cast<char*>(p) + bytes, kGuardByte, kGuard);
  const std::lock_guard lock(self->mutex_);
  self->blocks_[p] = bytes;
  return p;
}

void TestHost::release(void* ctx, void* pointer) {
  auto* self = static_cast<TestHost*>(ctx);
  if (pointer == nullptr) return;
  const std::lock_guard lock(self->mutex_);
  const auto found = self->blocks_.find(pointer);
  if (found == self->blocks_.end()) {
    ADD_FAILURE() << "free of memory that alloc did not give, or twice";
    return;
  }
  const auto* guard = static_cast<unsigned char*>(pointer) + found->second;
  EXPECT_TRUE(std::all_of(guard, guard + kGuard, [](unsigned char b) { return b == kGuardByte; }))
      << "memory behind a block of " << found->second << " bytes was written";
  std::free(pointer);
  self->blocks_.erase(found);
}

void TestHost::parallel_for(void* ctx, int64_t n, int64_t grain,
                            void (*fn)(void*, int64_t, int64_t, int32_t), void* arg) {
  auto* self = static_cast<TestHost*>(ctx);
  EXPECT_GE(n, 0);
  EXPECT_GE(grain, 1);
  std::vector<std::pair<int64_t, int64_t>> ranges;
  const int64_t step = std::max<int64_t>(grain, 1);
  for (int64_t begin = 0; begin < n; begin += step)
    ranges.emplace_back(begin, std::min(n, begin + step));
  std::shuffle(ranges.begin(), ranges.end(), self->random_);
  if (self->schedule_ == Schedule::shuffled) {
    for (const auto& [begin, end] : ranges)
      fn(arg, begin, end, static_cast<int32_t>(self->random_() % kThreads));
    return;
  }
  std::atomic<size_t> next{0};
  const auto work = [&](int32_t worker) {
    for (size_t i = next++; i < ranges.size(); i = next++)
      fn(arg, ranges[i].first, ranges[i].second, worker);
  };
  std::vector<std::thread> threads;
  for (int32_t worker = 1; worker < kThreads; ++worker) threads.emplace_back(work, worker);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace moert::conformance
