// capture.file: order, a bounded buffer, both policies, a disk that is full.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <random>

#include "capturers/rig.hpp"
#include "capturers/surroundings.hpp"

namespace moert::capture::testing {
namespace {

constexpr uint64_t kSeed = 20261130;

// A capturer of wide rows with a buffer of 1 MB, and which rows it must have.
class FileCapturer : public ::testing::Test {
 protected:
  void open(const Options& more = {}) {
    Options options = {{"folder", folder_.path()}, {"buffer_mb", "1"}};
    for (const auto& [key, value] : more) options[key] = value;
    capturer_.emplace("capture.file", options, wide_model());
    ASSERT_TRUE(capturer_->created().ok()) << capturer_->created().message;
  }
  void expect_rows(const std::vector<RowKey>& want, int64_t piece = 777) {
    const auto got = capturer_->read_all(piece);
    ASSERT_EQ(got.size(), want.size());
    for (size_t r = 0; r < want.size(); ++r) {
      EXPECT_EQ(got[r].token, want[r]) << "row " << r;
      EXPECT_TRUE(got[r].present) << "row " << r;
    }
  }
  // Steps until one fails: how many tokens were taken before, and why no more.
  std::pair<int64_t, Answer> fill(int64_t sequence, int64_t step, bool commit) {
    for (int64_t taken = 0; taken < (int64_t{1} << 20); taken += step) {
      const Answer answer = capturer_->step(tokens(sequence, taken, step), commit);
      if (!answer.ok()) return {taken, answer};
    }
    ADD_FAILURE() << "the buffer has no bound";
    return {};
  }

