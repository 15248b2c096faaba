// A bounded buffer of rows, and the thread that moves the committed ones from it to a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <moert/sdk/host.hpp>
#include <mutex>
#include <string>
#include <thread>

#include "spool_file.hpp"
#include "step_capturer.hpp"

namespace moert::capture {

// One thread calls, the writer thread is the spool's own. The buffer has places for rows and, in a reserved
// part, for keys: rows that are kept without decisions. A place is free again when its row is written.
class Spool {
 public:
  enum class WhenFull { block, drop };
  // Throws for a buffer that holds no row, a folder that cannot be used.
  Spool(const Host& host, const CaptureRowLayout& layout, const std::string& folder, uint64_t bytes,
        WhenFull when_full);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // As StepCapturer::take; `pending` rows can only be freed by the caller. Reports a failed write first: `drop`
  // once, until a write succeeds again, `block` whenever one fails.
  void take(size_t count, size_t pending, std::vector<std::byte*>& places);
  void give_back(std::byte* row) noexcept;
  // Committed rows, in order; the writer sees them at publish.
  void push(const PendingRow& row) noexcept;
  void publish() noexcept;
  // Waits until all that is published is written. Throws if it cannot be: the rows stay in the buffer, and
  // the next call tries again.
  void flush();

  // Bytes of `rows` published rows from `first` on; they need not be written yet.
  void load(int64_t first, size_t rows, std::byte* to);
  int64_t published() const { return published_; }
  int64_t absent() const { return absent_; }  // of the published rows
  int64_t lost() const { return lost_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Failure {
    int error = 0;  // 0: none
    uint64_t bytes = 0;
  };
  using Lock = std::unique_lock<std::mutex>;
  void report_failure();  // throws if there is one; the writer tries again then
  void take_keys(size_t count, std::vector<std::byte*>& places);
  size_t free_rows() const { return rows_ - unused_ + n_free_; }
  bool must_write() const;
  void run();
  Failure write_some(size_t entries, uint64_t offset);
  void copy_row(const PendingRow& entry, std::byte* to) const;
  PendingRow& entry(uint64_t number) const { return queue_[number % (rows_ + keys_)]; }

  const CaptureRowLayout& layout_;
  const SpoolFile file_;
  const bool block_;
  const uint64_t bytes_;
  size_t rows_, keys_, batch_;  // places for rows and for keys; rows that are written at once
  Host::Array<std::byte> memory_, staging_;
  Host::Array<std::byte*> free_;   // [n_free_] rows that were used before
  Host::Array<PendingRow> queue_;  // a ring: entries [written_, end_) are committed and not written

  // The caller's.
  uint64_t end_ = 0;
  int64_t published_ = 0, absent_ = 0, lost_ = 0;
  // Under the mutex.
  std::mutex mutex_;
  std::condition_variable work_, progress_;
  size_t n_free_ = 0, unused_ = 0, keys_used_ = 0, waiting_ = 0;
  uint64_t written_ = 0, visible_ = 0;  // visible_: end_ as of the last publish
  Failure failure_;
  bool reported_ = false;  // no write succeeded since a failure was reported
  uint64_t flushes_ = 0;
  bool stop_ = false;

  std::thread writer_;  // last: it uses all of the above
};

}  // namespace moert::capture
