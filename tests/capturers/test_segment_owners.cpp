// Names of segments: in use, left by the dead, wanted by several at once, by several users.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "capture/segment_header.hpp"
#include "capturers/segment_rig.hpp"

namespace moert::capture::testing {
namespace {

// Waits for a number that another process counts up; gives up when that takes absurdly long.
void await(const std::atomic<int>& counter, int value) {
  for (int i = 0; i < 60000 && counter.load() < value; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_GE(counter.load(), value) << "the other process doesn't answer";
}

// A child that owns segment "one", has published `rows` rows, and stays.
std::unique_ptr<Child> owner(const TestFolder& folder, int64_t rows, uid_t user = 0) {
  Shared<std::atomic<int>> ready;
  auto child = std::make_unique<Child>([&] {
    if (user != 0 && ::setuid(user) != 0) return 2;
    Capturer capturer("capture.shared_memory", segment_options(folder));
    if (!capturer.created().ok()) return 3;
    if (rows > 0 && !capturer.step(tokens(1, 0, rows)).ok()) return 4;
    ready.value.store(1);
    for (;;) ::pause();
  });
  await(ready.value, 1);
  return child;
}

TEST(SegmentOwners, ANameInUseIsRefusedByName) {
  const TestFolder folder(true);
  const Capturer first("capture.shared_memory", segment_options(folder));
  ASSERT_TRUE(first.created().ok()) << first.created().message;
  const Capturer second("capture.shared_memory", segment_options(folder));
  EXPECT_EQ(second.created().code, MOERT_ALREADY_EXISTS);
  EXPECT_NE(second.created().message.find("'one'"), std::string::npos) << second.created().message;
  EXPECT_NE(second.created().message.find("another name"), std::string::npos);
  EXPECT_EQ(SegmentReader("one", folder.path()).state(), SegmentState::open) << "unharmed";
}

TEST(SegmentOwners, TheFileIsTheOwnersAlone) {
  const TestFolder folder(true);
  const Capturer capturer("capture.shared_memory", segment_options(folder));
  struct stat stat{};
  const std::string name = "moert." + std::to_string(::geteuid()) + ".one";
  ASSERT_EQ(folder.names(), std::vector<std::string>{name});
  ASSERT_EQ(::stat((folder.path() + "/" + name).c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0600u);
}

TEST(SegmentOwners, WhatADeadOwnerLeftCanBeReadThenMadeAnew) {
  const TestFolder folder(true);
  const auto dead = owner(folder, 12);
  EXPECT_EQ(SegmentReader("one", folder.path()).state(), SegmentState::open);
  dead->kill();
  EXPECT_FALSE(list_segments(folder.path()).at(0).owner_alive);
  SegmentReader old("one", folder.path());
  EXPECT_EQ(old.state(), SegmentState::owner_died);
  EXPECT_TRUE(remove_stale(folder.path()).empty()) << "somebody reads it";

  Capturer next("capture.shared_memory", segment_options(folder));
  ASSERT_TRUE(next.created().ok()) << next.created().message;
  EXPECT_OK(next.step(tokens(2, 0, 3)));
  SegmentRows batch;
  EXPECT_EQ(old.take(batch), 12) << "a reader that was there keeps its rows";
  expect_batch(batch, next.model(), tokens(1, 0, 12));
  SegmentReader reader("one", folder.path());
  EXPECT_EQ(reader.take(batch), 3);
  expect_batch(batch, next.model(), tokens(2, 0, 3));
}

TEST(SegmentOwners, StaleOnesAreRemovedByName) {
  const TestFolder folder(true);
  owner(folder, 4)->kill();
  const Capturer alive("capture.shared_memory",
                       {{"folder", folder.path()}, {"name", "two"}, {"buffer_mb", "1"}});
  EXPECT_TRUE(remove_stale(folder.path(), "other").empty());
  const auto removed = remove_stale(folder.path(), "one");
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].name, "one");
  EXPECT_EQ(removed[0].waiting, 4);
  EXPECT_EQ(folder.names().size(), 1u);
}

// destroy must not remove a file that took its name's place.
TEST(SegmentOwners, AnotherFileOfThatNameStays) {
  const TestFolder folder(true);
  const std::filesystem::path path =
      folder.path() + "/moert." + std::to_string(::geteuid()) + ".one";
  {
    const Capturer capturer("capture.shared_memory", segment_options(folder));
    ASSERT_TRUE(std::filesystem::remove(path));
    ASSERT_TRUE(std::filesystem::create_directory(path));
  }
  EXPECT_TRUE(std::filesystem::is_directory(path));
  const Capturer refused("capture.shared_memory", segment_options(folder));
  EXPECT_FALSE(refused.created().ok());
  EXPECT_NE(refused.created().message.find(path.string()), std::string::npos)
      << refused.created().message;
  std::filesystem::remove(path);
}

struct Race {
  std::atomic<int> ready, go, done, won, wrong;
  std::atomic<int> winner;
};

// Several start with one name at one moment, over what a dead owner left: one gets it, the others are told.
TEST(SegmentOwners, OfSeveralStartersOneGetsTheName) {
  const TestFolder folder(true);
  constexpr int kStarters = 4, kRounds = 15;
  for (int round = 0; round < kRounds; ++round) {
    Shared<Race> race;
    Race& r = race.value;
    const auto start = [&] {
      r.ready.fetch_add(1);
      while (r.go.load() == 0) std::this_thread::yield();
      Capturer capturer("capture.shared_memory", segment_options(folder));
      if (capturer.created().ok()) {
        r.won.fetch_add(1);
        r.winner.store(::getpid());
      } else if (capturer.created().code != MOERT_ALREADY_EXISTS) {
        ::dprintf(2, "%s\n", capturer.created().message.c_str());
        r.wrong.fetch_add(1);
      }
      r.done.fetch_add(1);
      while (r.go.load() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::_exit(0);  // without destroy: the next round finds it stale
      return 0;
    };
    std::vector<std::unique_ptr<Child>> starters;
    for (int i = 0; i < kStarters; ++i) starters.push_back(std::make_unique<Child>(start));
    await(r.ready, kStarters);
    r.go.store(1);
    await(r.done, kStarters);
    EXPECT_EQ(r.won.load(), 1) << "round " << round;
    EXPECT_EQ(r.wrong.load(), 0) << "round " << round;
    const auto segments = list_segments(folder.path());
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_EQ(segments[0].owner_pid, r.winner.load());
    EXPECT_TRUE(segments[0].owner_alive);
    r.go.store(2);
    for (const auto& starter : starters) EXPECT_EQ(starter->wait(), 0);
  }
  EXPECT_EQ(remove_stale(folder.path()).size(), 1u);
}

bool is_named(int fd, const std::string& path) {
  struct stat open{}, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino;
}

struct Attempts {
  std::atomic<int> made, stop;
};

// A starter that has opened what a dead owner left may find that another one, alive, has the name by then: it
// must not remove that. The name changes hands here at random moments of a starter's attempts.
TEST(SegmentOwners, ALivingSegmentIsNeverTakenForTheDeadOneBefore) {
  constexpr uint64_t kSeed = 20261130;
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  const TestFolder folder(true);
  const std::string name = folder.path() + "/moert." + std::to_string(::geteuid()) + ".one";
  const std::string living = folder.path() + "/living", next = folder.path() + "/next";
  const int fd = ::open(living.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_TRUE(lock_segment(fd, MOERT_CAPTURE_SEGMENT_OWNER_LOCK));
  Shared<Attempts> attempts;
  Child starter([&] {
    while (attempts.value.stop.load() == 0) {
      const Capturer capturer("capture.shared_memory", segment_options(folder));
      attempts.value.made.fetch_add(1);
    }
    return 0;
  });
  int removed = 0, rounds = 0;
  for (int round = 0; round < 1500; ++round) {
    // What a dead owner left, and another starter that takes its place, as starters do: under its lock.
    const int stale = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (uint64_t spin = random() % 20000; spin-- > 0;)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    const bool mine =
        lock_segment(stale, MOERT_CAPTURE_SEGMENT_OWNER_LOCK) && is_named(stale, name);
    if (mine) {
      ASSERT_EQ(::link(living.c_str(), next.c_str()), 0);
      ASSERT_EQ(::rename(next.c_str(), name.c_str()), 0);
    }
    ::close(stale);
    await(attempts.value.made, attempts.value.made.load() + 2);
    if (!mine) continue;  // the starter was faster
    ++rounds;
    removed += is_named(fd, name) ? 0 : 1;
    std::filesystem::remove(name);
  }
  attempts.value.stop.store(1);
  EXPECT_EQ(starter.wait(), 0);
  EXPECT_EQ(removed, 0) << "of a living owner";
  EXPECT_GT(rounds, 100);
  ::close(fd);
  std::filesystem::remove(living);
}

// Bug 126: two users, the same name; the first is killed and starts again.
TEST(SegmentOwners, N126_TwoUsersHaveTheSameName) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  constexpr uid_t kOne = 65501, kOther = 65502;
  const TestFolder folder(true);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(01777));
  const auto first = owner(folder, 3, kOne);
  const auto second = owner(folder, 5, kOther);
  ASSERT_EQ(list_segments(folder.path()).size(), 2u);
  const Error both = error_of([&] { SegmentReader("one", folder.path()); });
  EXPECT_NE(both.problem().find("several users"), std::string::npos) << both.what();
  first->kill();
  const auto again = owner(folder, 7, kOne);
  const auto segments = list_segments(folder.path());
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].waiting, 7);
  EXPECT_EQ(segments[1].waiting, 5) << "the other user's is as it was";
  // One user may not read the other's, and is told so.
  Child stranger([&] {
    if (::setuid(kOther) != 0) return 2;
    const Error refused = error_of([&] { SegmentReader(segments[0].path.string()); });
    const auto seen = list_segments(folder.path());
    return refused.remedy().find("another user") != std::string::npos && seen.size() == 2 &&
                   !seen[0].problem.empty() && seen[1].problem.empty()
               ? 0
               : 1;
  });
  EXPECT_EQ(stranger.wait(), 0);
  again->kill();
  second->kill();
  EXPECT_EQ(remove_stale(folder.path()).size(), 2u);
}

}  // namespace
}  // namespace moert::capture::testing
