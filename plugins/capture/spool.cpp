// SPDX-License-Identifier: Apache-2.0
#include "spool.hpp"

#include <algorithm>

namespace moert::capture {
namespace {

constexpr size_t kBatchBytes = size_t{256} << 10;
constexpr uint64_t kKeyShare = 16;  // one part of so many of the buffer is for keys
// What a row needs besides its bytes: its entry while pending, in the queue, and in the list of free rows.
constexpr size_t kEntryBytes = 2 * sizeof(PendingRow) + sizeof(std::byte*);

// The writer must not run the host's signal handlers, and a limit of file size must not end the process.
std::thread start_without_signals(Spool* spool, void (Spool::*run)()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(run, spool);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& e) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      std::string("the writer thread cannot be started: ") + e.what());
  }
}

}  // namespace

Spool::Spool(const Host& host, const CaptureRowLayout& layout, const std::string& folder,
             uint64_t bytes, WhenFull when_full)
    : layout_(layout), file_(folder), block_(when_full == WhenFull::block), bytes_(bytes) {
  const uint64_t for_keys = block_ ? 0 : bytes / kKeyShare;
  rows_ = (bytes - for_keys) / (layout.bytes() + kEntryBytes);
  keys_ = for_keys / kEntryBytes;
  if (rows_ == 0)
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      "a buffer of " + std::to_string(bytes) + " bytes holds no row: one takes " +
                          std::to_string(layout.bytes()) + " bytes; raise buffer_mb");
  // Small enough that the writer keeps up in pieces while the rest of the buffer fills.
  batch_ = std::clamp<size_t>(kBatchBytes / layout.bytes(), 1, std::max<size_t>(1, rows_ / 4));
  memory_ = host.alloc<std::byte>(rows_ * layout.bytes(), "the buffer of captured rows");
  staging_ = host.alloc<std::byte>(batch_ * layout.bytes(), "rows to be written");
  free_ = host.alloc<std::byte*>(rows_, "free places of the buffer");
  queue_ = host.alloc<PendingRow>(rows_ + keys_, "the queue of captured rows");
  writer_ = start_without_signals(this, &Spool::run);
}

Spool::~Spool() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  writer_.join();
}

void Spool::report_failure() {
  if (failure_.error == 0) return;
  const Failure failure = std::exchange(failure_, {});
  work_.notify_one();
  reported_ = true;
  throw os_error(failure.error,
                 std::to_string(failure.bytes) + " bytes for " +
                     std::to_string(visible_ - written_) +
                     " captured rows cannot be written to the spool file in folder '" +
                     file_.folder() + "' behind its " + std::to_string(written_ * layout_.bytes()) +
                     " bytes; make room there, or choose another folder");
}

void Spool::take(size_t count, size_t pending, std::vector<std::byte*>& places) {
  Lock lock(mutex_);
  if (reported_ && !block_ && failure_.error != 0) {
    failure_ = {};  // said once, from then on counted; whether there is room by now is tried again
    work_.notify_one();
  }
  report_failure();
  if (block_ && (count > rows_ || pending > rows_ - count))
    throw PluginError(
        MOERT_RESOURCE_EXHAUSTED,
        "the buffer has places for " + std::to_string(rows_) + " rows; " + std::to_string(pending) +
            " are pending and " + std::to_string(count) +
            " would come. A step must fit: for this one buffer_mb must be " +
            std::to_string(((pending + count) * (layout_.bytes() + kEntryBytes) >> 20) + 2) +
            ", unless rows are committed or dropped before");
  if (block_ && free_rows() < count) {
    ++waiting_;
    work_.notify_one();
    progress_.wait(lock, [&] { return free_rows() >= count || failure_.error != 0; });
    --waiting_;
    report_failure();
  }
  if (free_rows() < count) return take_keys(count, places);
  for (size_t i = 0; i < count; ++i)
    places.push_back(n_free_ > 0 ? free_[--n_free_] : &memory_[unused_++ * layout_.bytes()]);
}

void Spool::take_keys(size_t count, std::vector<std::byte*>& places) {
  const size_t kept = std::min(count, keys_ - keys_used_);
  keys_used_ += kept;
  lost_ += static_cast<int64_t>(count - kept);
  places.insert(places.end(), kept, nullptr);
}

void Spool::give_back(std::byte* row) noexcept {
  const Lock lock(mutex_);
  if (row == nullptr)
    --keys_used_;
  else
    free_[n_free_++] = row;
}

void Spool::push(const PendingRow& row) noexcept {
  entry(end_++) = row;  // the ring has a place for every row and every key that was taken
  if (row.place == nullptr) ++absent_;
}

bool Spool::must_write() const {
  const uint64_t queued = visible_ - written_;
  return queued > 0 &&
         (queued >= batch_ || waiting_ > 0 || free_rows() < rows_ / 2 || keys_used_ > 0);
}

void Spool::publish() noexcept {
  published_ = static_cast<int64_t>(end_);
  const Lock lock(mutex_);
  visible_ = end_;
  if (must_write()) work_.notify_one();
}

void Spool::flush() {
  Lock lock(mutex_);
  failure_ = {};  // what was in the way may be gone: tried again, and reported if it is not
  ++flushes_;
  ++waiting_;
  work_.notify_one();
  progress_.wait(lock, [&] { return written_ == visible_ || failure_.error != 0; });
  --waiting_;
  report_failure();
}

void Spool::copy_row(const PendingRow& entry, std::byte* to) const {
  if (entry.place == nullptr)
    layout_.start(to, entry.sequence, entry.position);
  else
    std::memcpy(to, entry.place, layout_.bytes());
}

Spool::Failure Spool::write_some(size_t entries, uint64_t first) {
  for (size_t i = 0; i < entries; ++i) copy_row(entry(first + i), &staging_[i * layout_.bytes()]);
  const uint64_t bytes = entries * layout_.bytes();
  return {file_.write(staging_.get(), bytes, first * layout_.bytes()), bytes};
}

void Spool::run() {
  Lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stop_ || (failure_.error == 0 && must_write()); });
    if (stop_) return;  // nobody can read the file any more
    const uint64_t first = written_;
    const size_t count = std::min<uint64_t>(batch_, visible_ - first);
    const uint64_t flushes = flushes_;
    lock.unlock();
    const Failure failure = write_some(count, first);
    lock.lock();
    if (failure.error == 0) {
      for (size_t i = 0; i < count; ++i) {
        std::byte* row = entry(first + i).place;
        if (row == nullptr)
          --keys_used_;
        else
          free_[n_free_++] = row;
      }
      written_ += count;
      reported_ = false;
    } else if (flushes == flushes_) {  // a flush wants to know of an attempt that began after it
      failure_ = {failure.error, (visible_ - written_) * layout_.bytes()};
    }
    if (waiting_ > 0) progress_.notify_all();
  }
}

void Spool::load(int64_t first, size_t rows, std::byte* to) {
  uint64_t next = static_cast<uint64_t>(first);
  const uint64_t end = next + rows;
  uint64_t in_file = 0;
  {
    const Lock lock(mutex_);
    in_file = std::clamp(written_, next, end);
    // The writer gives their places away only after it has the mutex.
    for (uint64_t i = in_file; i < end; ++i) copy_row(entry(i), to + (i - next) * layout_.bytes());
  }
  file_.read(to, (in_file - next) * layout_.bytes(), next * layout_.bytes());
}

}  // namespace moert::capture
