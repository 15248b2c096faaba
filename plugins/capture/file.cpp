// SPDX-License-Identifier: Apache-2.0
#include "file.hpp"

#include <algorithm>
#include <filesystem>

#include "checks.hpp"

namespace moert::capture {
namespace {

constexpr size_t kChunkBytes = size_t{16} << 20;

std::string folder_option(const Options& options) {
  const std::string_view folder = options.get("folder");
  if (!folder.empty()) return std::string(folder);
  std::error_code error;
  const std::filesystem::path found = std::filesystem::temp_directory_path(error);
  if (error)
    throw PluginError(MOERT_NOT_FOUND,
                      "no temporary folder (" + error.message() + "); name one with option folder");
  return found.string();
}

}  // namespace

Support File::supports(const Host&, const moert_capture_spec_t& spec) {
  const std::string reason = refusal(spec);
  return reason.empty() ? Support::yes() : Support::no(reason);
}

File::File(const Host& host, const moert_capture_spec_t& spec, const Options& options)
    : StepCapturer(spec, options, {"buffer_mb", "folder", "when_full"}),
      spool_(
          host, layout(), folder_option(options),
          static_cast<uint64_t>(detail::number_option(options, "buffer_mb", 64, 1, 1 << 20)) << 20,
          detail::is_second_word(options, "when_full", "block", "drop") ? Spool::WhenFull::drop
                                                                        : Spool::WhenFull::block) {}

void File::load(int64_t first, int64_t rows) {
  const size_t bytes = layout().bytes();
  chunk_rows_ = 0;  // should reading fail
  chunk_.resize(std::max(chunk_.size(), static_cast<size_t>(rows) * bytes));
  spool_.load(first, static_cast<size_t>(rows), chunk_.data());
  chunk_first_ = first;
  chunk_rows_ = rows;
}

void File::read(moert_capture_rows_t& rows) {
  expect_open(false, "read");
  const int64_t count = layout().readable(rows, spool_.published());
  const auto most = static_cast<int64_t>(std::max<size_t>(1, kChunkBytes / layout().bytes()));
  for (int64_t r = 0; r < count; ++r) {
    const int64_t row = rows.first + r;
    if (row < chunk_first_ || row >= chunk_first_ + chunk_rows_)
      load(row, std::min(most, count - r));
    layout().give(&chunk_[static_cast<size_t>(row - chunk_first_) * layout().bytes()], r, rows);
  }
  rows.written = count;
}

void File::counts(moert_capture_counts_t& out) {
  out.rows = spool_.published();
  out.pending = static_cast<int64_t>(pending());
  out.absent = spool_.absent();
  out.lost = spool_.lost();
  out.bytes = spool_.bytes() + chunk_.size();
}

}  // namespace moert::capture
