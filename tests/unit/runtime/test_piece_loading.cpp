// Pieces are loaded once each, an expert by one thread, and the first error in their order is the one told.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <moert/error.hpp>

#include "runtime/layer_loader.hpp"
#include "runtime/piece_loading.hpp"
#include "weights/safetensors.hpp"

namespace moert::runtime {
namespace {

namespace fs = std::filesystem;
using weights::Source;

constexpr int64_t kStoredExperts = 40, kParts = 3;

// A layer of which every expert has tensors of its own, or all experts one tensor for each part; and a
// tensor of the router behind them.
class PieceLoadingTest : public ::testing::TestWithParam<bool> {
 protected:
  PieceLoadingTest() {
    const fs::path file = fs::path(::testing::TempDir()) /
                          ("moert_pieces_" + std::to_string(GetParam()) + ".safetensors");
    const std::vector<float> values(kStoredExperts * kElements);
    weights::SafetensorsWriter writer;
    const int64_t tensors = GetParam() ? 1 : kStoredExperts;
    for (int64_t e = 0; e < tensors; ++e)
      for (int64_t part = 0; part < kParts; ++part)
        writer.add(name(e, part), MOERT_DTYPE_F32, {kStoredExperts / tensors, kElements},
                   values.data());
    writer.add("router", MOERT_DTYPE_F32, {kStoredExperts, 1}, values.data());
    writer.write(file);
    checkpoint.emplace(file);
    for (int64_t e = 0; e < kStoredExperts; ++e)
      for (int64_t part = 0; part < kParts; ++part) {
        Source source;
        source.tensor = checkpoint->find(name(GetParam() ? 0 : e, part));
        source.expert = e;
        source.experts = GetParam() ? kStoredExperts : 1;
        source.part = static_cast<uint32_t>(part);
        sources.push_back(source);
      }
    Source router;
    router.tensor = checkpoint->find("router");
    router.target = spec::Target::router;
    sources.push_back(router);
  }
  static std::string name(int64_t expert, int64_t part) {
    return std::to_string(expert) + "." + std::to_string(part);
  }
  size_t index(const Source& source) const { return static_cast<size_t>(&source - sources.data()); }
  static uint64_t all_bytes() {
    return (kStoredExperts * kParts * kElements + kStoredExperts) * sizeof(float);
  }

  static constexpr int64_t kElements = 1500;  // more than a page
  std::optional<weights::Checkpoint> checkpoint;
  std::vector<Source> sources;
  const std::thread::id main_thread = std::this_thread::get_id();
  Progress silent;
};

TEST_P(PieceLoadingTest, EachOnceAndAnExpertInOrderOnOneThread) {
  for (const int32_t threads : {0, 1, 2, 7}) {
    std::mutex mutex;
    std::vector<int> loads(sources.size());
    std::map<int64_t, std::vector<uint32_t>> parts;
    std::map<int64_t, std::set<std::thread::id>> by;
    LoadProgress progress{silent};
    PieceLoading pieces(
        *checkpoint, sources,
        [&](const Source& source) {
          const std::lock_guard lock(mutex);
          ++loads[index(source)];
          if (source.target == spec::Target::router) {
            EXPECT_EQ(parts.size(), static_cast<size_t>(kStoredExperts)) << "the rest comes last";
            EXPECT_EQ(std::this_thread::get_id(), main_thread);
            return;
          }
          parts[source.expert].push_back(source.part);
          by[source.expert].insert(std::this_thread::get_id());
        },
        progress);
    std::optional<ThreadPool> pool;
    if (threads > 0) pool.emplace(threads);
    pieces.run(pool ? &*pool : nullptr);
    EXPECT_EQ(loads, std::vector<int>(sources.size(), 1));
    for (const auto& [expert, order] : parts)
      EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 2})) << "expert " << expert;
    for (const auto& [expert, ids] : by) EXPECT_EQ(ids.size(), 1u) << "expert " << expert;
    EXPECT_EQ(progress.done, sources.size());
    EXPECT_EQ(progress.bytes, all_bytes());
  }
}

TEST_P(PieceLoadingTest, TellsOfTheFirstErrorInTheirOrder) {
  for (const std::set<size_t>& bad :
       {std::set<size_t>{0}, {119}, {120}, {5, 6, 50}, {118, 31, 30, 77}, {40, 120}}) {
    for (const int32_t threads : {0, 2, 7}) {
      std::optional<ThreadPool> pool;
      if (threads > 0) pool.emplace(threads);
      for (int round = 0; round < 20; ++round) {
        LoadProgress progress{silent};
        std::atomic<bool> router{false};
        PieceLoading pieces(
            *checkpoint, sources,
            [&](const Source& source) {
              if (source.target == spec::Target::router) router = true;
              if (bad.contains(index(source)))
                throw Error(Fault::input, "bad " + std::to_string(index(source)), "a", "b");
            },
            progress);
        try {
          pieces.run(pool ? &*pool : nullptr);
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          EXPECT_EQ(error.problem(), "bad " + std::to_string(*bad.begin()));
        }
        EXPECT_EQ(router, *bad.begin() == 120) << "the rest is loaded only if all before it was";
      }
    }
  }
}

TEST_P(PieceLoadingTest, WhatTheProgressThrowsEndsIt) {
  ThreadPool pool(2);
  std::atomic<size_t> loads{0};
  const Progress tell = [&](uint64_t, uint64_t total, uint64_t) {
    EXPECT_EQ(std::this_thread::get_id(), main_thread);
    EXPECT_EQ(total, 1000u);
    throw std::runtime_error("enough");
  };
  LoadProgress progress{tell, 1000};
  PieceLoading pieces(*checkpoint, sources, [&](const Source&) { ++loads; }, progress);
  EXPECT_THROW(pieces.run(&pool), std::runtime_error);
  EXPECT_LT(loads, sources.size()) << "the last one comes after all that are told of";
  loads = 0;
  PieceLoading alone(*checkpoint, sources, [&](const Source&) { ++loads; }, progress);
  EXPECT_THROW(alone.run(nullptr), std::runtime_error);
  EXPECT_LT(loads, sources.size());
}

TEST(LoadsConcurrently, IfTheRunnerAndTheExpertsDo) {
  for (const bool runner : {false, true})
    for (const bool experts : {false, true})
      for (const bool monolithic : {false, true}) {
        LayerChoice choice;
        choice.monolithic = monolithic;
        const auto add = [&choice](const char* word, bool allows) {
          KindChoice kind;
          kind.word = word;
          kind.decision.support.flags =
              MOERT_SUPPORT_DETERMINISTIC | (allows ? uint32_t{MOERT_SUPPORT_CONCURRENT_LOAD} : 0u);
          choice.kinds.push_back(std::move(kind));
        };
        add("runner", runner);
        if (!monolithic) add("routed_experts", experts);
        EXPECT_EQ(loads_concurrently(choice), runner && (monolithic || experts));
      }
}

INSTANTIATE_TEST_SUITE_P(Layouts, PieceLoadingTest, ::testing::Bool(),
                         [](const auto& it) { return it.param ? "fused" : "per_expert"; });

}  // namespace
}  // namespace moert::runtime
