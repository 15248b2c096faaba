// The order in which a layer's tensors are loaded, on one thread or on several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/thread_pool.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {

// Pieces that are loaded, of how many, and bytes of the file that they were. Called on the loading thread;
// what it throws ends the loading.
using Progress = std::function<void(uint64_t done, uint64_t total, uint64_t bytes)>;

// Counts through all layers.
struct LoadProgress {
  const Progress& tell;
  uint64_t total = 0;
  std::atomic<uint64_t> done{0}, bytes{0};
};

// A layer's sources in their order, of which the experts' come first, expert by expert. `load` is called
// for each. The pages of what was loaded are given back as soon as an expert is done with them, so that no
// more than an expert for each thread is held in memory twice.
class PieceLoading {
 public:
  // Throws Error. With `concurrent`, from any thread, though all sources of one expert by the same.
  using Load = std::function<void(const weights::Source&)>;
  PieceLoading(const weights::Checkpoint& checkpoint, const std::vector<weights::Source>& sources,
               Load load, LoadProgress& progress);

  // With a pool, experts are loaded side by side; the rest is loaded by the caller, after them. Throws what
  // loading one by one would throw: the error of the first source, in their order, that has one. Sources
  // behind it may have been loaded or not.
  void run(ThreadPool* pool);

 private:
  struct Range {
    size_t first, last;  // sources of one expert
  };
  void load_experts(ThreadPool& pool, const std::vector<Range>& experts);
  void load_range(Range range, bool tells);
  void give_back(size_t index);
  void fail(size_t rank);

  const weights::Checkpoint& checkpoint_;
  const std::vector<weights::Source>& sources_;
  Load load_;
  LoadProgress& progress_;
  // 1 + the index of the first source that failed; 0 where `tell` did.
  std::atomic<size_t> failed_{SIZE_MAX};
  std::mutex mutex_;  // guards error_
  std::exception_ptr error_;
};

}  // namespace moert::runtime
