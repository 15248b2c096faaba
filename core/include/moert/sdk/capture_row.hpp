// One token's routing decisions of all layers as a record of fixed size, and its parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <moert/abi/capturer.h>
#include <moert/sdk/error.hpp>

namespace moert {

// Bytes of the narrowest unsigned type that holds every id of `num_experts` experts: 1, 2 or 4.
inline uint32_t id_bytes(int64_t num_experts) {
  return num_experts <= 0x100 ? 1 : num_experts <= 0x10000 ? 2 : 4;
}

// Where the parts of a row stand, in bytes from its begin. In this order, each aligned to its element:
//   i64 sequence, i64 position, present bits (one per layer, the first in the lowest bit), ids of all
//   layers (unsigned, of one width, that of the layer with most experts), f32 weights of all layers, f32
//   margins of all layers; padded to a multiple of 8. Weights and margins only if they are captured.
// No id stands for "nothing": only the present bits say which layers' ids are data.
class CaptureRowLayout {
 public:
  // Throws MOERT_INVALID_ARGUMENT: no layers, sizes that make no sense. `spec` need not outlive it.
  explicit CaptureRowLayout(const moert_capture_spec_t& spec)
      : has_weights_((spec.what & MOERT_CAPTURE_WEIGHTS) != 0),
        has_margins_((spec.what & MOERT_CAPTURE_MARGINS) != 0) {
    if (spec.n_layers == 0) throw PluginError(MOERT_INVALID_ARGUMENT, "a capture without layers");
    for (uint32_t i = 0; i < spec.n_layers; ++i) {
      if (spec.top_k[i] < 1 || spec.num_experts[i] < spec.top_k[i] ||
          spec.num_experts[i] > INT32_MAX)
        throw PluginError(MOERT_INVALID_ARGUMENT,
                          "layer " + std::to_string(spec.layer_ids[i]) + " has top_k " +
                              std::to_string(spec.top_k[i]) + " of " +
                              std::to_string(spec.num_experts[i]) + " experts");
      layers_.push_back({spec.num_experts[i], spec.top_k[i], slots_});
      slots_ += static_cast<size_t>(spec.top_k[i]);
      const uint32_t width = id_bytes(spec.num_experts[i]);
      if (width > id_bytes_) id_bytes_ = width;
    }
    ids_ = rounded(kPresent + (layers_.size() + 7) / 8, id_bytes_);
    weights_ = rounded(ids_ + slots_ * id_bytes_, sizeof(float));
    margins_ = weights_ + (has_weights_ ? slots_ * sizeof(float) : 0);
    bytes_ = rounded(margins_ + (has_margins_ ? layers_.size() * sizeof(float) : 0), 8);
  }

  size_t bytes() const { return bytes_; }
  size_t layers() const { return layers_.size(); }
  size_t slots() const { return slots_; }  // sum of k
  uint32_t id_width() const { return id_bytes_; }
  int64_t num_experts(size_t layer) const { return layers_[layer].num_experts; }
  int64_t top_k(size_t layer) const { return layers_[layer].top_k; }
  size_t first_slot(size_t layer) const { return layers_[layer].first; }
  // Bytes from a row's begin to a layer's parts, for code that writes rows elsewhere. Its present bit is
  // layer % 8 of its byte.
  size_t present_byte(size_t layer) const { return kPresent + layer / 8; }
  size_t ids_byte(size_t layer) const { return ids_ + layers_[layer].first * id_bytes_; }
  size_t weights_byte(size_t layer) const {
    return weights_ + layers_[layer].first * sizeof(float);
  }
  size_t margin_byte(size_t layer) const { return margins_ + layer * sizeof(float); }
  bool has_weights() const { return has_weights_; }
  bool has_margins() const { return has_margins_; }

  // A row without decisions.
  void start(std::byte* row, int64_t sequence, int64_t position) const {
    std::memset(row, 0, bytes_);
    set_token(row, sequence, position);
  }
  void set_token(std::byte* row, int64_t sequence, int64_t position) const {
    std::memcpy(row, &sequence, sizeof sequence);
    std::memcpy(row + sizeof sequence, &position, sizeof position);
  }
  int64_t sequence(const std::byte* row) const { return load<int64_t>(row); }
  int64_t position(const std::byte* row) const { return load<int64_t>(row + sizeof(int64_t)); }
  bool present(const std::byte* row, size_t layer) const {
    return (static_cast<unsigned>(row[kPresent + layer / 8]) >> (layer % 8) & 1U) != 0;
  }

