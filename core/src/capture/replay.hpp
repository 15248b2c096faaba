// Forced routing from a capture file: which experts each token of a step must take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "capture/capture_file.hpp"

namespace moert::capture {

struct ReplayCounts {
  int64_t replayed = 0;  // (token, layer) pairs whose ids were forced
  int64_t native = 0;    // pairs that the file lacks: they route as usual
};

// One thread at a time.
class Replay {
 public:
  // Throws Error(input) if the file is damaged, or its layers, experts or k are not those of the model:
  // `layers` are the model's MoE layers. A file may lack layers: these route natively.
  Replay(const std::filesystem::path& path, const std::vector<CapturedLayer>& layers);

  const CaptureFile& file() const { return file_; }
  // Ids of the rows for the model's layer `layer` (index into `layers`), row-major [rows, k]; rows that the
  // file lacks are -1. The pointer lasts until the next call.
  // `valid` [rows] or nullptr: rows with 0 are padding, get -1 and are not counted.
  const int32_t* ids(size_t layer, const RowKey* keys, int64_t rows,
                     const uint8_t* valid = nullptr);
  const ReplayCounts& counts(size_t layer) const { return counts_[layer]; }

 private:
  CaptureFile file_;
  std::vector<int64_t> in_file_;  // model's layer -> file's layer, or -1
  std::vector<int64_t> top_k_;
  std::vector<ReplayCounts> counts_;
  std::vector<int32_t> ids_;
};

}  // namespace moert::capture
