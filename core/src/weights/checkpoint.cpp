// Finds and maps the files of a checkpoint, and makes them agree with their index.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <string>
#include <system_error>

#include <moert/error.hpp>

#include "weights/header.hpp"
#include "weights/index.hpp"
#include "weights/safetensors.hpp"
#include "weights/text.hpp"

namespace moert::weights {
namespace fs = std::filesystem;

namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr uint64_t kMaxIndexBytes = 256u << 20;

[[noreturn]] void fail(const std::string& problem, const std::string& place,
                       const std::string& remedy) {
  throw Error(Fault::input, problem, place, remedy);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// model.safetensors, or model-00001-of-00003.safetensors and the like.
bool is_model_file(std::string_view name) {
  if (name == kSingle) return true;
  const auto skip = [&name](std::string_view text) {
    if (!name.starts_with(text)) return false;
    name.remove_prefix(text.size());
    return true;
  };
  const auto number = [&name] {
    size_t n = 0;
    while (n < name.size() && std::isdigit(static_cast<unsigned char>(name[n])) != 0) ++n;
    name.remove_prefix(n);
    return n > 0;
  };
  return skip("model-") && number() && skip("-of-") && number() && name == ".safetensors";
}

// Model files of the folder that are not in `listed` (sorted).
std::vector<std::string> strays(const fs::path& folder, const std::vector<std::string>& listed) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (is_model_file(name) && !std::binary_search(listed.begin(), listed.end(), name))
      found.push_back(std::move(name));
  }
  if (error)
    fail("cannot read the folder: " + error.message(), folder.string(),
         "check the path and its permissions");
  std::sort(found.begin(), found.end());
  return found;
}

ShardIndex read_index(const fs::path& folder) {
  const fs::path file = folder / kIndex;
  ShardIndex index = parse_index(read_text_file(file, kMaxIndexBytes), file.string());
  const std::vector<std::string> more = strays(folder, index.files);
  if (!more.empty())
    fail(std::string("'").append(shown(more.front())) + "' is not listed in the index beside it",
         file.string(),
         more.front() == kSingle
             ? std::string("remove either model.safetensors or ") + kIndex + " and its shards"
             : "remove the file, or fetch the index that lists it");
  for (const std::string& name : index.files)
    if (!is_file(folder / name))
      fail("the index lists '" + shown(name) + "', which is not there", file.string(),
           "fetch the missing file: the download is probably incomplete");
  return index;
}

// The files of a folder without an index: one.
std::string single_file(const fs::path& folder) {
  const std::vector<std::string> found = strays(folder, {});
  if (found.empty())
    fail(std::string("the folder holds neither ") + kSingle + " nor " + kIndex, folder.string(),
         "name a folder with a safetensors checkpoint, or a .safetensors file");
  if (found.front() != kSingle || found.size() > 1) {
    const std::string& shard = found.front() != kSingle ? found.front() : found[1];
    fail("'" + shown(shard) + "' is a shard, but there is no " + kIndex, folder.string(),
         is_file(folder / kSingle) ? "remove the shards or model.safetensors, or fetch the index"
                                   : "fetch the index: the download is probably incomplete");
  }
  return found.front();
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : map_(path) {
  Header header = parse_header(map_.bytes(), path.string());
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

void Checkpoint::add_file(const fs::path& path) {
  const auto number = static_cast<uint32_t>(files_.size());
  files_.emplace_back(path);
  for (TensorInfo& tensor : files_.back().take_tensors()) {
    tensor.file = number;
    tensors_.push_back(std::move(tensor));
  }
}

Checkpoint::Checkpoint(const fs::path& path) : path_(path) {
  std::error_code ignored;
  ShardIndex shards;
  const bool folder = fs::is_directory(path, ignored);
  const bool indexed = folder && fs::exists(path / kIndex, ignored);
  if (indexed) {
    shards = read_index(path);
    files_.reserve(shards.files.size());
    tensors_.reserve(shards.tensors.size());
    for (const std::string& name : shards.files) add_file(path / name);
  } else {
    if (!folder && path.extension() != ".safetensors")
      fail(fs::exists(path, ignored) ? "neither a folder nor a .safetensors file"
                                     : "there is no such folder or file",
           path.string(), "name a checkpoint folder or a .safetensors file");
    add_file(folder ? path / single_file(path) : path);
  }
  index_.reserve(tensors_.size());
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    const auto [it, added] = index_.emplace(tensors_[i].name, i);
    if (!added)
      fail("the tensor '" + shown(tensors_[i].name) + "' also stands in " +
               files_[tensors_[it->second].file].map().path().filename().string(),
           place(tensors_[i]),
           "remove it from one of the files: which one is meant cannot be known");
  }
  if (indexed) check_index(shards);
}

// Both are free of repeated names: if every entry is where the index says and the numbers are equal,
// they agree.
void Checkpoint::check_index(const ShardIndex& shards) const {
  const std::string file = (path_ / kIndex).string();
  std::vector<bool> listed(tensors_.size());
  for (const auto& [name, shard] : shards.tensors) {
    const auto it = index_.find(name);
    if (it == index_.end())
      fail("the index lists the tensor '" + shown(name) + "', but " + shards.files[shard] +
               " does not hold it",
           file + ": tensor " + shown(name),
           "fetch the shard and the index again: they do not belong together");
    if (tensors_[it->second].file != shard)
      fail("the index says " + shards.files[shard] + ", but the tensor '" + shown(name) +
               "' is in another file",
           place(tensors_[it->second]),
           "fetch the shards and the index again: they do not belong together");
    listed[it->second] = true;
  }
  const auto extra = std::find(listed.begin(), listed.end(), false);
  if (extra != listed.end()) {
    const TensorInfo& tensor = tensors_[static_cast<size_t>(extra - listed.begin())];
    fail("the tensor '" + shown(tensor.name) + "' is not listed in the index", place(tensor),
         "fetch the shards and the index again: they do not belong together");
  }
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const std::map<std::string, std::string>& Checkpoint::metadata() const {
  return files_.front().metadata();
}

moert::TensorView Checkpoint::view(const TensorInfo& info) const {
  const uint64_t alignment = std::max<uint64_t>(1, dtype_bytes(info.dtype, 1));
  if (info.offset % alignment != 0)
    fail("the data begin at byte " + std::to_string(info.offset) + ", no multiple of " +
             std::to_string(alignment),
         place(info), "write the file again with a library that aligns its tensors");
  return {const_cast<void*>(data(info)), info.dtype, info.shape.data(),
          static_cast<uint32_t>(info.shape.size()), MOERT_TENSOR_READ_ONLY};
}

const void* Checkpoint::data(const TensorInfo& info) const {
  return info.bytes == 0 ? nullptr : files_[info.file].map().bytes().data() + info.offset;
}

std::string Checkpoint::place(const TensorInfo& info) const {
  return files_[info.file].map().path().string() + ": tensor " + shown(info.name);
}

void Checkpoint::release(const TensorInfo& info, uint64_t first, uint64_t bytes) const {
  files_[info.file].map().release(info.offset + first, bytes);
}

}  // namespace moert::weights
