// Sorting a batch by expert, against a plain stable sort.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "gpu/device_array.hpp"
#include "gpu/experts/plan.hpp"

namespace moert::gpu {
namespace {

enum class Ids { random, one, none, skewed };

struct PlanCase {
  const char* label;
  int64_t tokens, top_k, experts;
  int32_t item_rows;
  Ids ids = Ids::random;
  bool apart = false;  // ids do not lie close together
};

const PlanCase kPlanCases[] = {
    {"one_slot", 1, 1, 1, 8},
    {"one_token", 1, 8, 128, 8},
    {"all_experts_once", 1, 6, 6, 8},
    {"odd", 7, 3, 5, 16},
    {"odd_apart", 7, 3, 5, 16, Ids::random, true},
    {"none", 33, 4, 8, 8, Ids::none},
    {"one_takes_all", 65, 2, 7, 32, Ids::one},
    {"one_takes_all_of_many", 3000, 2, 7, 32, Ids::one},
    {"skewed", 500, 8, 60, 128, Ids::skewed},
    {"many_experts", 40, 32, 1024, 8},
    {"most_experts", 9, 4, kMostExperts, 8},
    {"blocks", 1300, 4, 16, 64},
    {"blocks_apart", 700, 8, 33, 64, Ids::skewed, true},
    {"blocks_many_experts", 300, 32, 1024, 128},
    {"blocks_none", 2100, 2, 3, 8, Ids::none},
};

std::vector<int32_t> make_ids(const PlanCase& c) {
  std::mt19937_64 random(static_cast<uint64_t>(c.tokens * 1000 + c.experts));
  std::vector<int32_t> ids;
  for (int64_t slot = 0; slot < c.tokens * c.top_k; ++slot) {
    const auto draw = static_cast<int64_t>(random() % static_cast<uint64_t>(c.experts));
    const auto other = static_cast<int64_t>(random() % static_cast<uint64_t>(c.experts));
    const bool absent = random() % 5 == 0;
    switch (c.ids) {
      case Ids::one: ids.push_back(static_cast<int32_t>(c.experts - 1)); break;
      case Ids::none: ids.push_back(-1); break;
      case Ids::random: ids.push_back(absent ? -1 : static_cast<int32_t>(draw)); break;
      case Ids::skewed: ids.push_back(static_cast<int32_t>(draw * other / c.experts)); break;
    }
  }
  return ids;
}

// The plan of a batch in memory that is full of ones, so that what is not written shows.
class Planned {
 public:
  Planned(const PlanCase& c, const std::vector<int32_t>& ids)
      : sizes_{c.tokens, c.top_k, c.experts} {
    Arena counted;
    PlanMemory::of(counted, sizes_);
    memory_.resize(static_cast<int64_t>(counted.used()));
    memory_.poison();
    const int64_t col = c.apart ? 2 : 1, row = c.top_k * col + (c.apart ? 3 : 0);
    std::vector<int32_t> spread(static_cast<size_t>(c.tokens * row), 1 << 30);
    for (size_t slot = 0; slot < ids.size(); ++slot) {
      const auto t = static_cast<int64_t>(slot) / c.top_k, j = static_cast<int64_t>(slot) % c.top_k;
      spread[static_cast<size_t>(t * row + j * col)] = ids[slot];
    }
    ids_.assign(spread);
    Arena arena(memory_.device());
    PlanArgs args;
    args.sizes = sizes_;
    args.ids = {ids_.device(), row, col};
    args.item_rows = c.item_rows;
    args.memory = PlanMemory::of(arena, sizes_);
    args.fault = fault_record(0);
    const TestStream stream;
    launch_plan(args, remembered_facts(0).warp, stream.get());
    synchronize(stream.get());
    const PlanView& view = args.memory.view;
    offsets = read(view.offsets, c.experts + 1);
    places = read(view.places, sizes_.slots());
    slots = read(view.slots, offsets.back());
    n_items = read(view.n_items, 1)[0];
    items = read(view.items, n_items);
  }

  std::vector<int32_t> offsets, places, slots;
  std::vector<Item> items;
  int32_t n_items = 0;

