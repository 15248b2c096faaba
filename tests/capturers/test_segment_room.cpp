// capture.shared_memory: a ring that is full, a folder that is full.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <moert/abi/capture_segment.h>

#include <memory>

#include "capturers/segment_rig.hpp"

namespace moert::capture::testing {
namespace {

class FullRing : public ::testing::Test {
 protected:
  void open(const Options& more) {
    Options options = segment_options(folder_);
    for (const auto& [key, value] : more) options[key] = value;
    capturer_ = std::make_unique<Capturer>("capture.shared_memory", options, wide_model());
    ASSERT_TRUE(capturer_->created().ok()) << capturer_->created().message;
  }
  // Publishes rows of sequence 1 until less than a step of 100 has room.
  void fill() {
    for (; published_ < 900; published_ += 100)
      ASSERT_TRUE(went_well(capturer_->step(tokens(1, published_, 100))));
  }
  TestFolder folder_{true};
  std::unique_ptr<Capturer> capturer_;
  int64_t published_ = 0;
};

TEST_F(FullRing, DropCountsWhatIsLost) {
  open({});
  fill();
  for (int64_t i = 0; i < 10; ++i) EXPECT_OK(capturer_->step(tokens(2, i * 100, 100)));
  const auto counts = capturer_->counts();
  EXPECT_GT(counts.lost, 0);
  EXPECT_EQ(counts.rows + counts.lost, 1900);
  EXPECT_EQ(counts.pending, 0);
  SegmentReader reader("one", folder_.path());
  EXPECT_EQ(reader.info().lost, counts.lost);
  SegmentRows batch;
  EXPECT_EQ(reader.take(batch), counts.rows);
  EXPECT_EQ(batch.key(899), (RowKey{1, 899}));
  EXPECT_EQ(batch.key(900), (RowKey{2, 0})) << "what came first was kept";
  EXPECT_OK(capturer_->step(tokens(3, 0, 100)));  // there is room again
  EXPECT_EQ(reader.take(batch), 100);
  expect_batch(batch, capturer_->model(), tokens(3, 0, 100));
}

TEST_F(FullRing, BlockSaysWhenNobodyReadsAndKeepsTheRowsPending) {
  open({{"when_full", "block"}});
  fill();
  Answer answer;
  int64_t pending = 0;
  for (; answer.ok() && pending < 500; pending += answer.ok() ? 0 : 200)
    answer = capturer_->step(tokens(2, published_, 200)), published_ += answer.ok() ? 200 : 0;
  EXPECT_EQ(answer.code, MOERT_RESOURCE_EXHAUSTED) << answer.message;
  EXPECT_NE(answer.message.find("no reader is attached"), std::string::npos) << answer.message;
  EXPECT_EQ(capturer_->counts().pending, 200);
  EXPECT_EQ(capturer_->counts().rows, published_) << "nothing of the step was published";
  SegmentReader reader("one", folder_.path());
  SegmentRows batch;
  EXPECT_EQ(reader.take(batch), published_);
  EXPECT_OK(capturer_->commit(2));
  EXPECT_EQ(reader.take(batch), 200);
  EXPECT_EQ(capturer_->counts().lost, 0);
}

TEST_F(FullRing, BlockGivesUpOnAReaderThatTakesNothing) {
  open({{"when_full", "block"}, {"wait_ms", "3"}});
  SegmentReader reader("one", folder_.path());
  fill();
  EXPECT_OK(capturer_->step(tokens(2, 0, 200), false));
  const Answer late = capturer_->commit(2);
  EXPECT_EQ(late.code, MOERT_DEADLINE_EXCEEDED) << late.message;
  EXPECT_EQ(capturer_->counts().rows, published_);
  EXPECT_EQ(capturer_->counts().pending, 200);
  SegmentRows batch;
  EXPECT_EQ(reader.take(batch), published_) << "nothing of the commit was published";
  EXPECT_OK(capturer_->commit(2));
  EXPECT_EQ(reader.take(batch), 200);
  expect_batch(batch, capturer_->model(), tokens(2, 0, 200));
}

TEST_F(FullRing, PendingRowsHaveABoundToo) {
  open({{"when_full", "block"}});
  const Answer answer = [&] {
    for (int64_t taken = 0;; taken += 100)
      if (const Answer a = capturer_->step(tokens(1, taken, 100), false); !a.ok()) return a;
  }();
  EXPECT_EQ(answer.code, MOERT_RESOURCE_EXHAUSTED);
  EXPECT_NE(answer.message.find("are pending"), std::string::npos) << answer.message;
}

// A counter that makes no sense, written by a reader that is broken: no row is overwritten for it.
TEST_F(FullRing, ANonsensicalCounterIsAnError) {
  open({{"when_full", "block"}});
  fill();
  const uint64_t tail = 901;
  const int fd = ::open(list_segments(folder_.path()).at(0).path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::pwrite(fd, &tail, sizeof tail, offsetof(moert_capture_segment_t, tail)), 8);
  ::close(fd);
  EXPECT_EQ(capturer_->step(tokens(2, 0, 1)).code, MOERT_DATA_LOSS);
  const Error error = error_of([&] {
    SegmentReader reader("one", folder_.path());
    SegmentRows batch;
    reader.take(batch);
  });
  EXPECT_EQ(error.fault(), Fault::input);
}

// Bug 125: shared memory limited to 1 MB. Clear error, nothing left behind.
void expect_no_room(const TestFolder& folder) {
  Options options = segment_options(folder);
  options["buffer_mb"] = "4";
  const Capturer capturer("capture.shared_memory", options);
  EXPECT_EQ(capturer.created().code, MOERT_RESOURCE_EXHAUSTED);
  const std::string& message = capturer.created().message;
  EXPECT_NE(message.find(folder.path()), std::string::npos) << message;
  EXPECT_NE(message.find(" 419"), std::string::npos) << "bytes that were needed: " << message;
  EXPECT_TRUE(folder.names().empty());
}

TEST(SmallSharedMemory, N125_LimitOfFileSize) {
  const TestFolder folder(true);
  const FileSizeLimit limit(1 << 20);
  expect_no_room(folder);
}

TEST(SmallSharedMemory, N125_SmallFileSystem) {
  const TestFolder folder(true);
  const SmallFileSystem small(folder, 1 << 20);
  if (!small.mounted()) GTEST_SKIP() << "file systems cannot be mounted here";
  expect_no_room(folder);
  Options options = segment_options(folder);
  options["buffer_mb"] = "1";
  const Capturer exact("capture.shared_memory", options);
  EXPECT_TRUE(exact.created().ok())
      << "what was taken for the other one is free again: " << exact.created().message;
}

}  // namespace
}  // namespace moert::capture::testing
