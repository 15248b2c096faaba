// SPDX-License-Identifier: Apache-2.0
#include "capture/capture_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include <moert/error.hpp>
#include <moert/sdk/tensor.hpp>

#include "capture/file_checks.hpp"
#include "capture/file_header.hpp"
#include "weights/safetensors.hpp"
#include "weights/text.hpp"

namespace moert::capture {
namespace {

std::string text_of(uint32_t dtype, const std::vector<int64_t>& shape) {
  return std::string(dtype_name(dtype)) + " " +
         shape_text(shape.data(), static_cast<uint32_t>(shape.size()));
}

// Numbers the rows [0, rows) of a sorted file: the first for which `reached` holds, or `rows`.
template <class Reached>
int64_t first_row(int64_t rows, Reached&& reached) {
  int64_t begin = 0, end = rows;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    reached(middle) ? end = middle : begin = middle + 1;
  }
  return begin;
}

}  // namespace

struct CaptureFile::Impl {
  explicit Impl(const std::filesystem::path& at)
      : file(at), header(read_metadata(file.metadata(), at.string())), layout(header.info) {
    find_tensors();
    check_sums();
    const int64_t found = check_contents(parts, header.info, layout, name());
    if (found != header.absent)
      throw Error(Fault::input,
                  "absent is " + std::to_string(header.absent) +
                      ", but the present bits leave out " + std::to_string(found) + " decisions",
                  name() + ": metadata absent", kWriteAgain);
  }

  std::string name() const { return file.map().path().string(); }

  [[noreturn]] void fail(const std::string& tensor, const std::string& problem) const {
    throw Error(Fault::input, problem, name() + ": tensor " + weights::shown(tensor), kWriteAgain);
  }

  void find_tensors() {
    const std::vector<FileTensor> wanted = layout.tensors(header.info, header.rows);
    const auto named = [](const std::string& name) {
      return [&name](const auto& tensor) { return tensor.name == name; };
    };
    for (const weights::TensorInfo& tensor : file.tensors())
      if (std::none_of(wanted.begin(), wanted.end(), named(tensor.name)))
        fail(tensor.name, "no tensor of a capture, or one without an entry crc32." +
                              weights::shown(tensor.name));
    for (const auto& [name, sum] : header.checksums)
      if (std::none_of(wanted.begin(), wanted.end(), named(name)))
        fail(name, "there is a checksum for it, but a capture has no such tensor");
    for (const FileTensor& want : wanted) {
      const std::string name = want.name;
      const auto tensor = std::find_if(file.tensors().begin(), file.tensors().end(), named(name));
      if (tensor == file.tensors().end()) fail(name, "the tensor is missing");
      if (header.checksums.count(name) == 0) fail(name, "the entry crc32." + name + " is missing");
      if (tensor->dtype != want.dtype || tensor->shape != want.shape)
        fail(name, "it is " + text_of(tensor->dtype, tensor->shape) +
                       ", but the metadata ask for " + text_of(want.dtype, want.shape));
      part(name) = file.map().bytes().data() + tensor->offset;
    }
    parts.rows = header.rows;
  }

  const std::byte*& part(const std::string& name) {
    if (name == kIds) return parts.ids;
    if (name == kPresent) return parts.present;
    if (name == kSequences) return parts.sequences;
    if (name == kPositions) return parts.positions;
    return name == kWeights ? parts.weights : parts.margins;
  }

  void check_sums() const {
    for (const weights::TensorInfo& tensor : file.tensors()) {
      const auto* data = reinterpret_cast<const Bytef*>(file.map().bytes().data() + tensor.offset);
      if (static_cast<uint32_t>(::crc32_z(0, data, tensor.bytes)) !=
          header.checksums.at(tensor.name))
        fail(tensor.name, "its bytes are not those that were written: the checksum differs");
    }
  }

  weights::SafetensorsFile file;
  FileHeader header;
  FileLayout layout;
  FileParts parts;
};

CaptureFile::CaptureFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
CaptureFile::CaptureFile(CaptureFile&&) noexcept = default;
CaptureFile& CaptureFile::operator=(CaptureFile&&) noexcept = default;
CaptureFile::~CaptureFile() = default;

const std::filesystem::path& CaptureFile::path() const { return impl_->file.map().path(); }
const CaptureInfo& CaptureFile::info() const { return impl_->header.info; }
int64_t CaptureFile::rows() const { return impl_->header.rows; }
int64_t CaptureFile::absent() const { return impl_->header.absent; }
RowKey CaptureFile::key(int64_t row) const { return impl_->parts.key(row); }

int64_t CaptureFile::find(RowKey key) const {
  const int64_t row = first_row(rows(), [&](int64_t r) { return impl_->parts.key(r) >= key; });
  return row < rows() && impl_->parts.key(row) == key ? row : -1;
}

std::pair<int64_t, int64_t> CaptureFile::rows_of(int64_t sequence) const {
  const FileParts& parts = impl_->parts;
  return {first_row(rows(), [&](int64_t r) { return parts.key(r).sequence >= sequence; }),
          first_row(rows(), [&](int64_t r) { return parts.key(r).sequence > sequence; })};
}

bool CaptureFile::present(int64_t row, size_t layer) const {
  return impl_->parts.is_present(impl_->layout, row, layer);
}

bool CaptureFile::read(int64_t row, size_t layer, int32_t* ids, float* weights,
                       float* margin) const {
  if (!present(row, layer)) return false;
  const FileParts& parts = impl_->parts;
  const FileLayout& layout = impl_->layout;
  const CaptureInfo& info = impl_->header.info;
  const int64_t k = info.layers[layer].top_k;
  const int64_t slot = row * layout.slots() + layout.first_slot(layer);
  const int64_t pair = row * static_cast<int64_t>(info.layers.size()) + static_cast<int64_t>(layer);
  if (ids != nullptr) load_ids(parts.ids + slot * layout.id_bytes(), layout.id_bytes(), k, ids);
  if (weights != nullptr && parts.weights != nullptr)
    std::memcpy(weights, parts.weights + slot * 4, static_cast<size_t>(k) * sizeof(float));
  if (margin != nullptr && parts.margins != nullptr)
    std::memcpy(margin, parts.margins + pair * 4, sizeof(float));
  return true;
}

}  // namespace moert::capture
