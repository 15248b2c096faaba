// capture.shared_memory and its reader: what is handed over, when, and how either side ends.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include <moert/error.hpp>

#include "capture/segment.hpp"
#include "capturers/segment_rig.hpp"

namespace moert::capture::testing {
namespace {

constexpr uint64_t kSeed = 20261130;

TEST(Segment, RowsArriveWithAllThatWasRecorded) {
  const TestFolder folder(true);
  Capturer capturer("capture.shared_memory", segment_options(folder));
  ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
  SegmentReader reader("one", folder.path());
  const CaptureInfo info = reader.info();
  EXPECT_EQ(info.layers, (std::vector<CapturedLayer>{{1, 256, 4}, {2, 300, 2}, {7, 8, 8}}));
  EXPECT_TRUE(info.weights && info.margins);
  EXPECT_EQ(reader.owner_pid(), ::getpid());

  SegmentRows batch;
  EXPECT_EQ(reader.take(batch), 0);
  EXPECT_OK(capturer.step(tokens(-4, 100, 9)));
  EXPECT_OK(capturer.step(tokens(5, 0, 3), false));
  ASSERT_EQ(reader.take(batch), 9) << "pending rows are not published";
  expect_batch(batch, capturer.model(), tokens(-4, 100, 9));
  EXPECT_OK(capturer.commit(5, 1));
  EXPECT_OK(capturer.drop(5, 2));
  EXPECT_OK(capturer.commit(5));
  ASSERT_EQ(reader.take(batch), 2);
  expect_batch(batch, capturer.model(), tokens(5, 0, 2));
  const auto counts = capturer.counts();
  EXPECT_EQ(counts.rows, 11);
  EXPECT_EQ(counts.pending + counts.absent + counts.lost, 0);
}

// A layer that was not recorded, and a row that had no token, are absent at the other end too.
TEST(Segment, RowsOfAStepThatWasNotRecordedAreAbsent) {
  const TestFolder folder(true);
  Model model;
  Capturer capturer("capture.shared_memory", segment_options(folder), model);
  ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
  EXPECT_OK(capturer.step_without(tokens(1, 0, 3), 1));
  SegmentReader reader("one", folder.path());
  SegmentRows batch;
  ASSERT_EQ(reader.take(batch), 3);
  for (int64_t r = 0; r < 3; ++r) {
    int32_t id = -5;
    EXPECT_TRUE(batch.present(r, 0));
    EXPECT_FALSE(batch.read(r, 1, &id));
    EXPECT_EQ(id, -5);
    EXPECT_TRUE(batch.present(r, 2));
  }
}

TEST(Segment, CopiedRowsComeAgainUntilTheyAreReleased) {
  const TestFolder folder(true);
  Capturer capturer("capture.shared_memory", segment_options(folder));
  ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
  EXPECT_OK(capturer.step(tokens(1, 0, 10)));
  SegmentRows batch;
  {
    SegmentReader first("one", folder.path());
    EXPECT_EQ(first.copy(batch, 4), 4);
    first.release();
    first.release();  // nothing more to release
    EXPECT_EQ(first.copy(batch, 4), 4);
    expect_batch(batch, capturer.model(), tokens(1, 4, 4));
  }
  SegmentReader second("one", folder.path());
  EXPECT_EQ(second.waiting(), 6);
  EXPECT_EQ(second.take(batch, 4), 4);
  expect_batch(batch, capturer.model(), tokens(1, 4, 4));
  EXPECT_EQ(second.take(batch), 2);
  EXPECT_EQ(second.take(batch), 0);
}

TEST(Segment, EndsWithItsOwnerAndGivesTheRestToItsReader) {
  const TestFolder folder(true);
  Capturer capturer("capture.shared_memory", segment_options(folder));
  ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
  SegmentReader reader("one", folder.path());
  EXPECT_EQ(reader.state(), SegmentState::open);
  EXPECT_OK(capturer.step(tokens(1, 0, 10)));
  capturer.close();
  EXPECT_TRUE(folder.names().empty()) << "destroy removes the name";
  EXPECT_EQ(reader.state(), SegmentState::closed);
  SegmentRows batch;
  EXPECT_EQ(reader.take(batch), 10);
  expect_batch(batch, capturer.model(), tokens(1, 0, 10));
}

// Batches of all sizes, so that the ring's end falls everywhere.
TEST(Segment, TheRingGoesRound) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  const TestFolder folder(true);
  Capturer capturer("capture.shared_memory", segment_options(folder), wide_model());
  ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
  SegmentReader reader("one", folder.path());
  SegmentRows batch;
  int64_t written = 0, read = 0;
  while (written < 6000) {  // about 6 rings
    const auto count = static_cast<int64_t>(random() % 300);
    EXPECT_OK(capturer.step(tokens(1, written, count)));
    written += count;
    const int64_t most = written - read > 500 ? INT64_MAX : static_cast<int64_t>(random() % 300);
    const int64_t taken = reader.take(batch, most);
    expect_batch(batch, capturer.model(), tokens(1, read, taken));
    read += taken;
    ASSERT_EQ(reader.waiting(), written - read);
  }
  EXPECT_EQ(capturer.counts().lost, 0);
}

TEST(Segment, ASecondReaderIsToldWhoReads) {
  const TestFolder folder(true);
  const Capturer capturer("capture.shared_memory", segment_options(folder));
  ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
  {
    const SegmentReader reader("one", folder.path());
    const Error error = error_of([&] { SegmentReader("one", folder.path()); });
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(error.problem().find("process " + std::to_string(::getpid())), std::string::npos)
        << error.what();
    EXPECT_TRUE(list_segments(folder.path()).at(0).reader_attached);
  }
  const SegmentReader next("one", folder.path());
  EXPECT_EQ(next.state(), SegmentState::open);
}

TEST(Segment, NamesThatAreThereAreListed) {
  const TestFolder folder(true);
  EXPECT_NE(std::string(error_of([&] { SegmentReader("one", folder.path()); }).what())
                .find("there is none at all"),
            std::string::npos);
  Options options = segment_options(folder);
  const Capturer one("capture.shared_memory", options);
  options["name"] = "other";
  Capturer other("capture.shared_memory", options);
  options.erase("name");
  const Capturer nameless("capture.shared_memory", options),
      again("capture.shared_memory", options);
  EXPECT_OK(other.step(tokens(1, 0, 5)));
  const Error error = error_of([&] { SegmentReader("won", folder.path()); });
  EXPECT_EQ(error.fault(), Fault::usage);
  const std::string pid = "pid" + std::to_string(::getpid());
  EXPECT_NE(error.remedy().find("one, other, " + pid + "-0, " + pid + "-1"), std::string::npos)
      << error.what();
  const auto segments = list_segments(folder.path());
  ASSERT_EQ(segments.size(), 4u);
  EXPECT_EQ(segments[1].name, "other");
  EXPECT_EQ(segments[1].waiting, 5);
  EXPECT_TRUE(segments[1].owner_alive);
  EXPECT_FALSE(segments[1].reader_attached);
  EXPECT_EQ(segments[1].owner_pid, ::getpid());
  EXPECT_EQ(segments[1].user, ::geteuid());
  EXPECT_EQ(segments[1].problem, "");
  EXPECT_GT(segments[1].bytes, 1u << 19);
  EXPECT_TRUE(remove_stale(folder.path()).empty()) << "their owners live";
  EXPECT_EQ(SegmentReader(segments[1].path.string()).waiting(), 5) << "by path";
}

}  // namespace
}  // namespace moert::capture::testing
