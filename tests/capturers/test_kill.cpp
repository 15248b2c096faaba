// Two processes exchange a capture while one of them, again and again, is killed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "capturers/segment_rig.hpp"

namespace moert::capture::testing {
namespace {

constexpr uint64_t kSeed = 20261130;
constexpr int kKills = 100;
constexpr int kGenerations = 128;  // of writers; each is a sequence

// What outlives the processes. Of a generation's positions, `published` is what commit has confirmed, `begun`
// what it may have published, `next` what its readers want next.
struct Ledger {
  std::atomic<int64_t> begun[kGenerations], published[kGenerations], next[kGenerations];
  std::atomic<int64_t> rows, again, wrong, missing, errors;
  std::atomic<int> attached, stop;
};

Options exchange_options(const TestFolder& folder) {
  Options options = segment_options(folder);
  options["when_full"] = "block";
  options["wait_ms"] = "60000";
  return options;
}

// Publishes rows of a sequence of its own, in steps of all sizes. While nobody reads and the ring is full,
// rows stay pending; they are committed later.
int write_rows(const TestFolder& folder, Ledger& ledger, int64_t generation) {
  Capturer capturer("capture.shared_memory", exchange_options(folder), wide_model());
  if (!capturer.created().ok()) {
    ::dprintf(2, "writer: %s\n", capturer.created().message.c_str());
    ledger.errors.fetch_add(1);
    return 1;
  }
  std::mt19937_64 random(kSeed + static_cast<uint64_t>(generation));
  const auto g = static_cast<size_t>(generation);
  for (int64_t position = 0; ledger.stop.load() == 0;) {
    const auto count = static_cast<int64_t>(random() % 40);
    ledger.begun[g].store(position + count);
    Answer answer = capturer.step(tokens(generation, position, count), random() % 2 == 0);
    if (answer.ok()) answer = capturer.commit(generation);
    while (!answer.ok() && ledger.stop.load() == 0) {
      if (answer.code != MOERT_RESOURCE_EXHAUSTED) ledger.errors.fetch_add(1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      answer = capturer.commit(generation);
    }
    if (!answer.ok()) break;
    position += count;
    ledger.published[g].store(position);
  }
  return 0;
}

// Enters a batch into the ledger. A reader that is killed between copying and releasing leaves rows that come
// again; rows that are skipped are missing.
void enter(const SegmentRows& batch, const Model& model, Ledger& ledger) {
  for (int64_t r = 0; r < batch.rows(); ++r) {
    const RowKey token = batch.key(r);
    if (token.sequence < 0 || token.sequence >= kGenerations || !right(batch, r, model)) {
      ledger.wrong.fetch_add(1);
      continue;
    }
    std::atomic<int64_t>& next = ledger.next[static_cast<size_t>(token.sequence)];
    const int64_t wanted = next.load();
    if (token.position > wanted) ledger.missing.fetch_add(token.position - wanted);
    if (token.position < wanted) ledger.again.fetch_add(1);
    next.store(std::max(wanted, token.position + 1));
    ledger.rows.fetch_add(1);
  }
}

// Reads one segment to its end.
int read_rows(const TestFolder& folder, Ledger& ledger) {
  std::mt19937_64 random(kSeed);
  const Model model = wide_model();
  SegmentReader reader("one", folder.path());
  ledger.attached.store(1);
  SegmentRows batch;
  for (;;) {
    const SegmentState state = reader.state();
    const int64_t rows = reader.copy(batch, 1 + static_cast<int64_t>(random() % 100));
    enter(batch, model, ledger);
    reader.release();
    if (rows == 0 && state != SegmentState::open) return 0;
    if (rows == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

class Exchange {
 public:
  ~Exchange() { ledger_.stop.store(1); }
  void start_writer() {
    const int64_t generation = generation_++;
    writer_ =
        std::make_unique<Child>([=, this] { return write_rows(folder_, ledger_, generation); });
    // Its segment, not the one of the writer before.
    wait([&] { return ledger_.begun[static_cast<size_t>(generation)].load() > 0; });
  }
  void start_reader() {
    ledger_.attached.store(0);
    reader_ = std::make_unique<Child>([this] { return read_rows(folder_, ledger_); });
    wait([&] { return ledger_.attached.load() != 0; });
  }
  // What the dead writer published is read to the end before the next one takes the name.
  void kill_writer() {
    writer_->kill();
    EXPECT_EQ(reader_->wait(), 0);
    expect_all_read();
    start_writer();
    start_reader();
  }
  void kill_reader() {
    reader_->kill();
    start_reader();
  }
  void finish() {
    ledger_.stop.store(1);
    EXPECT_EQ(writer_->wait(), 0);
    EXPECT_EQ(reader_->wait(), 0);
    expect_all_read();
  }
  const Ledger& ledger() const { return ledger_; }
  int64_t generations() const { return generation_; }
  const TestFolder& folder() const { return folder_; }

 private:
  template <class Done>
  static void wait(const Done& done) {
    for (int i = 0; i < 300000 && !done(); ++i)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    ASSERT_TRUE(done()) << "the other process doesn't answer";
  }
  void expect_all_read() const {
    const auto g = static_cast<size_t>(generation_ - 1);
    EXPECT_GE(ledger_.next[g].load(), ledger_.published[g].load()) << "rows were lost";
    EXPECT_LE(ledger_.next[g].load(), ledger_.begun[g].load()) << "rows that nobody recorded";
  }
  TestFolder folder_{true};
  Shared<Ledger> shared_;
  Ledger& ledger_ = shared_.value;
  int64_t generation_ = 0;
  std::unique_ptr<Child> writer_, reader_;
};

TEST(Kill, NoRowIsLostTornOrChanged) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  Exchange exchange;
  exchange.start_writer();
  exchange.start_reader();
  for (int kill = 0; kill < kKills && !::testing::Test::HasFailure(); ++kill) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    if (kill % 2 == 0)
      exchange.kill_writer();
    else
      exchange.kill_reader();
  }
  exchange.finish();
  const Ledger& ledger = exchange.ledger();
  std::cout << ledger.rows.load() << " rows, " << ledger.again.load() << " of them again, "
            << exchange.generations() << " writers\n";
  EXPECT_EQ(ledger.wrong.load(), 0) << "torn, stale or changed rows";
  EXPECT_EQ(ledger.missing.load(), 0) << "rows that were skipped";
  EXPECT_EQ(ledger.errors.load(), 0);
  EXPECT_GT(ledger.rows.load(), 1000);
  EXPECT_TRUE(exchange.folder().names().empty()) << "the last owner ended as it should";
}

}  // namespace
}  // namespace moert::capture::testing
