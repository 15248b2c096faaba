// Writes a capture file into a mapping of its full size.
// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <moert/error.hpp>

#include "capture/capture_file.hpp"
#include "capture/file_header.hpp"
#include "capture/file_layout.hpp"
#include "util/file.hpp"
#include "weights/header_text.hpp"

namespace moert::capture {
namespace {

constexpr const char* kOurFault = "this is a fault of the program that writes the file";

CaptureInfo checked(CaptureInfo info, const std::filesystem::path& path) {
  if (const std::string problem = problem_of(info); !problem.empty())
    throw Error(Fault::usage, "cannot write a capture of such a model: " + problem, path.string(),
                kOurFault);
  return info;
}

}  // namespace

struct CaptureWriter::Impl {
  Impl(const std::filesystem::path& target, CaptureInfo asked, const RowPlaces& places)
      : path(target),
        header{checked(std::move(asked), target), places.rows(), 0, {}},
        layout(header.info),
        file(target) {
    const auto layers = static_cast<int64_t>(header.info.layers.size());
    if (__builtin_mul_overflow(header.rows, layers, &header.absent))
      throw Error(Fault::usage, "too many rows for one file", path.string(), "write several files");
    for (FileTensor& tensor : layout.tensors(header.info, header.rows)) {
      tensors.push_back(weights::new_tensor(tensor.name, tensor.dtype, std::move(tensor.shape)));
      header.checksums[tensor.name] = 0;
    }
    const size_t bytes = reserve();
    data = file.map(bytes).data();
    ids = of(kIds);
    present = of(kPresent);
    if (header.info.weights) weights_at = of(kWeights);
    if (header.info.margins) margins = of(kMargins);
    std::byte *sequences = of(kSequences), *positions = of(kPositions);
    places.for_each([&](int64_t row, RowKey key) {
      std::memcpy(sequences + row * 8, &key.sequence, 8);
      std::memcpy(positions + row * 8, &key.position, 8);
    });
  }

  std::string header_text(const FileHeader& of_file) {
    std::vector<weights::TensorInfo*> all;
    for (weights::TensorInfo& tensor : tensors) all.push_back(&tensor);
    return weights::lay_out(all, metadata_of(of_file), path);
  }

  // Gives each tensor its place behind a header of the longest counts; the file's size.
  size_t reserve() {
    FileHeader longest = header;
    longest.info.lost = std::numeric_limits<int64_t>::max();  // and with it, complete is "false"
    header_bytes = header_text(longest).size();
    size_t bytes = header_bytes;
    for (const weights::TensorInfo& tensor : tensors) bytes += tensor.bytes;
    return bytes;
  }

  std::byte* of(const char* name) const {
    for (const weights::TensorInfo& tensor : tensors)
      if (tensor.name == name) return data + tensor.offset;
    return nullptr;
  }

  [[noreturn]] void fail(Fault fault, const std::string& problem, int64_t row, size_t layer) const {
    std::string place = path.string() + ": row " + std::to_string(row);
    if (data != nullptr && row >= 0 && row < header.rows) {
      RowKey key;
      std::memcpy(&key.sequence, of(kSequences) + row * 8, 8);
      std::memcpy(&key.position, of(kPositions) + row * 8, 8);
      place += " (sequence " + std::to_string(key.sequence) + ", position " +
               std::to_string(key.position) + ")";
    }
    if (layer < header.info.layers.size())
      place += ", layer " + std::to_string(header.info.layers[layer].layer_id);
    throw Error(fault, problem, place, kOurFault);
  }

  void check(int64_t row, size_t layer, const int32_t* new_ids, const float* new_weights,
             const float* margin) const {
    if (data == nullptr) fail(Fault::usage, "a row is put into a finished file", row, layer);
    if (row < 0 || row >= header.rows || layer >= header.info.layers.size())
      fail(Fault::usage, "a row or layer that the file does not have", row, layer);
    if (new_ids == nullptr) return;
    if ((header.info.weights && new_weights == nullptr) ||
        (header.info.margins && margin == nullptr))
      fail(Fault::usage, "weights or margins are to be kept, but were not given", row, layer);
    const CapturedLayer& at = header.info.layers[layer];
    if (const std::string problem = problem_of(new_ids, at.top_k, at.num_experts); !problem.empty())
      fail(Fault::input, problem, row, layer);
  }

