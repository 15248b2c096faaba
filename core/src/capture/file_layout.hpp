// What follows from a capture's info: the tensors of its file, and where a layer's ids stand in a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "capture/capture_info.hpp"

namespace moert::capture {

inline constexpr const char *kIds = "ids", *kWeights = "weights", *kMargins = "margins",
                            *kPresent = "present", *kSequences = "sequences",
                            *kPositions = "positions";

// What makes no sense in an info; empty if nothing.
std::string problem_of(const CaptureInfo& info);

// "expert 300 is out of range: the layer has 256", "expert 3 stands twice", or empty. Any k: its cost is that
// of sorting.
std::string problem_of(const int32_t* ids, int64_t k, int64_t num_experts);

struct FileTensor {
  const char* name;
  uint32_t dtype;
  std::vector<int64_t> shape;
};

// Of an info that has no problem.
class FileLayout {
 public:
  explicit FileLayout(const CaptureInfo& info);

  int64_t slots() const { return slots_; }  // sum of k
  int64_t first_slot(size_t layer) const { return first_slots_[layer]; }
  uint32_t id_bytes() const { return id_bytes_; }
  size_t present_bytes() const { return (first_slots_.size() + 7) / 8; }  // of a row
  // Those that the info asks for.
  std::vector<FileTensor> tensors(const CaptureInfo& info, int64_t rows) const;

 private:
  std::vector<int64_t> first_slots_;
  int64_t slots_ = 0;
  int64_t even_k_ = 0;  // k of every layer; 0: they differ
  uint32_t id_bytes_ = 1;
};

// k ids of `width` bytes each.
void load_ids(const std::byte* from, uint32_t width, int64_t k, int32_t* ids);
void store_ids(const int32_t* ids, uint32_t width, int64_t k, std::byte* to);

}  // namespace moert::capture
