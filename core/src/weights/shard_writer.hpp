// Writes a checkpoint as a stream: headers first, since all sizes are known, then the data in any order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "weights/safetensors.hpp"

namespace moert::weights {

// model.safetensors, or numbered shards and model.safetensors.index.json. Holds names and shapes, no data. The
// folder is the caller's: what is left there when the writer ends without finish() is no checkpoint.
class ShardWriter {
 public:
  // Files of at most `shard_bytes` of data, in the order of the tensors; one that is larger has a file of its own.
  // Tensors as new_tensor() makes them. Throws Error(usage), Error(device).
  ShardWriter(std::filesystem::path folder, std::vector<TensorInfo> tensors, uint64_t shard_bytes);
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;
  ~ShardWriter();

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  uint64_t bytes() const { return bytes_; }  // of all tensors
  size_t files() const { return files_.size(); }

  // Bytes [offset, offset + bytes) of the tensor of that index, each once. `poll` is called between pieces.
  void write(size_t tensor, uint64_t offset, const void* data, uint64_t bytes,
             const std::function<void()>& poll);
  // Throws Error(device), and Error(usage) if not every byte of every tensor was written.
  void finish(const std::function<void()>& poll);

 private:
  struct File {
    std::filesystem::path path;
    int number = -1;        // of the open file
    uint64_t unsynced = 0;  // bytes
  };
  void assign_files(uint64_t shard_bytes);
  void open_files();
  void put(File& file, uint64_t offset, const void* data, uint64_t bytes) const;
  void sync(File& file) const;
  void write_index() const;

  std::filesystem::path folder_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> written_;  // bytes of each
  std::vector<File> files_;
  uint64_t bytes_ = 0;
};

}  // namespace moert::weights