  void put(int64_t row, size_t layer, const int32_t* new_ids, const float* new_weights,
           const float* margin) {
    const int64_t k = header.info.layers[layer].top_k;
    const int64_t slot = row * layout.slots() + layout.first_slot(layer);
    const auto value_bytes = static_cast<size_t>(k) * sizeof(float);
    const int64_t pair =
        row * static_cast<int64_t>(header.info.layers.size()) + static_cast<int64_t>(layer);
    std::byte& bits = present[row * static_cast<int64_t>(layout.present_bytes()) +
                              static_cast<int64_t>(layer / 8)];
    const std::byte bit{static_cast<uint8_t>(1U << (layer % 8))};
    std::byte* const id_at = ids + slot * layout.id_bytes();
    header.absent += (bits & bit) != std::byte{0} ? 1 : 0;
    if (new_ids == nullptr) {
      bits &= ~bit;
      std::memset(id_at, 0, static_cast<size_t>(k * layout.id_bytes()));
      if (weights_at != nullptr) std::memset(weights_at + slot * 4, 0, value_bytes);
      if (margins != nullptr) std::memset(margins + pair * 4, 0, sizeof(float));
      return;
    }
    header.absent -= 1;
    bits |= bit;
    store_ids(new_ids, layout.id_bytes(), k, id_at);
    if (weights_at != nullptr) std::memcpy(weights_at + slot * 4, new_weights, value_bytes);
    if (margins != nullptr) std::memcpy(margins + pair * 4, margin, sizeof(float));
  }

  void commit() {
    if (data == nullptr)
      throw Error(Fault::usage, "the file is finished already", path.string(), kOurFault);
    const std::vector<weights::TensorInfo> placed = tensors;
    for (const weights::TensorInfo& tensor : placed)
      header.checksums[tensor.name] = static_cast<uint32_t>(
          ::crc32_z(0, reinterpret_cast<const Bytef*>(data + tensor.offset), tensor.bytes));
    // Shorter counts leave space at the end of the header, which the format allows there.
    std::string text = header_text(header);
    tensors = placed;
    text.resize(header_bytes, ' ');
    for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((header_bytes - 8) >> (8 * i));
    std::memcpy(data, text.data(), text.size());
    data = nullptr;
    file.commit();
  }

  std::filesystem::path path;
  FileHeader header;
  FileLayout layout;
  AtomicFile file;
  std::vector<weights::TensorInfo> tensors;
  size_t header_bytes = 0;
  std::byte *data = nullptr, *ids = nullptr, *present = nullptr;
  std::byte *weights_at = nullptr, *margins = nullptr;  // nullptr: not kept
};

CaptureWriter::CaptureWriter(const std::filesystem::path& path, CaptureInfo info,
                             const RowPlaces& places)
    : impl_(std::make_unique<Impl>(path, std::move(info), places)) {}

CaptureWriter::~CaptureWriter() = default;

void CaptureWriter::put(int64_t row, size_t layer, const int32_t* ids, const float* weights,
                        const float* margin) {
  impl_->check(row, layer, ids, weights, margin);
  impl_->put(row, layer, ids, weights, margin);
}

void CaptureWriter::set_lost(int64_t rows) {
  if (rows < 0)
    throw Error(Fault::usage, std::to_string(rows) + " rows cannot be lost", impl_->path.string(),
                kOurFault);
  impl_->header.info.lost = rows;
}

int64_t CaptureWriter::absent() const { return impl_->header.absent; }

void CaptureWriter::commit() { impl_->commit(); }

}  // namespace moert::capture
