// routed_experts: numbers, and what rows must not do to each other.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numeric>

#include "experts.hpp"

namespace moert::conformance {
namespace {

// A loaded layer with a batch, made from a case's name.
struct Loaded {
  Loaded(const Feature& feature, const ExpertsCase& c, int64_t tokens)
      : random(c.name()), rig(feature, c), experts(make_experts(c, random)) {
    rig.load_all(experts);
    rig.finish();
    batch = make_batch(c, random, tokens);
  }
  size_t row_bytes() const {
    return static_cast<size_t>(dtype_bytes(rig.c().out_dtype, rig.c().h));
  }
  Random random;
  ExpertsRig rig;
  std::vector<Mlp> experts;
  Batch batch;
};

using Run = void (*)(Loaded&);

// Every element, at one token and at several.
void numbers(Loaded& l) {
  expect_experts(l.rig.c(), l.experts, l.batch, l.rig.forward(l.batch));
  const Batch one = l.batch.pick({3});
  expect_experts(l.rig.c(), l.experts, one, l.rig.forward(one));
}

void zero_tokens(Loaded& l) {
  Batch none;
  EXPECT_TRUE(l.rig.forward(none).empty());
  // And the layer still works.
  expect_experts(l.rig.c(), l.experts, l.batch, l.rig.forward(l.batch));
}

void one_expert_takes_all(Loaded& l) {
  const int64_t k = l.rig.c().k;
  for (int64_t t = 0; t < l.batch.tokens; ++t)
    for (int64_t j = 0; j < k; ++j)
      l.batch.ids[static_cast<size_t>(t * k + j)] =
          j == 0 ? static_cast<int32_t>(l.rig.c().e - 1) : -1;
  expect_experts(l.rig.c(), l.experts, l.batch, l.rig.forward(l.batch));
}

// Padded slots in every position and padded rows, with weights and rows that must not be looked at.
void padded(Loaded& l) {
  const int64_t k = l.rig.c().k;
  for (int64_t t = 0; t < l.batch.tokens; ++t) {
    for (int64_t j = 0; j < k; ++j) {
      const auto slot = static_cast<size_t>(t * k + j);
      if (t % 3 != 1 && (t + j) % 2 != 0) continue;
      l.batch.ids[slot] = -1;
      l.batch.weights[slot] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  const Bytes out = l.rig.forward(l.batch);
  expect_experts(l.rig.c(), l.experts, l.batch, out);
  const std::vector<double> numbers = decoded(l.rig.c().out_dtype, out);
  for (int64_t h = 0; h < l.rig.c().h; ++h)
    EXPECT_EQ(numbers[static_cast<size_t>(l.rig.c().h + h)], 0.0)
        << "row 1 has only -1 in its ids, column " << h;
}

// NaN and Inf rows change nothing outside themselves.
void bad_rows(Loaded& l) {
  const Bytes clean = l.rig.forward(l.batch);
  Batch dirty = l.batch;
  const auto h = static_cast<size_t>(l.rig.c().h);
  std::vector<double> hidden = dirty.hidden.number;
  for (size_t c = 0; c < h; ++c) {
    hidden[1 * h + c] = std::numeric_limits<double>::quiet_NaN();
    hidden[3 * h + c] = std::numeric_limits<double>::infinity();
    hidden[4 * h + c] = -std::numeric_limits<double>::infinity();
  }
  dirty.hidden = rounded(l.rig.c().dtype, hidden);
  const Bytes out = l.rig.forward(dirty);
  const size_t row = l.row_bytes();
  for (const size_t t : {size_t{0}, size_t{2}, size_t{5}, size_t{6}})
    EXPECT_EQ(std::memcmp(&out[t * row], &clean[t * row], row), 0)
        << "row " << t << " changed when rows 1, 3 and 4 became NaN and Inf";
  const std::vector<double> numbers = decoded(l.rig.c().out_dtype, out);
  EXPECT_TRUE(std::isnan(numbers[h])) << "a NaN row came out as a number";
}

void twice(Loaded& l) {
  if (!l.rig.deterministic()) throw Skip{"does not promise to be deterministic"};
  const Bytes first = l.rig.forward(l.batch);
  expect_same_rows(first, l.rig.forward(l.batch), l.row_bytes(), "the same batch again");
  l.rig.host().set_schedule(Schedule::threaded);
  expect_same_rows(first, l.rig.forward(l.batch), l.row_bytes(), "the same batch on threads");
}

// A row's bits do not depend on the rows beside it.
void batches(Loaded& l) {
  if (!l.rig.deterministic()) throw Skip{"does not promise to be deterministic"};
  const Bytes whole = l.rig.forward(l.batch);
  Bytes single;
  for (int64_t t = 0; t < l.batch.tokens; ++t) {
    const Bytes row = l.rig.forward(l.batch.pick({t}));
    single.insert(single.end(), row.begin(), row.end());
  }
  expect_same_rows(whole, single, l.row_bytes(), "rows one by one");
  std::vector<int64_t> order(static_cast<size_t>(l.batch.tokens));
  std::iota(order.rbegin(), order.rend(), 0);
  const Bytes reversed = l.rig.forward(l.batch.pick(order));
  Bytes back;
  for (size_t t = order.size(); t-- > 0;)
    back.insert(back.end(), reversed.begin() + static_cast<std::ptrdiff_t>(t * l.row_bytes()),
                reversed.begin() + static_cast<std::ptrdiff_t>((t + 1) * l.row_bytes()));
  expect_same_rows(whole, back, l.row_bytes(), "rows in reverse order");
}

// Rows of hidden and out may lie apart.
void strided(Loaded& l) {
  const ExpertsCase& c = l.rig.c();
  const Bytes dense = l.rig.forward(l.batch);
  ExpertsRig::Args args(l.rig, l.batch);
  const auto in_row = static_cast<size_t>(dtype_bytes(c.dtype, c.h));
  const auto in_gap = static_cast<size_t>(dtype_bytes(c.dtype, c.h + 3));
  const auto out_gap = static_cast<size_t>(dtype_bytes(c.out_dtype, c.h + 5));
  const auto tokens = static_cast<size_t>(l.batch.tokens);
  Bytes spread(in_gap * tokens, 0xff);
  for (size_t t = 0; t < tokens; ++t)
    std::memcpy(&spread[t * in_gap], &l.batch.hidden.bytes[t * in_row], in_row);
  Tensor hidden(l.rig.place(), c.dtype, {l.batch.tokens, c.h + 3}, spread);
  Tensor out(l.rig.place(), c.out_dtype, {l.batch.tokens, c.h + 5});
  TensorView hidden_view(hidden.buffer().data(), c.dtype, {l.batch.tokens, c.h});
  hidden_view.set_stride(0, c.h + 3, hidden.buffer().bytes());
  hidden_view.set_device(l.rig.place().id());
  TensorView out_view(out.buffer().data(), c.out_dtype, {l.batch.tokens, c.h});
  out_view.set_stride(0, c.h + 5, out.buffer().bytes());
  out_view.set_device(l.rig.place().id());
  args.record.hidden = hidden_view;
  args.record.out = out_view;
  must("forward with rows apart",
       [&](moert_error_t* e) { return l.rig.table().forward(l.rig.self(), &args.record, e); });
  const Bytes got = out.read();
  const size_t row = l.row_bytes();
  for (size_t t = 0; t < tokens; ++t) {
    EXPECT_EQ(std::memcmp(&got[t * out_gap], &dense[t * row], row), 0) << "row " << t << " differs";
    for (size_t b = t * out_gap + row; b < (t + 1) * out_gap; ++b)
      ASSERT_EQ(got[b], 0xff) << "the gap behind row " << t << " was written";
  }
}

// One number in, one in the middle, one out: what the activations give, computed by hand.
struct Hand {
  const char* label;
  Act act;
  bool gated;
  double gate, up, want;
};
constexpr Hand kHand[] = {
    {"silu", {"silu"}, true, 1, 2, 1.4621171572600098},
    {"silu_limit", {"silu", 0, 0, 10}, true, 50, -50, -99.99546021312976},
    {"gelu", {"gelu"}, true, 1, 2, 1.6826894921370859},
    {"gelu_tanh", {"gelu_tanh"}, true, 1, 2, 1.6823839812165535},
    {"gelu_nongated", {"gelu"}, false, 0, 1, 0.8413447460685429},
    {"gelu_tanh_nongated", {"gelu_tanh"}, false, 0, 1, 0.8411919906082768},
    {"relu", {"relu"}, true, 3, -2, -6},
    {"relu_closed", {"relu"}, true, -3, 2, 0},
    {"relu_positive", {"relu"}, false, 0, 3, 3},
    {"relu_negative", {"relu"}, false, 0, -3, 0},
    {"relu2_gated", {"relu2"}, true, 3, -2, -18},
    {"relu2_positive", {"relu2"}, false, 0, 3, 9},
    {"relu2_negative", {"relu2"}, false, 0, -3, 0},
    {"silu_nongated", {"silu"}, false, 0, -1, -0.2689414213699951},
    {"swigluoai", {"swigluoai", 1.702, 1, 7}, true, 20, 20, 55.99962502642654},
    {"swiglustep", {"swiglustep", 0, 0, 7}, true, 20, 20, 49},
    {"situ", {"situ", 0, 3}, true, 1, 2, 1.4102678694679106},
    {"situ_up", {"situ", 1.5, 3}, true, 1, 2, 0.9202650045086608},
    {"situ_saturated", {"situ", 1.5, 3}, true, 50, -50, -4.5},
    {"swiglustep_up", {"swiglustep", 0, 0, 7}, true, 20, -20, -49},
};

void hand_computed(const Feature& feature, const Hand& hand) {
  ExpertsCase c = {1, 1, 1, 1};
  c.act = hand.act;
  c.flags = hand.gated ? 0u : uint32_t{MOERT_PROBLEM_NON_GATED};
  ExpertsRig rig(feature, c);
  Mlp mlp;
  mlp.gate = rounded(MOERT_DTYPE_F32, {hand.gate});
  mlp.up = rounded(MOERT_DTYPE_F32, {hand.up});
  mlp.down = rounded(MOERT_DTYPE_F32, {1.0});
  rig.load_all({mlp});
  rig.finish();
  const Batch batch = {1, rounded(MOERT_DTYPE_F32, {1.0}), {0}, {1.0f}};
  const double got = decoded(MOERT_DTYPE_F32, rig.forward(batch))[0];
  EXPECT_TRUE(std::fabs(got - hand.want) <= 1e-6 * std::fabs(hand.want))
      << "got " << got << ", want " << hand.want;
}

// Activations with a number too few or too many, and ones that want a gate half and have none.
constexpr Hand kRefused[] = {
    {"unknown", {"no_such_activation"}, true, 0, 0, 0},
    {"prefix", {"rel"}, true, 0, 0, 0},
    {"relu_limit", {"relu", 0, 0, 7}, true, 0, 0, 0},
    {"relu_alpha", {"relu", 1}, true, 0, 0, 0},
    {"relu2_beta", {"relu2", 0, 1}, true, 0, 0, 0},
    {"situ_without_beta", {"situ", 1}, true, 0, 0, 0},
    {"situ_beta_negative", {"situ", 0, -3}, true, 0, 0, 0},
    {"situ_alpha_negative", {"situ", -1, 3}, true, 0, 0, 0},
    {"situ_beta_nan", {"situ", 0, std::numeric_limits<double>::quiet_NaN()}, true, 0, 0, 0},
    {"situ_limit", {"situ", 0, 3, 7}, true, 0, 0, 0},
    {"situ_nongated", {"situ", 0, 3}, false, 0, 0, 0},
};

void refuses(const Feature& feature, const Hand& hand) {
  ExpertsCase c = {1, 1, 1, 1};
  c.act = hand.act;
  c.flags = hand.gated ? 0u : uint32_t{MOERT_PROBLEM_NON_GATED};
  try {
    ExpertsRig rig(feature, c);
    ADD_FAILURE() << "was accepted";
  } catch (const Skip& skip) {
    // Whoever takes no flags at all may say so instead.
    EXPECT_TRUE(skip.why.find(hand.act.name) != std::string::npos ||
                skip.why.find("flag") != std::string::npos)
        << "the reason does not name the activation: " << skip.why;
  }
}

// The three weights' rows pass through their quant method, or the problem is declined.
void quantised_rows(const Feature& feature, ExpertsCase c) {
  c.act_scheme = "scaled";
  Loaded l(feature, c, 7);
  for (size_t e = 0; e < l.experts.size(); ++e)
    l.experts[e] = with_scaled_rows(c, l.experts[e], static_cast<int64_t>(e));
  expect_experts(c, l.experts, l.batch, l.rig.forward(l.batch));
}

void add_case(const Feature& feature, const char* subject, const ExpertsCase& c, int64_t tokens,
              Run run) {
  add(feature, subject, c.name(), [feature, c, tokens, run] {
    Loaded loaded(feature, c, tokens);
    run(loaded);
  });
}

}  // namespace

void add_experts_numbers(const Feature& feature) {
  for (const ExpertsCase& c : experts_shapes()) add_case(feature, "Numbers", c, 7, numbers);
  for (const ExpertsCase& c : experts_variants()) add_case(feature, "Numbers", c, 7, numbers);
  ExpertsCase quantised = {24, 20, 5, 3};
  add(feature, "Numbers", "quantised_rows", [=] { quantised_rows(feature, quantised); });
  quantised.flags = MOERT_PROBLEM_BIAS | MOERT_PROBLEM_NON_GATED;
  add(feature, "Numbers", "quantised_rows_nongated", [=] { quantised_rows(feature, quantised); });
}

void add_experts_rows(const Feature& feature) {
  for (const Hand& hand : kHand)
    add(feature, "HandComputed", hand.label, [=] { hand_computed(feature, hand); });
  for (const Hand& hand : kRefused)
    add(feature, "RefusesActivation", hand.label, [=] { refuses(feature, hand); });
  for (const ExpertsCase& c : experts_shapes()) {
    add_case(feature, "ZeroTokens", c, 7, zero_tokens);
    add_case(feature, "OneExpertTakesAll", c, 7, one_expert_takes_all);
    add_case(feature, "PaddedSlots", c, 7, padded);
    add_case(feature, "NanAndInfStayInTheirRows", c, 7, bad_rows);
    add_case(feature, "SameBitsTwice", c, 7, twice);
    add_case(feature, "SameBitsInAnyBatch", c, 7, batches);
    add_case(feature, "RowsApart", c, 7, strided);
  }
}

}  // namespace moert::conformance
