// Checkpoints that are made up for measuring.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "spec/family.hpp"
#include "spec/model.hpp"

namespace moert::tool {

// A folder below the system's temporary one; removed with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Synthetic {
  spec::Model model;
  spec::Tensors rules;
};

struct SyntheticSize {
  int64_t layers = 1, experts = 2, top_k = 1, hidden_size = 1, intermediate_size = 1;
  int64_t shards = 1;
};

// Writes a bf16 checkpoint of zeros with a router and gate, up and down of every expert.
Synthetic write_synthetic(const std::filesystem::path& folder, const SyntheticSize& size);

}  // namespace moert::tool
