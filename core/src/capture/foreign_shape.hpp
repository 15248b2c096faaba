// Foreign arrays as they lie in memory: the type of an id, and which layer stands where.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <moert/error.hpp>

#include "capture/capture_info.hpp"
#include "capture/foreign.hpp"

namespace moert::capture {

struct IdType {
  std::string_view descr;  // NumPy's name: "|u1"
  size_t bytes = 1;
  bool is_signed = false;

  int64_t most() const {  // experts whose ids it holds
    return int64_t{1} << (8 * bytes - (is_signed ? 1 : 0));
  }
  int64_t load(const char* from) const;
  void store(int64_t id, char* to) const;
};

// [rows, layers, k] of one format for one model.
struct ForeignShape {
  IdType type;
  std::vector<std::optional<size_t>> layers;  // the capture's layer; nothing: a dense layer, zeros
  int64_t top_k = 0;
  bool npy = false;         // a .npy file; else the array alone
  bool has_absent = false;  // ids of -1

  size_t layer_bytes() const { return static_cast<size_t>(top_k) * type.bytes; }
  size_t row_bytes() const { return layers.size() * layer_bytes(); }
};

// Throws Error(`fault`) at `place` if the format cannot hold routing of this model.
ForeignShape foreign_shape(Foreign format, const CaptureInfo& info, Fault fault,
                           const std::string& place);

// The type that NumPy calls so; nothing: none that ids are read of.
std::optional<IdType> id_type(std::string_view descr);

const ForeignFormat& foreign_format(Foreign format);

}  // namespace moert::capture
