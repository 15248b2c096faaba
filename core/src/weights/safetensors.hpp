// The safetensors format: reading (header treated as hostile) and writing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <moert/sdk/tensor.hpp>

#include "util/file.hpp"

namespace moert::weights {

struct TensorInfo {
  std::string name;
  uint32_t dtype = 0;  // MOERT_DTYPE_*
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of the data, from the start of the file
  uint64_t bytes = 0;
  uint32_t file = 0;  // index into Checkpoint::files
};

// One file. Everything in the header is checked before use: length, JSON depth, names, dtypes, shapes
// against byte ranges, ranges inside the file, without overlap or gap.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);  // throws Error(input)
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in order of offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile& map() const { return map_; }

 private:
  MappedFile map_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A checkpoint folder: model.safetensors, or model.safetensors.index.json and its shards; or one
// .safetensors file. The index must agree with the shards, and no name may stand in two of them.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& path);  // throws Error(input)
  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;  // nullptr: not there
  const std::map<std::string, std::string>& metadata() const;  // of the first file

  // A dense, read-only view of a tensor's bytes in the mapping.
  moert::TensorView view(const TensorInfo& info) const;
  // "FILE: tensor NAME", for messages.
  std::string place(const TensorInfo& info) const;
  // The tensor's pages will not be needed again.
  void release(const TensorInfo& info) const;

 private:
  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, uint32_t> index_;
};

// Collects tensors, then writes one file under a temporary name and renames it.
class SafetensorsWriter {
 public:
  // `data` must stay valid until write(); `bytes` must fit dtype and shape.
  void add(std::string name, uint32_t dtype, std::vector<int64_t> shape, const void* data);
  void set_metadata(std::string key, std::string value);
  void write(const std::filesystem::path& path) const;  // throws Error(usage|device)

 private:
  struct Entry {
    TensorInfo info;
    const void* data;
  };
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace moert::weights
