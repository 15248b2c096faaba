// Capture files for tests: made from a function, and read back as plain values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/capture_file.hpp"

namespace moert::testing {

// What a layer decided for a token. Weights and margin are read where the info says that they are kept.
struct Decision {
  std::vector<int32_t> ids;
  std::vector<float> weights = {};
  float margin = 0;

  bool operator==(const Decision&) const = default;
};

// The decision for a key and a layer (an index); nothing: absent.
using Decide = std::function<std::optional<Decision>(capture::RowKey, size_t layer)>;

// Layers 0, 1, ... all alike.
inline capture::CaptureInfo capture_info(int64_t layers, int64_t experts, int64_t k) {
  capture::CaptureInfo info;
  info.model = "tiny";
  info.source = "test";
  info.hidden_layers = layers;
  for (int64_t i = 0; i < layers; ++i) info.layers.push_back({i, experts, k});
  return info;
}

inline std::vector<capture::RowKey> keys_of_sequence(int64_t sequence, int64_t tokens) {
  std::vector<capture::RowKey> keys;
  for (int64_t p = 0; p < tokens; ++p) keys.push_back({sequence, p});
  return keys;
}

// Asks `decide` in the order of `keys`.
inline void write_capture(const std::filesystem::path& path, const capture::CaptureInfo& info,
                          const std::vector<capture::RowKey>& keys, const Decide& decide) {
  capture::RowPlaces places;
  for (const capture::RowKey& key : keys) places.add(key);
  places.finish();
  capture::CaptureWriter writer(path, info, places);
  writer.set_lost(info.lost);
  for (const capture::RowKey& key : keys)
    for (size_t layer = 0; layer < info.layers.size(); ++layer) {
      std::optional<Decision> decision = decide(key, layer);
      if (!decision) continue;
      decision->weights.resize(decision->ids.size());
      writer.put(places.place(key), layer, decision->ids.data(), decision->weights.data(),
                 &decision->margin);
    }
  writer.commit();
}

inline std::optional<Decision> decision_of(const capture::CaptureFile& file, int64_t row,
                                           size_t layer) {
  const auto k = static_cast<size_t>(file.info().layers.at(layer).top_k);
  Decision decision;
  decision.ids.resize(k);
  decision.weights.resize(file.info().weights ? k : 0);
  if (!file.read(row, layer, decision.ids.data(), decision.weights.data(), &decision.margin))
    return {};
  return decision;
}

// A folder of this process alone, removed at the end.
class CaptureFolder {
 public:
  explicit CaptureFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("moert_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  CaptureFolder(const CaptureFolder&) = delete;
  CaptureFolder& operator=(const CaptureFolder&) = delete;
  ~CaptureFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace moert::testing
