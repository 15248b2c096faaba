// Routing of one sequence in a foreign shape.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <moert/error.hpp>

#include "capture/base64.hpp"
#include "capture/foreign.hpp"
#include "capture/foreign_shape.hpp"
#include "capture/npy.hpp"

namespace moert::capture {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 24;  // positions of a damaged file may lie far apart

class ForeignWriter {
 public:
  ForeignWriter(const CaptureFile& file, const ForeignOptions& options)
      : file_(file),
        options_(options),
        name_(foreign_format(options.format).name),
        place_(file.path().string() + ": sequence " + std::to_string(options.sequence)),
        shape_(foreign_shape(options.format, file.info(), Fault::usage, file.path().string())),
        ids_(static_cast<size_t>(shape_.top_k)) {
    find_rows();
  }

  std::string write() {
    std::string bytes;
    if (shape_.npy)
      bytes = npy_header({std::string(shape_.type.descr),
                          false,
                          {rows_, static_cast<int64_t>(shape_.layers.size()), shape_.top_k}});
    const size_t header = bytes.size();
    bytes.resize(header + static_cast<size_t>(rows_) * shape_.row_bytes());
    int64_t from = first_;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t position = options_.first_position + row;
      const bool there = from < end_ && file_.key(from).position == position;
      write_row(there ? from : -1, position,
                &bytes[header + static_cast<size_t>(row) * shape_.row_bytes()]);
      from += there ? 1 : 0;
    }
    return bytes;
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    throw Error(Fault::usage, problem, place_, remedy);
  }

  // Rows of the file from the first position that is written, and the number of rows to write.
  void find_rows() {
    if (options_.first_position < 0) fail("a negative first position", "give 0 or more");
    const auto [begin, end] = file_.rows_of(options_.sequence);
    end_ = end;
    if (begin == end) {
      if (file_.rows() != 0)
        fail("the capture has no such sequence",
             "its first sequence is " + std::to_string(file_.key(0).sequence) + ", its last is " +
                 std::to_string(file_.key(file_.rows() - 1).sequence));
      return;
    }
    first_ = begin;
    while (first_ < end && file_.key(first_).position < options_.first_position) ++first_;
    rows_ = std::max<int64_t>(0, file_.key(end - 1).position - options_.first_position + 1);
    if (!shape_.has_absent) refuse_gaps();
    if (rows_ > kMostRows)
      fail("its positions lie too far apart: up to " + std::to_string(file_.key(end - 1).position),
           "check the positions of the capture");
  }

  void refuse_gaps() const {
    for (int64_t row = first_; row < end_; ++row) {
      const int64_t position = options_.first_position + (row - first_);
      if (file_.key(row).position != position) fail_absent(-1, 0, position);
    }
  }

  void write_row(int64_t row, int64_t position, char* to) {
    for (size_t i = 0; i < shape_.layers.size(); ++i, to += shape_.layer_bytes()) {
      if (!shape_.layers[i]) continue;  // zeros, as they are
      const size_t layer = *shape_.layers[i];
      const bool present = row >= 0 && file_.read(row, layer, ids_.data());
      if (!present && !shape_.has_absent) fail_absent(row, layer, position);
      for (size_t j = 0; j < ids_.size(); ++j)
        shape_.type.store(present ? ids_[j] : -1, to + j * shape_.type.bytes);
    }
  }

  [[noreturn]] void fail_absent(int64_t row, size_t layer, int64_t position) const {
    const std::string what = "position " + std::to_string(position) +
                             (row < 0 ? " is not in the capture"
                                      : " has no decision of layer " +
                                            std::to_string(file_.info().layers[layer].layer_id));
    fail(what + ", and " + name_ + " has no way to say so",
         "use tensorrt-llm, which has -1, or begin at a position from which on nothing is absent");
  }

  const CaptureFile& file_;
  const ForeignOptions& options_;
  std::string name_, place_;
  ForeignShape shape_;
  std::vector<int32_t> ids_;
  int64_t first_ = 0, end_ = 0, rows_ = 0;
};

}  // namespace

std::string write_foreign(const CaptureFile& file, const ForeignOptions& options) {
  const std::string bytes = ForeignWriter(file, options).write();
  const Encoding encoding = options.encoding.value_or(foreign_format(options.format).usual);
  return encoding == Encoding::base64 ? base64(bytes) : bytes;
}

}  // namespace moert::capture
