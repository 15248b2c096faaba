// Which local copies a logical expert has.
// SPDX-License-Identifier: Apache-2.0
#include "expert_map.hpp"

#include <moert/sdk/tensor.hpp>

#include <numeric>

#include "../dense/numbers.hpp"

namespace moert::gpu {

ExpertMap::ExpertMap(int32_t ordinal, int64_t experts, int64_t ids, int64_t local_experts)
    : ordinal_(ordinal),
      experts_(experts),
      ids_(ids),
      local_experts_(local_experts),
      record_(ordinal, sizeof(ExpertCopies), "the expert map") {
  std::vector<int32_t> own(static_cast<size_t>(experts));
  std::iota(own.begin(), own.end(), 0);
  take(std::move(own), 1);
}

// What can fail comes before the record is written, and the old map goes after that.
void ExpertMap::take(std::vector<int32_t> fresh, int64_t width) {
  DeviceMemory memory(ordinal_, fresh, "the expert map");
  const ExpertCopies copies = {memory.data<int32_t>(), width};
  record_.write(&copies);
  std::swap(device_, memory);
  host_ = std::move(fresh);
  width_ = width;
}

void ExpertMap::set(const moert_tensor_t& map) {
  const Matrix source = matrix(&map, "expert map", {MOERT_DTYPE_I32}, experts_, -1, kCpu);
  if (source.cols < 1) throw PluginError(MOERT_INVALID_ARGUMENT, "an expert map without copies");
  std::vector<int32_t> fresh(static_cast<size_t>(experts_ * source.cols), -1);
  for (int64_t e = 0; e < experts_; ++e) {
    int64_t held = 0;
    for (int64_t r = 0; r < source.cols; ++r) {
      const int32_t id = integer(source, e, r);
      if (id < -1 || id >= local_experts_)
        throw PluginError(MOERT_OUT_OF_RANGE, "expert map of expert " + std::to_string(e) +
                                                  " names local id " + std::to_string(id) + " of " +
                                                  std::to_string(local_experts_));
      if (id >= 0) fresh[static_cast<size_t>(e * source.cols + held++)] = id;
    }
  }
  take(std::move(fresh), source.cols);
  is_set_ = true;
}

void ExpertMap::get(const moert_tensor_t& map) const {
  const auto out =
      strided<int32_t>(matrix(&map, "expert map", {MOERT_DTYPE_I32}, experts_, width_, kCpu));
  for (int64_t e = 0; e < experts_; ++e)
    for (int64_t r = 0; r < width_; ++r)
      out.data[e * out.row_stride + r * out.col_stride] =
          host_[static_cast<size_t>(e * width_ + r)];
}

ExpertMapView ExpertMap::view() const {
  return {record_.data<ExpertCopies>(), static_cast<int32_t>(experts_), static_cast<int32_t>(ids_)};
}

}  // namespace moert::gpu
