// Writes safetensors files, laid out as the format's own library does it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <moert/error.hpp>
#include <nlohmann/json.hpp>

#include "weights/header.hpp"
#include "weights/safetensors.hpp"
#include "weights/text.hpp"

namespace moert::weights {
namespace {

// Throws Error(usage) for text that is no UTF-8.
std::string quoted(const std::string& text, const std::filesystem::path& path) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(Fault::usage, "'" + shown(text) + "' is no valid UTF-8", path.string(),
                "give the tensor or metadata entry another name");
  }
}

std::string metadata_text(const std::map<std::string, std::string>& metadata,
                          const std::filesystem::path& path) {
  std::string text = "{";
  if (metadata.empty()) return text;
  text += "\"__metadata__\":{";
  for (const auto& [key, value] : metadata)
    text += quoted(key, path) + ":" + quoted(value, path) + ",";
  text.back() = '}';
  return text;
}

void append_entry(const TensorInfo& info, uint64_t offset, const std::filesystem::path& path,
                  std::string* header) {
  *header += quoted(info.name, path) + ":{\"dtype\":\"" +
             std::string(dtype_info(info.dtype)->safetensors) + "\",\"shape\":[";
  for (size_t i = 0; i < info.shape.size(); ++i)
    header->append(i != 0 ? "," : "").append(std::to_string(info.shape[i]));
  *header += "],\"data_offsets\":[" + std::to_string(offset) + "," +
             std::to_string(offset + info.bytes) + "]}";
}

template <class Entries>
void refuse_twins(const Entries& entries, const std::filesystem::path& path) {
  std::vector<std::string_view> names;
  for (const auto* entry : entries) names.emplace_back(entry->info.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end())
    throw Error(Fault::usage, "two tensors have the name '" + shown(*twin) + "'", path.string(),
                "give each tensor its own name");
}

}  // namespace

void SafetensorsWriter::add(std::string name, uint32_t dtype, std::vector<int64_t> shape,
                            const void* data) {
  const auto fail = [&name](const std::string& problem) {
    throw Error(Fault::usage, "cannot write a tensor: " + problem, "tensor " + shown(name),
                "give it a dtype and a shape that the safetensors format has");
  };
  std::string problem;
  uint64_t bytes = 0;
  const DtypeInfo* type = dtype_info(dtype);
  if (type == nullptr || type->safetensors.empty())
    fail(std::string("the format has no ") + std::string(dtype_name(dtype)));
  if (name == "__metadata__") fail("its name is reserved");
  if (!tensor_bytes(dtype, shape, &bytes, &problem)) fail(problem);
  entries_.push_back({{std::move(name), dtype, std::move(shape), 0, bytes, 0}, data});
}

void SafetensorsWriter::set_metadata(std::string key, std::string value) {
  metadata_.insert_or_assign(std::move(key), std::move(value));
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  refuse_twins(order, path);
  // Widest types first keeps every tensor aligned, since the data section begins at a multiple of 8.
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    const int left = dtype_bits(a->info.dtype), right = dtype_bits(b->info.dtype);
    return left != right ? left > right : a->info.name < b->info.name;
  });
  std::string header = metadata_text(metadata_, path);
  uint64_t offset = 0;
  for (const Entry* entry : order) {
    header += header.size() > 1 ? "," : "";
    append_entry(entry->info, offset, path, &header);
    offset += entry->info.bytes;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMaxHeaderBytes)
    throw Error(
        Fault::usage,
        "a header of " + std::to_string(header.size()) + " bytes is above the format's limit",
        path.string(), "write fewer tensors, or shorter names and metadata");
  unsigned char length[8];
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  AtomicFile file(path);
  file.write(length, sizeof length);
  file.write(header.data(), header.size());
  for (const Entry* entry : order) file.write(entry->data, entry->info.bytes);
  file.commit();
}

}  // namespace moert::weights