 private:
  template <class T>
  std::vector<T> read(const T* from, int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    const TestStream stream;
    copy_to_host(stream.get(), values.data(), from, values.size() * sizeof(T));
    synchronize(stream.get());
    return values;
  }
  PlanSizes sizes_;
  DeviceArray<unsigned char> memory_;
  DeviceArray<int32_t> ids_;
};

void expect_sorted(const PlanCase& c, const std::vector<int32_t>& ids, const Planned& plan) {
  std::vector<int32_t> slots, offsets, places(ids.size(), -1);
  for (int32_t e = 0; e < c.experts; ++e) {
    offsets.push_back(static_cast<int32_t>(slots.size()));
    for (size_t slot = 0; slot < ids.size(); ++slot) {
      if (ids[slot] != e) continue;
      places[slot] = static_cast<int32_t>(slots.size());
      slots.push_back(static_cast<int32_t>(slot));
    }
  }
  offsets.push_back(static_cast<int32_t>(slots.size()));
  EXPECT_EQ(plan.offsets, offsets);
  EXPECT_EQ(plan.places, places);
  EXPECT_EQ(plan.slots, slots);
  size_t item = 0;
  for (int32_t e = 0; e < c.experts; ++e) {
    const auto index = static_cast<size_t>(e);
    for (int32_t first = offsets[index]; first < offsets[index + 1]; first += c.item_rows, ++item) {
      ASSERT_LT(item, plan.items.size());
      EXPECT_EQ(plan.items[item].expert, e);
      EXPECT_EQ(plan.items[item].first, first);
      EXPECT_EQ(plan.items[item].rows, std::min(c.item_rows, offsets[index + 1] - first));
    }
  }
  EXPECT_EQ(item, plan.items.size());
  EXPECT_LE(plan.n_items, max_items(c.tokens * c.top_k, c.experts, c.item_rows));
}

TEST(Plan, SortsStably) {
  for (const PlanCase& c : kPlanCases) {
    SCOPED_TRACE(c.label);
    const std::vector<int32_t> ids = make_ids(c);
    expect_sorted(c, ids, Planned(c, ids));
  }
  EXPECT_EQ(take_fault(0), "");
}

TEST(Plan, WrongIdsCountAsAbsentAndAreReportedOnce) {
  for (const int32_t wrong : {-2, 5, INT32_MAX, INT32_MIN}) {
    const PlanCase c = {"wrong", 40, 3, 5, 8};
    std::vector<int32_t> ids = make_ids(c);
    ids[29] = wrong;
    const Planned plan(c, ids);
    ids[29] = -1;
    expect_sorted(c, ids, plan);
    const std::string text = take_fault(0);
    EXPECT_NE(text.find("row 9 has " + std::to_string(wrong)), std::string::npos) << text;
    EXPECT_EQ(take_fault(0), "");
  }
}

TEST(Plan, MemoryNeverShrinksAsTokensGrow) {
  uint64_t last = 0;
  for (int64_t tokens = 0; tokens <= kMostSlots / 8; tokens += tokens < 600 ? 1 : 97) {
    Arena arena;
    PlanMemory::of(arena, {tokens, 8, 128});
    EXPECT_GE(arena.used(), last) << tokens;
    last = arena.used();
  }
}

TEST(Plan, OfOneExpertIsItsTokens) {
  for (const int64_t tokens : {int64_t{1}, int64_t{8}, int64_t{9}, int64_t{5000}}) {
    constexpr int32_t kRows = 8;
    DeviceArray<int32_t> offsets, count;
    DeviceArray<Item> items;
    offsets.resize(2);
    count.resize(1);
    items.resize((tokens + kRows - 1) / kRows);
    PlanView view;
    view.offsets = offsets.device();
    view.n_items = count.device();
    view.items = items.device();
    const TestStream stream;
    launch_plan_of_one(tokens, kRows, view, stream.get());
    synchronize(stream.get());
    EXPECT_EQ(offsets.download(), (std::vector<int32_t>{0, static_cast<int32_t>(tokens)}));
    ASSERT_EQ(count.download()[0], items.size());
    int64_t next = 0;
    for (const Item& item : items.download()) {
      EXPECT_EQ(item.expert, 0);
      EXPECT_EQ(item.first, next);
      EXPECT_EQ(item.rows, std::min<int64_t>(kRows, tokens - next));
      next += item.rows;
    }
    EXPECT_EQ(next, tokens);
  }
}

}  // namespace
}  // namespace moert::gpu
