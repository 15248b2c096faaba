// SPDX-License-Identifier: Apache-2.0
#include "weights/header_text.hpp"

#include <algorithm>
#include <utility>

#include <moert/error.hpp>
#include <nlohmann/json.hpp>

#include "weights/header.hpp"
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

void refuse_twins(const std::vector<TensorInfo*>& tensors, const std::filesystem::path& path) {
  std::vector<std::string_view> names;
  for (const TensorInfo* info : tensors) names.emplace_back(info->name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end())
    throw Error(Fault::usage, "two tensors have the name '" + shown(*twin) + "'", path.string(),
                "give each tensor its own name");
}

}  // namespace

TensorInfo new_tensor(std::string name, uint32_t dtype, std::vector<int64_t> shape) {
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
  return {std::move(name), dtype, std::move(shape), 0, bytes, 0};
}

std::string lay_out(const std::vector<TensorInfo*>& tensors,
                    const std::map<std::string, std::string>& metadata,
                    const std::filesystem::path& path) {
  std::vector<TensorInfo*> order = tensors;
  refuse_twins(order, path);
  // Widest types first keeps every tensor aligned, since the data section begins at a multiple of 8.
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    const int left = dtype_bits(a->dtype), right = dtype_bits(b->dtype);
    return left != right ? left > right : a->name < b->name;
  });
  std::string header = metadata_text(metadata, path);
  uint64_t offset = 0;
  for (TensorInfo* info : order) {
    header += header.size() > 1 ? "," : "";
    append_entry(*info, offset, path, &header);
    info->offset = offset;
    offset += info->bytes;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMaxHeaderBytes)
    throw Error(
        Fault::usage,
        "a header of " + std::to_string(header.size()) + " bytes is above the format's limit",
        path.string(), "write fewer tensors, or shorter names and metadata");
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  for (TensorInfo* info : order) info->offset += length.size() + header.size();
  return length + header;
}

}  // namespace moert::weights
