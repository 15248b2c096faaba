// SPDX-License-Identifier: Apache-2.0
#include "capture/file_layout.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <moert/sdk/capture_row.hpp>

namespace moert::capture {
namespace {

constexpr int64_t kMostLayers = 1'000'000;  // far above any model: keeps products of sizes small

std::string problem_of(const CapturedLayer& layer) {
  const std::string name = "layer " + std::to_string(layer.layer_id);
  if (layer.num_experts < 1 || layer.num_experts > std::numeric_limits<int32_t>::max())
    return name + " has " + std::to_string(layer.num_experts) + " experts";
  if (layer.top_k < 1 || layer.top_k > layer.num_experts)
    return name + " has top_k " + std::to_string(layer.top_k) + " of " +
           std::to_string(layer.num_experts) + " experts";
  return "";
}

// The first id that an earlier one equals, or -1. Few ids are compared pair by pair, many are sorted.
int32_t repeated(const int32_t* ids, int64_t k) {
  constexpr int64_t kFew = 32;
  if (k > kFew) {
    std::vector<int32_t> sorted(ids, ids + k);
    std::sort(sorted.begin(), sorted.end());
    const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
    return twin == sorted.end() ? -1 : *twin;
  }
  for (int64_t i = 1; i < k; ++i)
    for (int64_t j = 0; j < i; ++j)
      if (ids[i] == ids[j]) return ids[i];
  return -1;
}

}  // namespace

std::string problem_of(const CaptureInfo& info) {
  if (info.layers.empty()) return "there are no MoE layers";
  int64_t before = -1;
  for (const CapturedLayer& layer : info.layers) {
    const std::string id = std::to_string(layer.layer_id);
    if (layer.layer_id < 0 || layer.layer_id >= kMostLayers) return id + " is no number of a layer";
    if (layer.layer_id <= before)
      return "layer " + id + " stands after layer " + std::to_string(before);
    if (std::string problem = problem_of(layer); !problem.empty()) return problem;
    before = layer.layer_id;
  }
  if (info.hidden_layers < 0 || info.hidden_layers > kMostLayers ||
      (info.hidden_layers != 0 && info.hidden_layers <= before))
    return "hidden_layers is " + std::to_string(info.hidden_layers) + ", but there is a layer " +
           std::to_string(before);
  if (info.slot_order != "selection" && info.slot_order != "unknown")
    return "slot_order is '" + info.slot_order + "'; it can be selection or unknown";
  if (info.lost < 0) return std::to_string(info.lost) + " rows are lost";
  return "";
}

std::string problem_of(const int32_t* ids, int64_t k, int64_t num_experts) {
  for (int64_t j = 0; j < k; ++j)
    if (ids[j] < 0 || ids[j] >= num_experts)
      return "expert " + std::to_string(ids[j]) + " is out of range: the layer has " +
             std::to_string(num_experts);
  const int32_t twin = repeated(ids, k);
  return twin < 0 ? "" : "expert " + std::to_string(twin) + " stands twice among the ids of a row";
}

FileLayout::FileLayout(const CaptureInfo& info) : even_k_(info.layers.front().top_k) {
  int64_t most = 1;
  for (const CapturedLayer& layer : info.layers) {
    first_slots_.push_back(slots_);
    slots_ += layer.top_k;
    most = std::max(most, layer.num_experts);
    if (layer.top_k != even_k_) even_k_ = 0;
  }
  id_bytes_ = moert::id_bytes(most);
}

std::vector<FileTensor> FileLayout::tensors(const CaptureInfo& info, int64_t rows) const {
  const auto layers = static_cast<int64_t>(first_slots_.size());
  const std::vector<int64_t> slots = even_k_ != 0 ? std::vector<int64_t>{rows, layers, even_k_}
                                                  : std::vector<int64_t>{rows, slots_};
  const uint32_t ids = id_bytes_ == 1   ? MOERT_DTYPE_U8
                       : id_bytes_ == 2 ? MOERT_DTYPE_U16
                                        : MOERT_DTYPE_U32;
  std::vector<FileTensor> all = {{kIds, ids, slots},
                                 {kPresent, MOERT_DTYPE_U8, {rows, (layers + 7) / 8}},
                                 {kSequences, MOERT_DTYPE_I64, {rows}},
                                 {kPositions, MOERT_DTYPE_I64, {rows}}};
  if (info.weights) all.push_back({kWeights, MOERT_DTYPE_F32, slots});
  if (info.margins) all.push_back({kMargins, MOERT_DTYPE_F32, {rows, layers}});
  return all;
}

void load_ids(const std::byte* from, uint32_t width, int64_t k, int32_t* ids) {
  if (width == 1) {
    for (int64_t j = 0; j < k; ++j) ids[j] = static_cast<int32_t>(from[j]);
  } else if (width == 2) {
    for (int64_t j = 0; j < k; ++j) {
      uint16_t id;
      std::memcpy(&id, from + 2 * j, sizeof id);
      ids[j] = id;
    }
  } else {
    std::memcpy(ids, from, static_cast<size_t>(k) * sizeof *ids);
  }
}

void store_ids(const int32_t* ids, uint32_t width, int64_t k, std::byte* to) {
  if (width == 1) {
    for (int64_t j = 0; j < k; ++j) to[j] = static_cast<std::byte>(ids[j]);
  } else if (width == 2) {
    for (int64_t j = 0; j < k; ++j) {
      const auto id = static_cast<uint16_t>(ids[j]);
      std::memcpy(to + 2 * j, &id, sizeof id);
    }
  } else {
    std::memcpy(to, ids, static_cast<size_t>(k) * sizeof *ids);
  }
}

}  // namespace moert::capture