  TestFolder folder_;
  std::optional<Capturer> capturer_;
};

TEST_F(FileCapturer, RowsStayInOrderThroughManyBuffers) {
  open();
  EXPECT_TRUE(folder_.names().empty()) << "the spool file has a name";
  std::vector<RowKey> want;
  for (int64_t i = 0; i < 100; ++i) {  // 8 buffers
    const auto step = tokens(i, i, 80);
    EXPECT_OK(capturer_->step(step));
    want.insert(want.end(), step.begin(), step.end());
    if (i % 30 == 7) expect_rows(want);  // partly written
  }
  EXPECT_OK(capturer_->flush());
  expect_rows(want);
  expect_rows(want, 100000);
  const auto counts = capturer_->counts();
  EXPECT_EQ(counts.rows, 8000);
  EXPECT_EQ(counts.pending + counts.absent + counts.lost, 0);
}

// What a request scheduler does, at random: the rows that are read are those of the plain model.
TEST_F(FileCapturer, RandomCallsAgreeWithAPlainModel) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  open();
  std::vector<RowKey> want, pending;
  std::vector<int64_t> next(4, 0);
  for (int round = 0; round < 600; ++round) {
    const auto s = static_cast<size_t>(below(4));
    const auto sequence = static_cast<int64_t>(s);
    const auto mine = [&](int64_t from, int64_t to) {
      return [=](const RowKey& row) {
        return row.sequence == sequence && row.position >= from && row.position < to;
      };
    };
    switch (below(5)) {
      case 0: {  // keeps the number of pending rows within the buffer
        const int64_t position = next[s] - below(20);
        EXPECT_OK(capturer_->drop(sequence, position));
        std::erase_if(pending, mine(position, INT64_MAX));
        break;
      }
      case 1: {
        const int64_t position = below(3) == 0 ? INT64_MAX : next[s] - below(10);
        EXPECT_OK(capturer_->commit(sequence, position));
        std::copy_if(pending.begin(), pending.end(), std::back_inserter(want),
                     mine(INT64_MIN, position));
        std::erase_if(pending, mine(INT64_MIN, position));
        break;
      }
      case 2: EXPECT_OK(capturer_->flush()); break;
      default: {
        const auto step = tokens(sequence, next[s], pending.size() > 500 ? 1 : below(30));
        EXPECT_OK(capturer_->step(step, false));
        pending.insert(pending.end(), step.begin(), step.end());
        next[s] += static_cast<int64_t>(step.size());
      }
    }
    EXPECT_EQ(capturer_->counts().pending, static_cast<int64_t>(pending.size()));
    if (round % 100 == 99) expect_rows(want);
  }
  EXPECT_GT(want.size(), 1000u);
}

TEST_F(FileCapturer, BlockRefusesWhatPendingRowsLeaveNoRoomFor) {
  open();
  const auto [taken, full] = fill(1, 10, false);
  EXPECT_GT(taken, 500);
  EXPECT_EQ(full.code, MOERT_RESOURCE_EXHAUSTED);
  EXPECT_NE(full.message.find(std::to_string(taken) + " are pending"), std::string::npos)
      << full.message;
  EXPECT_NE(full.message.find("buffer_mb"), std::string::npos) << full.message;
  EXPECT_OK(capturer_->drop(1, taken - 5));
  EXPECT_EQ(capturer_->counts().pending, taken - 5);
  EXPECT_OK(capturer_->commit(1));
  EXPECT_OK(capturer_->step(tokens(2, 0, 500)));  // waits for the writer
  EXPECT_EQ(capturer_->read_all().size(), static_cast<size_t>(taken - 5 + 500));
}

// Pending rows can't be written, so they fill the buffer at a known point: then rows lose their
// decisions, then they are only counted. Nothing is silent, and what was kept stays right.
TEST_F(FileCapturer, DropKeepsTokensThenCounts) {
  open({{"when_full", "drop"}});
  constexpr int64_t kStep = 100, kSteps = 40;
  for (int64_t i = 0; i < kSteps; ++i)
    EXPECT_OK(capturer_->step(tokens(1, i * kStep, kStep), false));
  auto counts = capturer_->counts();
  EXPECT_GT(counts.lost, 0);
  EXPECT_EQ(counts.pending + counts.lost, kSteps * kStep);
  EXPECT_EQ(counts.absent, 0) << "absent rows are rows, and these are pending";
  EXPECT_OK(capturer_->commit(1));
  counts = capturer_->counts();
  EXPECT_GT(counts.absent, 0);
  EXPECT_EQ(counts.rows + counts.lost, kSteps * kStep);
  EXPECT_OK(capturer_->flush());
  const auto rows = capturer_->read_all();
  int64_t absent = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_EQ(rows[r].token, (RowKey{1, static_cast<int64_t>(r)}));
    absent += rows[r].present ? 0 : 1;
  }
  EXPECT_EQ(absent, counts.absent);
  EXPECT_TRUE(rows.front().present);
  // There is room again.
  EXPECT_OK(capturer_->step(tokens(2, 0, kStep)));
  EXPECT_TRUE(capturer_->read_all().back().present);
  EXPECT_EQ(capturer_->counts().lost, counts.lost);
}

TEST_F(FileCapturer, DroppedTokensGiveTheirPlaceBack) {
  open({{"when_full", "drop"}});
  for (int round = 0; round < 8; ++round) {  // the keys of four would not fit
    for (int64_t i = 0; i < 12; ++i) EXPECT_OK(capturer_->step(tokens(1, i * 100, 100), false));
    EXPECT_EQ(capturer_->counts().pending, 1200);
    EXPECT_EQ(capturer_->counts().lost, 0) << "round " << round;
    EXPECT_OK(capturer_->drop(1, 0));
  }
  EXPECT_EQ(capturer_->counts().pending, 0);
}

