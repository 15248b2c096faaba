// SPDX-License-Identifier: Apache-2.0
#include "capture/replay.hpp"

#include <algorithm>
#include <string>

#include <moert/error.hpp>

namespace moert::capture {
namespace {

[[noreturn]] void fail(const CaptureFile& file, int64_t layer_id, const std::string& problem) {
  throw Error(Fault::input, problem, file.path().string() + ": layer " + std::to_string(layer_id),
              "replay a capture of this model");
}

}  // namespace

Replay::Replay(const std::filesystem::path& path, const std::vector<CapturedLayer>& layers)
    : file_(path), in_file_(layers.size(), -1), counts_(layers.size()) {
  for (const CapturedLayer& layer : layers) top_k_.push_back(layer.top_k);
  const std::vector<CapturedLayer>& kept = file_.info().layers;
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto found = std::find_if(layers.begin(), layers.end(), [&](const CapturedLayer& layer) {
      return layer.layer_id == kept[i].layer_id;
    });
    if (found == layers.end()) fail(file_, kept[i].layer_id, "the model has no such MoE layer");
    const auto differ = [&](const char* what, int64_t captured, int64_t of_model) {
      if (captured != of_model)
        fail(file_, kept[i].layer_id,
             std::string("the capture has ") + what + " " + std::to_string(captured) +
                 ", the model has " + std::to_string(of_model));
    };
    differ("num_experts", kept[i].num_experts, found->num_experts);
    differ("top_k", kept[i].top_k, found->top_k);
    in_file_[static_cast<size_t>(found - layers.begin())] = static_cast<int64_t>(i);
  }
}

const int32_t* Replay::ids(size_t layer, const RowKey* keys, int64_t rows, const uint8_t* valid) {
  const auto k = static_cast<size_t>(top_k_[layer]);
  ids_.assign(static_cast<size_t>(rows) * k, -1);
  int64_t next = 0;  // tokens of a step mostly follow each other in the file, too
  for (int64_t row = 0; row < rows; ++row) {
    if (valid != nullptr && valid[row] == 0) continue;
    bool found = false;
    if (in_file_[layer] >= 0) {
      const bool guessed = next < file_.rows() && file_.key(next) == keys[row];
      const int64_t at = guessed ? next : file_.find(keys[row]);
      found = at >= 0 && file_.read(at, static_cast<size_t>(in_file_[layer]),
                                    &ids_[static_cast<size_t>(row) * k]);
      if (at >= 0) next = at + 1;
    }
    ++(found ? counts_[layer].replayed : counts_[layer].native);
  }
  return ids_.data();
}

}  // namespace moert::capture
