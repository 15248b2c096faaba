// How the weights of experts want their rows quantised: that it is what the layer says, and their input scales.
// SPDX-License-Identifier: Apache-2.0
#include "input_scales.hpp"

#include <moert/sdk/weight.hpp>

#include <cmath>
#include <cstring>

#include "../device_memory.hpp"
#include "../upload.hpp"
#include "rows.hpp"

namespace moert::gpu {
namespace {

// Numbers of many sizes, of which the first sixteen are the largest: wide enough for two of the usual groups and a part.
std::vector<float> probe_row(float scale) {
  constexpr int kCount = 300;
  std::vector<float> row;
  for (int i = 0; i < kCount; ++i) {
    const float fraction = static_cast<float>(i * 37 % 101) / 101.0f - 0.5f;
    row.push_back(std::ldexp(fraction * scale, i < 16 ? 10 : i % 12 - 4));
  }
  row[20] = 0;
  return row;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The number by which the rule gives what the quant method gives, of those that the weight's input scale may mean.
float scale_meant(const moert_piece_t& piece, const std::string& title, const RowRule& rule) {
  const RowQuant quant(piece);
  if (rule.by_weight() && !quant.input_scale())
    throw PluginError(MOERT_DATA_LOSS, title + " comes without the input scale of its rows");
  const float given = quant.input_scale().value_or(1.0f);
  // Whether it multiplies or divides is an option of nvfp4's quant method.
  for (const float scale : {given, 1 / given}) {
    const std::vector<float> probe = probe_row(rule.by_weight() ? scale : 1.0f);
    std::vector<float> wanted = probe, got = probe;
    quant.apply(wanted.data(), static_cast<int64_t>(wanted.size()));
    quantise_row(rule, scale, got.data(), static_cast<int64_t>(got.size()));
    if (same_bits(wanted, got)) return scale;
    if (rule.scale != RowScale::nv) break;
  }
  throw PluginError(MOERT_UNIMPLEMENTED,
                    title +
                        ": its quant method quantises rows in another way than the layer's "
                        "act_scheme means here");
}

}  // namespace

InputScales::InputScales(const RowRule& rule, int64_t experts, bool gated)
    : rule_(rule), experts_(experts), gated_(gated) {
  if (!rule.by_weight()) return;
  numbers_.assign(static_cast<size_t>(experts * kParts), 1.0f);
  memory_ =
      static_cast<float*>(allocate_for("input scales of " + std::to_string(experts) + " experts",
                                       static_cast<uint64_t>(experts) * kBundleBytes));
}

InputScales::~InputScales() { release(memory_); }

void InputScales::load(const moert_piece_t& piece, const std::string& title) {
  const moert_quant_view_t* view = piece.tensor->quant;
  const bool asks = view != nullptr && (view->flags & MOERT_QUANT_ROWS) != 0;
  if (asks != rule_.quantises())
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      title + (asks ? " asks for rows to be quantised, unlike its layer"
                                    : " asks for no rows to be quantised, unlike its layer"));
  if (!asks) return;
  const float scale = scale_meant(piece, title, rule_);
  if (rule_.by_weight()) numbers_[static_cast<size_t>(piece.expert * kParts) + piece.part] = scale;
}

void InputScales::finish() {
  if (!rule_.by_weight()) return;
  std::vector<float> packed(static_cast<size_t>(2 * experts_));
  for (int64_t e = 0; e < experts_; ++e) {
    const float* own = &numbers_[static_cast<size_t>(e * kParts)];
    if (gated_ && own[MOERT_PART_GATE] != own[MOERT_PART_UP])
      throw PluginError(MOERT_UNIMPLEMENTED, "expert " + std::to_string(e) +
                                                 ": gate and up have input scales " +
                                                 std::to_string(own[MOERT_PART_GATE]) + " and " +
                                                 std::to_string(own[MOERT_PART_UP]) +
                                                 ", but rows are quantised once for both");
    packed[static_cast<size_t>(e)] = own[MOERT_PART_UP];
    packed[static_cast<size_t>(experts_ + e)] = own[MOERT_PART_DOWN];
  }
  copy_and_wait(memory_, packed.data(), packed.size() * sizeof(float));
}

void InputScales::read(int64_t expert, void* bundle, Stream stream) const {
  auto* to = static_cast<float*>(bundle);
  for (int64_t which : {0, 1})
    copy_on_device(stream, to + which, memory_ + which * experts_ + expert, sizeof(float));
}

void InputScales::write(int64_t expert, const void* bundle, Stream stream) {
  const auto* from = static_cast<const float*>(bundle);
  for (int64_t which : {0, 1})
    copy_on_device(stream, memory_ + which * experts_ + expert, from + which, sizeof(float));
}

}  // namespace moert::gpu