  // A layer's decisions; `ids` are k numbers in [0, num_experts). `weights` [k] and `margin` are read only
  // if they are captured.
  void put(std::byte* row, size_t layer, const int32_t* ids, const float* weights,
           const float* margin) const {
    const Layer& at = layers_[layer];
    const auto k = static_cast<size_t>(at.top_k);
    std::byte* to = row + ids_ + at.first * id_bytes_;
    if (id_bytes_ == 1) {
      for (size_t j = 0; j < k; ++j) to[j] = static_cast<std::byte>(ids[j]);
    } else if (id_bytes_ == 2) {
      for (size_t j = 0; j < k; ++j) {
        const auto id = static_cast<uint16_t>(ids[j]);
        std::memcpy(to + 2 * j, &id, sizeof id);
      }
    } else {
      std::memcpy(to, ids, k * sizeof(int32_t));
    }
    if (has_weights_)
      std::memcpy(row + weights_ + at.first * sizeof(float), weights, k * sizeof(float));
    if (has_margins_) std::memcpy(row + margins_ + layer * sizeof(float), margin, sizeof(float));
    row[kPresent + layer / 8] |= static_cast<std::byte>(1U << (layer % 8));
  }

  // Makes a layer absent again, and its bytes zero.
  void clear(std::byte* row, size_t layer) const {
    const Layer& at = layers_[layer];
    const auto k = static_cast<size_t>(at.top_k);
    std::memset(row + ids_ + at.first * id_bytes_, 0, k * id_bytes_);
    if (has_weights_) std::memset(row + weights_ + at.first * sizeof(float), 0, k * sizeof(float));
    if (has_margins_) std::memset(row + margins_ + layer * sizeof(float), 0, sizeof(float));
    row[kPresent + layer / 8] &= ~static_cast<std::byte>(1U << (layer % 8));
  }

  // Reads a layer that is present. Each pointer may be NULL.
  void get(const std::byte* row, size_t layer, int32_t* ids, float* weights, float* margin) const {
    const Layer& at = layers_[layer];
    const auto k = static_cast<size_t>(at.top_k);
    const std::byte* from = row + ids_ + at.first * id_bytes_;
    for (size_t j = 0; ids != nullptr && j < k; ++j)
      ids[j] = id_bytes_ == 1   ? static_cast<int32_t>(from[j])
               : id_bytes_ == 2 ? static_cast<int32_t>(load<uint16_t>(from + 2 * j))
                                : load<int32_t>(from + 4 * j);
    if (weights != nullptr && has_weights_)
      std::memcpy(weights, row + weights_ + at.first * sizeof(float), k * sizeof(float));
    if (margin != nullptr && has_margins_)
      std::memcpy(margin, row + margins_ + layer * sizeof(float), sizeof(float));
  }

  // Row `r` of an answer to read.
  void give(const std::byte* row, int64_t r, const moert_capture_rows_t& rows) const {
    const bool there = present(row, rows.layer);
    if (rows.present != nullptr) rows.present[r] = there ? 1 : 0;
    if (rows.sequences != nullptr) rows.sequences[r] = sequence(row);
    if (rows.positions != nullptr) rows.positions[r] = position(row);
    if (!there) return;
    const int64_t k = top_k(rows.layer);
    get(row, rows.layer, rows.ids == nullptr ? nullptr : rows.ids + r * k,
        rows.weights == nullptr ? nullptr : rows.weights + r * k,
        rows.margins == nullptr ? nullptr : rows.margins + r);
  }
  // Checks a request for reading `total` rows; how many it gets. Throws MOERT_INVALID_ARGUMENT.
  int64_t readable(const moert_capture_rows_t& rows, int64_t total) const {
    if (rows.layer >= layers_.size())
      throw PluginError(MOERT_INVALID_ARGUMENT, "layer index " + std::to_string(rows.layer) +
                                                    ", there are " +
                                                    std::to_string(layers_.size()) + " layers");
    if (rows.first < 0 || rows.rows < 0)
      throw PluginError(MOERT_INVALID_ARGUMENT, "rows " + std::to_string(rows.rows) + " from " +
                                                    std::to_string(rows.first));
    if ((rows.weights != nullptr && !has_weights_) || (rows.margins != nullptr && !has_margins_))
      throw PluginError(MOERT_INVALID_ARGUMENT, "weights or margins were not captured");
    const int64_t behind = total - rows.first;
    return behind < 0 ? 0 : behind < rows.rows ? behind : rows.rows;
  }

 private:
  struct Layer {
    int64_t num_experts, top_k;
    size_t first;  // of its slots among those of all layers
  };
  static constexpr size_t kPresent = 2 * sizeof(int64_t);
  static size_t rounded(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }
  template <class T>
  static T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  std::vector<Layer> layers_;
  size_t slots_ = 0, ids_ = 0, weights_ = 0, margins_ = 0, bytes_ = 0;
  uint32_t id_bytes_ = 1;
  bool has_weights_, has_margins_;
};

}  // namespace moert
