// SPDX-License-Identifier: Apache-2.0
#include "runtime/piece_loading.hpp"

#include <algorithm>

namespace moert::runtime {

namespace {

struct Bytes {
  uint64_t first, count;
};

// What an expert has of a tensor; of one that is not cut into experts, the first expert has everything.
Bytes share_of(const weights::TensorInfo& tensor, const weights::Source& source) {
  if (source.experts <= 1) return {0, tensor.bytes};
  const auto experts = static_cast<uint64_t>(source.experts);
  if (tensor.shape.empty() || tensor.shape[0] % source.experts != 0 || tensor.bytes % experts != 0)
    return {0, source.expert == 0 ? tensor.bytes : 0};
  const uint64_t each = tensor.bytes / experts;
  return {each * static_cast<uint64_t>(source.expert), each};
}

}  // namespace

PieceLoading::PieceLoading(const weights::Checkpoint& checkpoint,
                           const std::vector<weights::Source>& sources, Load load,
                           LoadProgress& progress)
    : checkpoint_(checkpoint), sources_(sources), load_(std::move(load)), progress_(progress) {}

void PieceLoading::run(ThreadPool* pool) {
  size_t rest = 0;
  if (pool != nullptr) {
    std::vector<Range> experts;
    while (rest < sources_.size() && sources_[rest].target == spec::Target::expert) {
      const size_t first = rest;
      while (rest < sources_.size() && sources_[rest].target == spec::Target::expert &&
             sources_[rest].expert == sources_[first].expert)
        ++rest;
      experts.push_back({first, rest});
    }
    load_experts(*pool, experts);
  }
  load_range({rest, sources_.size()}, true);
  if (error_ != nullptr) std::rethrow_exception(error_);
}

// Each thread takes the next expert, so that the file is read from its beginning to its end.
void PieceLoading::load_experts(ThreadPool& pool, const std::vector<Range>& experts) {
  struct Call {
    PieceLoading* self;
    const std::vector<Range>& experts;
    std::atomic<size_t> next{0};
  } call{this, experts};
  const auto each_thread = [](void* arg, int64_t, int64_t, int32_t worker) {
    Call& it = *static_cast<Call*>(arg);
    for (size_t i = it.next++; i < it.experts.size(); i = it.next++)
      it.self->load_range(it.experts[i], worker == 0);
  };
  pool.run(std::min<int64_t>(pool.size(), static_cast<int64_t>(experts.size())), 1, each_thread,
           &call);
}

// Whatever stands before the first failure is still loaded, for it may fail itself.
void PieceLoading::load_range(Range range, bool tells) {
  for (size_t i = range.first; i < range.last && i + 1 < failed_; ++i) {
    try {
      load_(sources_[i]);
      give_back(i);
    } catch (...) {
      return fail(i + 1);
    }
    const uint64_t done = ++progress_.done;
    if (!tells || !progress_.tell) continue;
    try {
      progress_.tell(done, progress_.total, progress_.bytes);
    } catch (...) {
      return fail(0);
    }
  }
}

// A tensor may feed several sources of an expert in a row; its pages may go after the last of them.
void PieceLoading::give_back(size_t index) {
  const weights::Source& source = sources_[index];
  const weights::Source* next = index + 1 < sources_.size() ? &sources_[index + 1] : nullptr;
  if (next != nullptr && next->tensor == source.tensor && next->target == source.target &&
      next->expert == source.expert)
    return;
  const auto give = [&](const weights::TensorInfo& tensor) {
    const Bytes share = share_of(tensor, source);
    checkpoint_.release(tensor, share.first, share.count);
    progress_.bytes += share.count;
  };
  give(*source.tensor);
  for (const weights::Companion& companion : source.companions) give(*companion.tensor);
}

void PieceLoading::fail(size_t rank) {
  const std::lock_guard lock(mutex_);
  if (rank >= failed_) return;
  failed_ = rank;
  error_ = std::current_exception();
}

}  // namespace moert::runtime
