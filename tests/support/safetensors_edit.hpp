// Checkpoints for tests: read, drop, rename, duplicate or reshape a tensor, write again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <moert/sdk/dtypes.hpp>
#include <nlohmann/json.hpp>

#include "weights/safetensors.hpp"

namespace moert::testing {

struct EditTensor {
  std::string name;
  uint32_t dtype = MOERT_DTYPE_F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

// Tensors in memory. Writes what it is told, damaged or not: names may stand twice, and data need
// not fit their shape, so that readers can be tested. Data lie in the order of `tensors`.
class SafetensorsEdit {
 public:
  SafetensorsEdit() = default;
  // A file, or a checkpoint folder, whose shards become one.
  explicit SafetensorsEdit(const std::filesystem::path& path) {
    const weights::Checkpoint checkpoint(path);
    for (const weights::TensorInfo& info : checkpoint.tensors()) {
      const auto* data = static_cast<const std::byte*>(checkpoint.view(info).get()->data);
      tensors.push_back({info.name, info.dtype, info.shape, {data, data + info.bytes}});
    }
  }

  // The tensor of that name; throws if there is none.
  EditTensor& at(const std::string& name) {
    const auto it = std::find_if(tensors.begin(), tensors.end(),
                                 [&name](const EditTensor& tensor) { return tensor.name == name; });
    if (it == tensors.end()) throw std::out_of_range("no tensor " + name);
    return *it;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const EditTensor& tensor : tensors) result.push_back(tensor.name);
    return result;
  }

  // Zeros.
  void add(const std::string& name, std::vector<int64_t> shape, uint32_t dtype = MOERT_DTYPE_F32) {
    int64_t n = 1;
    for (const int64_t size : shape) n *= size;
    tensors.push_back(
        {name, dtype, std::move(shape), std::vector<std::byte>(dtype_bytes(dtype, n))});
  }
  void add_f32(const std::string& name, std::vector<int64_t> shape,
               const std::vector<float>& values) {
    add(name, std::move(shape));
    tensors.back().data.resize(values.size() * sizeof(float));
    std::memcpy(tensors.back().data.data(), values.data(), tensors.back().data.size());
  }
  void drop(const std::string& name) {
    tensors.erase(tensors.begin() + (&at(name) - tensors.data()));
  }
  void rename(const std::string& name, const std::string& to) { at(name).name = to; }
  void duplicate(const std::string& name, const std::string& as) {
    EditTensor copy = at(name);
    copy.name = as;
    tensors.push_back(std::move(copy));
  }
  // Another shape; data are cut, or filled up with zeros.
  void reshape(const std::string& name, std::vector<int64_t> shape) {
    EditTensor& tensor = at(name);
    int64_t n = 1;
    for (const int64_t size : shape) n *= size;
    tensor.shape = std::move(shape);
    tensor.data.resize(dtype_bytes(tensor.dtype, n));
  }
  // Another dtype; the bits are not converted.
  void retype(const std::string& name, uint32_t dtype) {
    at(name).dtype = dtype;
    reshape(name, at(name).shape);
  }

  std::string bytes() const {
    std::string header = "{";
    size_t offset = 0;
    for (const EditTensor& tensor : tensors) {
      if (header.size() > 1) header += ",";
      header += nlohmann::json(tensor.name).dump() + ":{\"dtype\":\"" +
                std::string(dtype_info(tensor.dtype)->safetensors) +
                "\",\"shape\":" + nlohmann::json(tensor.shape).dump() + ",\"data_offsets\":[" +
                std::to_string(offset) + "," + std::to_string(offset + tensor.data.size()) + "]}";
      offset += tensor.data.size();
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string text;
    for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i));
    text += header;
    for (const EditTensor& tensor : tensors)
      text.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    return text;
  }
  void write(const std::filesystem::path& file) const { write_bytes(file, bytes()); }

  // Writes a checkpoint folder of one file: `like`'s other files (config.json, golden files), and
  // these tensors as model.safetensors.
  void write_folder(const std::filesystem::path& folder, const std::filesystem::path& like) const {
    namespace fs = std::filesystem;
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const fs::directory_entry& entry : fs::directory_iterator(like))
      if (entry.path().filename().string().rfind("model", 0) != 0)
        fs::copy(entry.path(), folder / entry.path().filename());
    write(folder / "model.safetensors");
  }

  static void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
  }

  std::vector<EditTensor> tensors;
};

}  // namespace moert::testing
