// A loaded model whose routing is captured, step by step, into a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include "capture/capture_file.hpp"
#include "runtime/step.hpp"
#include "unit/bugs/tiny_model.hpp"

namespace moert::bugs {

class Captured {
 public:
  Captured(Loaded& loaded, const spec::Capture& wanted, int64_t max_tokens = 64)
      : loaded_(loaded),
        set_(session(), loaded.model(), max_tokens),
        capturer_(&set_.attach(wanted)),
        step_(loaded.model(), loaded.context(), set_) {}
  explicit Captured(Loaded& loaded) : Captured(loaded, all()) {}

  static spec::Capture all(const std::string& to = "memory") {
    spec::Capture wanted;
    wanted.to = to;
    wanted.what = {"ids", "weights", "margins"};
    return wanted;
  }

  // Rows [tokens, hidden] through every layer; each layer reads these rows. Gives the ids of each layer.
  std::vector<std::vector<int32_t>> run(const std::vector<capture::RowKey>& keys,
                                        const std::vector<float>& hidden,
                                        const std::vector<uint8_t>& valid = {}, bool final = true) {
    const auto tokens = static_cast<int64_t>(keys.size());
    std::vector<std::vector<int32_t>> ids;
    step_.begin({tokens, keys.data(), valid.empty() ? nullptr : valid.data(), final});
    for (size_t layer = 0; layer < loaded_.model().num_layers(); ++layer) {
      loaded_.context().set_hidden(hidden.data(), tokens);
      const int32_t* forced = step_.enter(layer);
      loaded_.context().forward(layer, forced, step_.valid());
      step_.leave(layer);
      loaded_.context().read_routing(layer, loaded_.routing, true);
      ids.push_back(loaded_.routing.ids);
    }
    step_.end();
    return ids;
  }

  capture::CaptureFile file() const {
    const fs::path path = fresh_folder() / "routes.safetensors";
    set_.write(*capturer_, path);
    return capture::CaptureFile(path);
  }
  runtime::CaptureSet& set() { return set_; }
  runtime::Step& step() { return step_; }

 private:
  Loaded& loaded_;
  runtime::CaptureSet set_;
  runtime::AttachedCapturer* capturer_;
  runtime::Step step_;
};

// The ids of one token and layer; empty where absent.
inline std::vector<int32_t> ids_at(const capture::CaptureFile& file, capture::RowKey key,
                                   size_t layer) {
  const int64_t row = file.find(key);
  if (row < 0) return {};
  std::vector<int32_t> ids(static_cast<size_t>(file.info().layers.at(layer).top_k));
  if (!file.read(row, layer, ids.data())) ids.clear();
  return ids;
}

// How many ids each layer has after a step of `tokens` rows, absent rows aside.
inline std::vector<size_t> captured_ids(Loaded& loaded, int64_t tokens) {
  Captured captured(loaded);
  std::vector<capture::RowKey> keys;
  for (int64_t t = 0; t < tokens; ++t) keys.push_back({0, t});
  captured.run(keys, random_rows(tokens, loaded.spec().hidden_size, 5));
  const capture::CaptureFile file = captured.file();
  std::vector<size_t> sizes(file.info().layers.size());
  for (size_t layer = 0; layer < sizes.size(); ++layer)
    for (const capture::RowKey& key : keys) sizes[layer] += ids_at(file, key, layer).size();
  return sizes;
}

// Row `t` of [tokens, k].
inline std::vector<int32_t> row_ids(const std::vector<int32_t>& ids, size_t t, size_t k) {
  return {ids.begin() + static_cast<ptrdiff_t>(t * k),
          ids.begin() + static_cast<ptrdiff_t>((t + 1) * k)};
}

}  // namespace moert::bugs
