// Cases of routed_experts: shapes, variants, batches, and the numbers they must give.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "experts.hpp"

namespace moert::conformance {

std::string ExpertsCase::name() const {
  std::string text = "h" + std::to_string(h) + "_i" + std::to_string(i) + "_e" + std::to_string(e) +
                     "_k" + std::to_string(k) + "_" + std::string(dtype_name(dtype));
  if (mxfp4) text += "_mxfp4";
  if (out_dtype != dtype) text += "_to_" + std::string(dtype_name(out_dtype));
  text += std::string("_") + act.name;
  if (act.alpha != 0) text += "_alpha";
  if (act.limit != 0) text += "_limit";
  if (!gated()) text += "_nongated";
  if (biased()) text += "_bias";
  if ((flags & MOERT_PROBLEM_WEIGHT_ON_INPUT) != 0) text += "_oninput";
  return text;
}

std::vector<ExpertsCase> experts_shapes() {
  return {{1, 1, 1, 1},    {3, 5, 2, 2},  {33, 17, 6, 3}, {64, 5, 8, 8},
          {64, 17, 60, 4}, {33, 1, 8, 1}, {1, 17, 6, 6},  {128, 64, 16, 2}};
}

std::vector<ExpertsCase> experts_variants() {
  constexpr uint32_t kF32 = MOERT_DTYPE_F32;
  constexpr uint32_t kBf16 = MOERT_DTYPE_BF16;
  constexpr uint32_t kF16 = MOERT_DTYPE_F16;
  constexpr uint32_t kBias = MOERT_PROBLEM_BIAS;
  constexpr uint32_t kPlain = MOERT_PROBLEM_NON_GATED;
  constexpr uint32_t kOnInput = MOERT_PROBLEM_WEIGHT_ON_INPUT;
  return {
      {33, 17, 6, 3, kBf16, kBf16},
      {33, 17, 6, 3, kF16, kF16},
      {33, 17, 6, 3, kBf16, kF32},
      {33, 17, 6, 3, kF32, kF32, {"silu", 0, 0, 1.5}},
      {33, 17, 6, 3, kF32, kF32, {"gelu"}},
      {33, 17, 6, 3, kF32, kF32, {"gelu_tanh"}},
      {33, 17, 6, 3, kF32, kF32, {"relu"}},
      {33, 17, 6, 3, kF32, kF32, {"relu"}, kPlain},
      {33, 17, 6, 3, kF32, kF32, {"relu2"}},
      {33, 17, 6, 3, kF32, kF32, {"relu2"}, kPlain},
      {33, 17, 6, 3, kF32, kF32, {"gelu"}, kPlain},
      {33, 17, 6, 3, kF32, kF32, {"gelu_tanh"}, kPlain},
      {33, 17, 6, 3, kF32, kF32, {"silu", 0, 0, 1.5}, kPlain},
      {33, 17, 6, 3, kF32, kF32, {"situ", 0, 1.5}},
      {33, 17, 6, 3, kF32, kF32, {"situ", 0.75, 1.5}},
      {33, 17, 6, 3, kBf16, kBf16, {"situ", 0.75, 1.5}},
      {33, 17, 6, 3, kF32, kF32, {"silu"}, kPlain},
      {33, 17, 6, 3, kF32, kF32, {"swigluoai", 1.702, 1.0, 1.5}, kBias},
      {33, 17, 6, 3, kBf16, kBf16, {"swigluoai", 1.702, 1.0, 1.5}, kBias},
      {33, 17, 6, 3, kF32, kF32, {"swiglustep", 0, 0, 1.5}},
      {33, 17, 6, 3, kF32, kF32, {"silu"}, kBias},
      {33, 17, 6, 3, kF32, kF32, {"silu"}, kBias | kPlain},
      {33, 17, 6, 1, kF32, kF32, {"silu"}, kOnInput},
      {33, 17, 6, 3, kBf16, kBf16, {"silu"}, kOnInput},
      {64, 96, 6, 3, kBf16, kBf16, {"silu"}, 0, "none", true},
      {96, 32, 6, 3, kF32, kF32, {"silu"}, 0, "none", true},
      {32, 160, 6, 3, kF16, kF32, {"relu2"}, kPlain, "none", true},
      {160, 64, 6, 3, kBf16, kBf16, {"swigluoai", 1.702, 1.0, 1.5}, kBias, "none", true},
  };
}

std::vector<Mlp> make_experts(const ExpertsCase& c, Random& random) {
  std::vector<Mlp> experts;
  for (int64_t e = 0; e < c.e; ++e)
    experts.push_back(make_mlp(random, c.h, c.i, c.gated(), c.biased(), c.act, c.weight_dtype()));
  return experts;
}

Batch make_batch(const ExpertsCase& c, Random& random, int64_t tokens) {
  Batch batch;
  batch.tokens = tokens;
  std::vector<double> hidden(static_cast<size_t>(tokens * c.h));
  for (double& x : hidden) x = random.uniform();
  batch.hidden = rounded(c.dtype, hidden);
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<int32_t> left(static_cast<size_t>(c.e));
    for (size_t e = 0; e < left.size(); ++e) left[e] = static_cast<int32_t>(e);
    for (int64_t j = 0; j < c.k; ++j) {
      const auto pick = static_cast<size_t>(random.below(static_cast<int64_t>(left.size())));
      batch.ids.push_back(left[pick]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
      batch.weights.push_back(static_cast<float>(0.75 + 0.5 * random.uniform()));
    }
  }
  return batch;
}

Batch Batch::pick(const std::vector<int64_t>& rows) const {
  Batch out;
  out.tokens = static_cast<int64_t>(rows.size());
  const auto total = static_cast<size_t>(tokens);
  const size_t h = hidden.number.size() / total;
  const size_t h_bytes = hidden.bytes.size() / total;
  const size_t k = ids.size() / total;
  const auto append = [](auto& to, const auto& from, size_t row, size_t width) {
    const auto first = from.begin() + static_cast<std::ptrdiff_t>(row * width);
    to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(width));
  };
  for (const int64_t index : rows) {
    const auto row = static_cast<size_t>(index);
    append(out.hidden.number, hidden.number, row, h);
    append(out.hidden.bytes, hidden.bytes, row, h_bytes);
    append(out.ids, ids, row, k);
    append(out.weights, weights, row, k);
  }
  return out;
}

