// SPDX-License-Identifier: Apache-2.0
#include "capture/file_checks.hpp"

#include <algorithm>
#include <vector>

#include <moert/error.hpp>

#include "capture/file_header.hpp"

namespace moert::capture {
namespace {

bool all_zero(const std::byte* data, size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte value) { return value == std::byte{0}; });
}

class Contents {
 public:
  Contents(const FileParts& parts, const CaptureInfo& info, const FileLayout& layout,
           const std::string& file)
      : parts_(parts), info_(info), layout_(layout), file_(file) {
    int64_t most = 0;
    for (const CapturedLayer& layer : info.layers) most = std::max(most, layer.top_k);
    if (parts.rows > 0) ids_.resize(static_cast<size_t>(most));
  }

  int64_t check() {
    int64_t absent = 0;
    for (int64_t row = 0; row < parts_.rows; ++row) {
      check_key(row);
      check_stray_bits(row);
      for (size_t layer = 0; layer < info_.layers.size(); ++layer) {
        const bool present = parts_.is_present(layout_, row, layer);
        present ? check_ids(row, layer) : check_zero(row, layer);
        absent += present ? 0 : 1;
      }
    }
    return absent;
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const char* tensor, int64_t row) const {
    const RowKey key = parts_.key(row);
    throw Error(Fault::input, problem,
                file_ + ": tensor " + tensor + ", row " + std::to_string(row) + " (sequence " +
                    std::to_string(key.sequence) + ", position " + std::to_string(key.position) +
                    ")",
                kWriteAgain);
  }
  std::string layer_name(size_t layer) const {
    return "layer " + std::to_string(info_.layers[layer].layer_id) + ": ";
  }

  void check_key(int64_t row) const {
    const RowKey key = parts_.key(row);
    if (key.position < 0) fail("a negative position", kPositions, row);
    if (key.position == INT64_MAX) fail("a position without a next one", kPositions, row);
    if (row == 0) return;
    const RowKey before = parts_.key(row - 1);
    if (key == before) fail("the row before has the same sequence and position", kPositions, row);
    if (key < before)
      fail("the rows are not in order of sequence and position",
           key.sequence < before.sequence ? kSequences : kPositions, row);
  }

  void check_stray_bits(int64_t row) const {
    const size_t used = info_.layers.size() % 8;
    if (used == 0) return;
    const auto last = static_cast<unsigned>(
        parts_.present[static_cast<size_t>(row + 1) * layout_.present_bytes() - 1]);
    if (last >> used != 0)
      fail("a bit is set for a layer that the capture does not have", kPresent, row);
  }

  void check_ids(int64_t row, size_t layer) {
    const CapturedLayer& at = info_.layers[layer];
    const int64_t slot = row * layout_.slots() + layout_.first_slot(layer);
    load_ids(parts_.ids + slot * layout_.id_bytes(), layout_.id_bytes(), at.top_k, ids_.data());
    const std::string problem = problem_of(ids_.data(), at.top_k, at.num_experts);
    if (!problem.empty()) fail(layer_name(layer) + problem, kIds, row);
  }

  void check_zero(int64_t row, size_t layer) const {
    const auto k = static_cast<size_t>(info_.layers[layer].top_k);
    const auto slot = static_cast<size_t>(row * layout_.slots() + layout_.first_slot(layer));
    const auto pair = static_cast<size_t>(row) * info_.layers.size() + layer;
    const auto check = [&](const std::byte* data, size_t bytes, const char* tensor) {
      if (!all_zero(data, bytes))
        fail(layer_name(layer) + "the decision is absent, but its bytes are not zero", tensor, row);
    };
    check(parts_.ids + slot * layout_.id_bytes(), k * layout_.id_bytes(), kIds);
    if (parts_.weights != nullptr)
      check(parts_.weights + slot * sizeof(float), k * sizeof(float), kWeights);
    if (parts_.margins != nullptr)
      check(parts_.margins + pair * sizeof(float), sizeof(float), kMargins);
  }

  const FileParts& parts_;
  const CaptureInfo& info_;
  const FileLayout& layout_;
  const std::string& file_;
  std::vector<int32_t> ids_;
};

}  // namespace

int64_t check_contents(const FileParts& parts, const CaptureInfo& info, const FileLayout& layout,
                       const std::string& file_name) {
  return Contents(parts, info, layout, file_name).check();
}

}  // namespace moert::capture
