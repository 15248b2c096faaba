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
#include <utility>
#include <vector>

#include <moert/sdk/tensor.hpp>

#include "util/file.hpp"

namespace moert::weights {

struct ShardIndex;

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
  explicit SafetensorsFile(const std::filesystem::path& path);         // throws Error(input)
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in order of offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile& map() const { return map_; }
  // Moves the list out; tensors() is empty afterwards.
  std::vector<TensorInfo> take_tensors() { return std::move(tensors_); }

 private:
  MappedFile map_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A checkpoint folder: model.safetensors, or model.safetensors.index.json and its shards; or one
// .safetensors file. The index must agree with the shards, and no name may stand in two of them.
// model.safetensors or a numbered shard that no index lists is an error: which of the files are
// meant cannot be known. Other files of the folder are not looked at.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& path);  // throws Error(input)
  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;         // nullptr: not there
  const std::map<std::string, std::string>& metadata() const;  // of the first file

  // A dense, read-only view of a tensor's bytes in the mapping. Throws Error(input) if they do not
  // begin at a multiple of the element's size: the format allows it, reading elements there does not.
  moert::TensorView view(const TensorInfo& info) const;
  const void* data(const TensorInfo& info) const;  // its bytes, wherever they begin
  // "FILE: tensor NAME", for messages.
  std::string place(const TensorInfo& info) const;
  // The tensor's pages, or these bytes of it, will not be needed again. Any thread.
  void release(const TensorInfo& info) const { release(info, 0, info.bytes); }
  void release(const TensorInfo& info, uint64_t first, uint64_t bytes) const;

 private:
  void add_file(const std::filesystem::path& path);
  void check_index(const ShardIndex& shards) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorInfo> tensors_;  // never grows once index_ points into it
  std::unordered_map<std::string_view, uint32_t> index_;
};

// Collects tensors, then writes one file under a temporary name and renames it.
class SafetensorsWriter {
 public:
  // `data` must stay valid until write(). Throws Error(usage): a dtype that the format does not have,
  // a shape without a whole number of bytes.
  void add(std::string name, uint32_t dtype, std::vector<int64_t> shape, const void* data);
  void set_metadata(std::string key, std::string value);
  // Throws Error(usage): two tensors of one name, text that is no UTF-8; Error(device).
  void write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    TensorInfo info;
    const void* data;
  };
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace moert::weights
