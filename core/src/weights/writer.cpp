// Writes safetensors files, laid out as the format's own library does it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "weights/header_text.hpp"
#include "weights/safetensors.hpp"

namespace moert::weights {

void SafetensorsWriter::add(std::string name, uint32_t dtype, std::vector<int64_t> shape,
                            const void* data) {
  entries_.push_back({new_tensor(std::move(name), dtype, std::move(shape)), data});
}

void SafetensorsWriter::set_metadata(std::string key, std::string value) {
  metadata_.insert_or_assign(std::move(key), std::move(value));
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  std::vector<Entry> entries = entries_;
  std::vector<TensorInfo*> tensors;
  for (Entry& entry : entries) tensors.push_back(&entry.info);
  const std::string header = lay_out(tensors, metadata_, path);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.info.offset < b.info.offset; });
  AtomicFile file(path);
  file.write(header.data(), header.size());
  for (const Entry& entry : entries) file.write(entry.data, entry.info.bytes);
  file.commit();
}

}  // namespace moert::weights
