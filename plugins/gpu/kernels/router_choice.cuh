// Choosing experts by their keys, and how close the choice was: stages of kernels/router.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "router_scores.cuh"

namespace moert::gpu::router {

constexpr double kTaken = -static_cast<double>(NAN);

struct Best {
  double key;
  int32_t id;  // -1: nobody is left
};

MOERT_DEVICE bool better(const Best& a, const Best& b) {
  if (a.id < 0 || b.id < 0) return b.id < 0 && a.id >= 0;
  return a.key != b.key ? a.key > b.key : a.id < b.id;
}

// Of the lane's own ones in [first, end).
template <int W>
MOERT_DEVICE Best best_of_lane(const double* key, int first, int end, int lane) {
  Best best = {0, -1};
  for (int e = first + lane; e < end; e += W)
    if (!is_nan(key[e]) && better({key[e], e}, best)) best = {key[e], e};
  return best;
}

template <int W>
MOERT_DEVICE Best best_of_lanes(Best mine) {
  for (int mask = W / 2; mask > 0; mask /= 2) {
    const Best other = {shuffle_xor<W>(mine.key, mask), shuffle_xor<W>(mine.id, mask)};
    if (better(other, mine)) mine = other;
  }
  return mine;
}

// Takes the `count` best of [first, end), the lower one of equal keys, and writes them into `ids` and `keys` (or
// nowhere, if NULL). As many are left.
template <int W>
MOERT_DEVICE void take_best(double* key, int first, int end, int count, int32_t* ids, double* keys,
                            int lane) {
  Best mine = best_of_lane<W>(key, first, end, lane);
  for (int j = 0; j < count; ++j) {
    const Best best = best_of_lanes<W>(mine);
    if ((best.id - first) % W == lane) {
      key[best.id] = kTaken;
      mine = best_of_lane<W>(key, first, end, lane);
      if (ids != nullptr) {
        ids[j] = best.id;
        keys[j] = best.key;
      }
    }
  }
  sync_warp<W>();
}

// Both rules of a group's score look at selection scores. Only the maximum may look at the keys instead: a sum of keys
// would not be the sum of the scores.
MOERT_DEVICE double group_score(const RouteArgs& args, const Logits& logits, const State& s,
                                int group) {
  const int size = args.rule.num_experts / args.rule.num_groups;
  const bool pair = args.rule.top2 && size > 1;
  double first = -kInfinity, second = -kInfinity;
  for (int i = 0; i < size; ++i) {
    const int e = group * size + (i + group) % size;  // lanes start apart: other banks of memory
    const double x = pair ? selection(args, logits, s, e, s.key[e]) : s.key[e];
    if (x > first) {
      second = first;
      first = x;
    } else if (x > second) {
      second = x;
    }
  }
  return !pair ? first : second == -kInfinity ? second : first + second;
}

template <int W>
MOERT_DEVICE void drop_groups(const RouteArgs& args, const Logits& logits, const State& s,
                              int lane) {
  const Rule& rule = args.rule;
  const int size = rule.num_experts / rule.num_groups;
  for (int g = lane; g < rule.num_groups; g += W) s.group[g] = group_score(args, logits, s, g);
  sync_warp<W>();
  take_best<W>(s.group, 0, rule.num_groups, rule.top_groups, nullptr, nullptr, lane);
  for (int e = lane; e < rule.num_experts; e += W)
    if (!is_nan(s.group[e / size])) s.key[e] = kTaken;
  sync_warp<W>();
}

// `last` minus the best selection score of those in [first, end) that are left.
template <int W>
MOERT_DEVICE double margin(const RouteArgs& args, const Logits& logits, const State& s, double last,
                           int first, int end, int lane) {
  bool any = false;
  double out = -kInfinity;
  for (int e = first + lane; e < end; e += W) {
    if (is_nan(s.key[e])) continue;
    const double x = selection(args, logits, s, e, s.key[e]);
    any = true;
    out = x > out ? x : out;
  }
  out = max_of_lanes<W>(out);
  if (ballot<W>(any) == 0) return kInfinity;
  return last == out ? 0.0 : last - out;  // -inf - -inf is no margin
}

// Slots stand by falling key, then by rising id.
template <int W>
MOERT_DEVICE void sort_slots(const State& s, int k, int lane) {
  for (int j = lane; j < k; j += W) {
    int place = 0;
    for (int i = 0; i < k; ++i)
      place += better({s.slot_key[i], s.ids[i]}, {s.slot_key[j], s.ids[j]}) ? 1 : 0;
    s.weight[place] = s.ids[j];
  }
  sync_warp<W>();
  for (int j = lane; j < k; j += W) s.ids[j] = static_cast<int32_t>(s.weight[j]);
  sync_warp<W>();
}

// Fills s.ids and returns the margin.
template <int W>
MOERT_DEVICE double choose(const RouteArgs& args, const Logits& logits, const State& s, int lane) {
  const Rule& rule = args.rule;
  const auto last = [&](int slot) {
    return selection(args, logits, s, s.ids[slot], s.slot_key[slot]);
  };
  if (rule.method != Method::group_topk) {
    if (rule.grouped) drop_groups<W>(args, logits, s, lane);
    take_best<W>(s.key, 0, rule.num_experts, rule.top_k, s.ids, s.slot_key, lane);
    if (rule.method == Method::simulated) return kInfinity;  // no score was close to another
    return margin<W>(args, logits, s, last(rule.top_k - 1), 0, rule.num_experts, lane);
  }
  // Every group chooses for itself: the closest of these choices counts.
  const int size = rule.num_experts / rule.num_groups, share = rule.top_k / rule.num_groups;
  double least = kInfinity;
  for (int g = 0; g < rule.num_groups; ++g) {
    const int first = g * size, slot = g * share;
    take_best<W>(s.key, first, first + size, share, s.ids + slot, s.slot_key + slot, lane);
    const double own =
        margin<W>(args, logits, s, last(slot + share - 1), first, first + size, lane);
    least = own < least ? own : least;
  }
  sync_warp<W>();
  sort_slots<W>(s, rule.top_k, lane);
  return least;
}

// Of ids that were given, and are in s.ids: all experts count, whatever the groups.
template <int W>
MOERT_DEVICE double margin_of_given(const RouteArgs& args, const Logits& logits, const State& s,
                                    int lane) {
  const Rule& rule = args.rule;
  if (rule.method == Method::simulated || rule.method == Method::hash) return kInfinity;
  const int given = s.ids[rule.top_k - 1];
  const double last = selection(args, logits, s, given, s.key[given]);
  sync_warp<W>();
  for (int j = lane; j < rule.top_k; j += W) s.key[s.ids[j]] = kTaken;
  sync_warp<W>();
  return margin<W>(args, logits, s, last, 0, rule.num_experts, lane);
}

}  // namespace moert::gpu::router
