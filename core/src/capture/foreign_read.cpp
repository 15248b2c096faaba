// A capture file from routing in a foreign shape.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <moert/error.hpp>

#include "capture/base64.hpp"
#include "capture/file_layout.hpp"
#include "capture/foreign.hpp"
#include "capture/foreign_shape.hpp"
#include "capture/npy.hpp"

namespace moert::capture {
namespace {

class ForeignReader {
 public:
  ForeignReader(std::string_view bytes, const std::string& place, const ForeignOptions& options,
                CaptureInfo info)
      : place_(place), options_(options), info_(std::move(info)), bytes_(bytes) {
    if (const std::string problem = problem_of(info_); !problem.empty())
      throw Error(Fault::usage, "no capture of such a model: " + problem, place, "check the model");
    shape_ = foreign_shape(options.format, info_, Fault::input, place);
    info_.weights = info_.margins = false;
    info_.slot_order = "unknown";
    info_.source = foreign_format(options.format).name;
    info_.lost = 0;
    info_.cut = false;
    ids_.resize(static_cast<size_t>(shape_.top_k));
  }

  void write(const std::filesystem::path& out) {
    decode();
    if (shape_.npy) strip_npy();
    if (bytes_.size() % shape_.row_bytes() != 0)
      fail("there are " + std::to_string(bytes_.size()) +
           " bytes, which are no whole number of rows of " + row_text());
    const auto rows = static_cast<int64_t>(bytes_.size() / shape_.row_bytes());
    if (npy_rows_ >= 0 && npy_rows_ != rows)
      fail("the .npy header says " + std::to_string(npy_rows_) + " rows, but " +
           std::to_string(rows) + " follow");
    if (options_.first_position < 0 ||
        options_.first_position >= std::numeric_limits<int64_t>::max() - rows)
      throw Error(Fault::usage, "the first position is " + std::to_string(options_.first_position),
                  place_, "give the position of the first row, 0 or more");
    RowPlaces places;
    for (int64_t row = 0; row < rows; ++row) places.add(key(row));
    places.finish();
    CaptureWriter writer(out, info_, places);
    for (int64_t row = 0; row < rows; ++row)
      write_row(row, bytes_.data() + static_cast<size_t>(row) * shape_.row_bytes(), &writer);
    writer.commit();
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(Fault::input, problem, place_,
                "check that the bytes are of this model and format: " +
                    std::string(foreign_format(options_.format).name) + " is " +
                    std::string(foreign_format(options_.format).describes));
  }
  RowKey key(int64_t row) const { return {options_.sequence, options_.first_position + row}; }

  std::string row_text() const {
    return std::to_string(shape_.layers.size()) + " layers, " + std::to_string(shape_.top_k) +
           " experts and " + std::to_string(shape_.type.bytes) + " bytes each (" +
           std::to_string(shape_.row_bytes()) + " bytes)";
  }

  void decode() {
    if (options_.encoding.value_or(foreign_format(options_.format).usual) == Encoding::raw) return;
    if (bytes_.ends_with('\n')) bytes_.remove_suffix(1);
    if (bytes_.ends_with('\r')) bytes_.remove_suffix(1);
    std::string problem;
    if (!from_base64(bytes_, &decoded_, &problem)) fail("the bytes are no base64: " + problem);
    bytes_ = decoded_;
  }

  // Ids of another width are read as well: older versions write them.
  void strip_npy() {
    NpyHeader header;
    size_t data = 0;
    std::string problem;
    if (!read_npy_header(bytes_, &header, &data, &problem)) fail(problem);
    const std::optional<IdType> type = id_type(header.descr);
    if (!type) fail("the array is of type '" + header.descr + "', which is none of ids");
    if (header.fortran_order) fail("the array is in Fortran's order");
    if (header.shape.size() != 3 || header.shape[1] != static_cast<int64_t>(shape_.layers.size()) ||
        header.shape[2] != shape_.top_k) {
      std::string sizes;
      for (const int64_t size : header.shape) sizes += std::to_string(size) + ", ";
      fail("the array has the shape (" + sizes + "), but the model has " +
           std::to_string(shape_.layers.size()) + " hidden layers and top_k " +
           std::to_string(shape_.top_k));
    }
    shape_.type = *type;
    npy_rows_ = header.shape[0];
    bytes_.remove_prefix(data);
  }

  void write_row(int64_t row, const char* from, CaptureWriter* writer) {
    for (size_t i = 0; i < shape_.layers.size(); ++i, from += shape_.layer_bytes()) {
      if (shape_.layers[i])
        write_layer(row, *shape_.layers[i], from, writer);
      else if (!std::all_of(from, from + shape_.layer_bytes(), [](char byte) { return byte == 0; }))
        fail(row_name(row) + "layer " + std::to_string(i) +
             " has no experts in this model, but its ids are not zero");
    }
  }

  // One sequence and rising positions: rows of the file are rows of the array.
  void write_layer(int64_t row, size_t layer, const char* from, CaptureWriter* writer) {
    size_t missing = 0;
    for (size_t j = 0; j < ids_.size(); ++j) {
      ids_[j] = static_cast<int32_t>(shape_.type.load(from + j * shape_.type.bytes));
      missing += ids_[j] == -1 ? 1 : 0;
    }
    if (shape_.has_absent && missing == ids_.size()) return;
    const CapturedLayer& at = info_.layers[layer];
    const std::string problem = problem_of(ids_.data(), at.top_k, at.num_experts);
    if (!problem.empty())
      fail(row_name(row) + "layer " + std::to_string(at.layer_id) + ": " + problem);
    writer->put(row, layer, ids_.data());
  }

  std::string row_name(int64_t row) const { return "row " + std::to_string(row) + ", "; }

  std::string place_;
  const ForeignOptions& options_;
  CaptureInfo info_;
  ForeignShape shape_;
  std::string_view bytes_;
  std::string decoded_;
  int64_t npy_rows_ = -1;
  std::vector<int32_t> ids_;
};

}  // namespace

void read_foreign(std::string_view bytes, const std::string& place, const ForeignOptions& options,
                  CaptureInfo info, const std::filesystem::path& out) {
  ForeignReader(bytes, place, options, std::move(info)).write(out);
}

}  // namespace moert::capture