// What is in the way of writing: RLIMIT_FSIZE, whose signal would end the process, and a full disk.
enum class Obstacle { limit, disk };
class FullDisk : public FileCapturer, public ::testing::WithParamInterface<Obstacle> {
 protected:
  static constexpr uint64_t kRoom = 256 << 10;
  // False where that is not allowed.
  bool obstruct() {
    if (GetParam() == Obstacle::disk) disk_ = std::make_unique<SmallFileSystem>(folder_, kRoom);
    if (GetParam() == Obstacle::limit) limit_ = std::make_unique<FileSizeLimit>(kRoom);
    return disk_ == nullptr || disk_->mounted();
  }
  void make_room() {
    limit_.reset();
    if (disk_ == nullptr) return;
    ASSERT_EQ(disk_->resize(64 << 20), 0);
  }
  void TearDown() override {
    capturer_.reset();
    disk_.reset();
    limit_.reset();
  }
  std::unique_ptr<SmallFileSystem> disk_;
  std::unique_ptr<FileSizeLimit> limit_;
};

void expect_explained(const Answer& answer, const std::string& folder) {
  EXPECT_EQ(answer.code, MOERT_RESOURCE_EXHAUSTED) << answer.message;
  EXPECT_NE(answer.message.find(" bytes for "), std::string::npos) << answer.message;
  EXPECT_NE(answer.message.find(folder), std::string::npos) << answer.message;
}

TEST_P(FullDisk, IsReportedAndNothingIsLost) {
  if (!obstruct()) GTEST_SKIP() << "file systems cannot be mounted here";
  open();
  EXPECT_OK(capturer_->step(tokens(1, 0, 600)));  // more than the disk, less than the buffer
  expect_explained(capturer_->flush(), folder_.path());
  EXPECT_EQ(capturer_->counts().rows, 600);
  expect_rows(tokens(1, 0, 600));
  // With `block`, a step that would have to wait for the writer gets its error instead. While the buffer has room and
  // the writer has not yet tried again, one is taken; more rows than any buffer of these tests holds are not.
  Answer answer;
  int64_t taken = 600;
  for (int i = 0; i < 20 || (answer.ok() && i < 100); ++i) {
    answer = capturer_->step(tokens(1, taken, 100));
    if (answer.ok())
      taken += 100;
    else
      expect_explained(answer, folder_.path());
  }
  EXPECT_FALSE(answer.ok());
  EXPECT_EQ(capturer_->counts().rows, taken);
  make_room();
  EXPECT_OK(capturer_->flush());
  EXPECT_OK(capturer_->step(tokens(1, taken, 100)));
  expect_rows(tokens(1, 0, taken + 100));
}

TEST_P(FullDisk, DropGoesOnAndCountsWhatItCouldNotKeep) {
  if (!obstruct()) GTEST_SKIP() << "file systems cannot be mounted here";
  open({{"when_full", "drop"}});
  int64_t taken = 0, refused = 0;
  for (int i = 0; i < 60; ++i) {
    const Answer answer = capturer_->step(tokens(1, taken, 100));
    if (answer.ok()) {
      taken += 100;
    } else {
      expect_explained(answer, folder_.path());
      ++refused;
    }
  }
  EXPECT_EQ(refused, 1) << "it is said once, and counted from then on";
  const auto counts = capturer_->counts();
  EXPECT_EQ(counts.rows + counts.lost, taken);
  EXPECT_GT(counts.absent, 0);
  make_room();
  EXPECT_OK(capturer_->flush());
  int64_t absent = 0;
  for (const auto& row : capturer_->read_all()) absent += row.present ? 0 : 1;
  EXPECT_EQ(absent, counts.absent);
}

INSTANTIATE_TEST_SUITE_P(All, FullDisk, ::testing::Values(Obstacle::limit, Obstacle::disk),
                         [](const auto& test) {
                           return test.param == Obstacle::limit ? "limit" : "disk";
                         });

TEST(FileCapturerAlone, ARowThatTheBufferCannotHoldIsRefusedAtOnce) {
  Model model = wide_model();
  model.experts.assign(60, 70000);
  model.k.assign(60, 8000);
  const Capturer capturer("capture.file", {{"buffer_mb", "1"}}, model);
  EXPECT_EQ(capturer.created().code, MOERT_RESOURCE_EXHAUSTED);
  EXPECT_NE(capturer.created().message.find("buffer_mb"), std::string::npos);
}

}  // namespace
}  // namespace moert::capture::testing