Expected experts_reference(const ExpertsCase& c, const std::vector<Mlp>& experts,
                           const Batch& batch) {
  const bool on_input = (c.flags & MOERT_PROBLEM_WEIGHT_ON_INPUT) != 0;
  Expected all;
  for (int64_t t = 0; t < batch.tokens; ++t) {
    Expected row;
    row.value.assign(static_cast<size_t>(c.h), 0.0);
    row.tolerance.assign(static_cast<size_t>(c.h), 0.0);
    for (int64_t j = 0; j < c.k; ++j) {
      const auto slot = static_cast<size_t>(t * c.k + j);
      if (batch.ids[slot] == -1) continue;
      const auto w = static_cast<double>(batch.weights[slot]);
      std::vector<double> x(batch.hidden.number.begin() + t * c.h,
                            batch.hidden.number.begin() + (t + 1) * c.h);
      if (on_input)
        for (double& value : x) value *= w;
      // The scaled row may have been rounded to the rows' dtype.
      const Expected y = mlp_row(experts[static_cast<size_t>(batch.ids[slot])], x.data(),
                                 on_input ? 2 * roundoff(c.dtype) : 0.0, c.dtype);
      const double factor = on_input ? 1.0 : w;
      for (size_t h = 0; h < y.value.size(); ++h) {
        row.value[h] += factor * y.value[h];
        // Adding k slots in f32, and a slot's result that was rounded to the rows' dtype.
        row.tolerance[h] +=
            std::fabs(factor) *
            (y.tolerance[h] +
             std::fabs(y.value[h]) * (static_cast<double>(c.k) * 0x1p-24 + 2 * roundoff(c.dtype)));
      }
    }
    add_rounding(row, c.out_dtype);
    all.value.insert(all.value.end(), row.value.begin(), row.value.end());
    all.tolerance.insert(all.tolerance.end(), row.tolerance.begin(), row.tolerance.end());
  }
  return all;
}

void expect_experts(const ExpertsCase& c, const std::vector<Mlp>& experts, const Batch& batch,
                    const Bytes& out) {
  std::vector<std::string> texts;
  for (int64_t t = 0; t < batch.tokens; ++t) {
    std::string text = "experts";
    for (int64_t j = 0; j < c.k; ++j)
      text += " " + std::to_string(batch.ids[static_cast<size_t>(t * c.k + j)]);
    texts.push_back(text);
  }
  expect_near(decoded(c.out_dtype, out), experts_reference(c, experts, batch), c.h, texts);
}

}  // namespace moert::conformance
