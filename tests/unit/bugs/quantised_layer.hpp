// What the product makes of a quantised checkpoint, held against what its numbers say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>
#include <moert/sdk/weight.hpp>

#include "quantised.hpp"
#include "runtime/fused_moe.hpp"
#include "weights/plan.hpp"

namespace moert::bugs {

// The layer runs, and gives what its experts give as the router chose and weighted them.
inline void expect_layer(
    Loaded& loaded, const std::vector<QuantisedExpert>& experts, const RowRule& rule,
    size_t layer = 0, const PlainActivation& act = silu,
    const std::function<std::vector<double>(const std::vector<float>&)>& more = {}) {
  const int64_t hidden = loaded.spec().hidden_size, tokens = 3;
  const std::vector<float> rows = random_rows(tokens, hidden, 17);
  const std::vector<float> got = loaded.forward(rows, layer);
  const auto k = loaded.routing.ids.size() / static_cast<size_t>(tokens);
  std::vector<double> want;
  for (ptrdiff_t t = 0; t < tokens; ++t) {
    const std::vector<float> row(rows.begin() + t * hidden, rows.begin() + (t + 1) * hidden);
    std::vector<double> sum = more ? more(row) : std::vector<double>(row.size(), 0.0);
    for (size_t j = static_cast<size_t>(t) * k; j < static_cast<size_t>(t + 1) * k; ++j) {
      const std::vector<double> one =
          output_of(experts.at(static_cast<size_t>(loaded.routing.ids[j])), row, rule, act);
      for (size_t c = 0; c < sum.size(); ++c)
        sum[c] += static_cast<double>(loaded.routing.weights[j]) * one[c];
    }
    want.insert(want.end(), sum.begin(), sum.end());
  }
  expect_rows(got, want, hidden);
}

// A weight as the product hands it to plugins: the plan's view, its companions, and the quant method that
// was chosen. Immovable.
class WeightPiece {
 public:
  WeightPiece(const runtime::Model& model, size_t layer, const weights::Source& source)
      : format_(model.plan().formats.at(source.format)),
        view_(weights::source_view(model.checkpoint(), source, &format_)) {
    record_.struct_size = sizeof record_;
    record_.scheme = format_.scheme.name.c_str();
    record_.layout = "canonical";
    views_.reserve(source.companions.size());
    for (const weights::Companion& companion : source.companions) {
      views_.push_back(weights::companion_view(model.checkpoint(), source, format_, companion));
      (companion.param == MOERT_PARAM_SCALE2        ? record_.scale2
       : companion.param == MOERT_PARAM_INPUT_SCALE ? record_.input_scale
       : companion.param == MOERT_PARAM_ZERO_POINT  ? record_.zero_point
       : companion.param == MOERT_PARAM_GROUP_INDEX ? record_.group_index
                                                    : record_.scale) = views_.back().get();
    }
    for (const auto& [key, value] : format_.scheme.options)
      if (key == "activations") record_.flags |= MOERT_QUANT_ROWS;
    view_.set_quant(&record_);
    for (const runtime::KindChoice& kind : model.choices().at(layer).kinds)
      if (!kind.scheme.empty() && kind.use.format == source.format)
        quant_ = runtime::make_quant(session(), kind);
    piece_.struct_size = sizeof piece_;
    piece_.expert = source.expert;
    piece_.part = source.part;
    piece_.tensor = view_.get();
    piece_.quant = quant_.table();
    piece_.quant_self = quant_.self();
  }
  WeightPiece(const WeightPiece&) = delete;
  WeightPiece& operator=(const WeightPiece&) = delete;

  moert_piece_t& piece() { return piece_; }
  std::vector<float> decoded(int64_t rows, int64_t cols) const {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    decode_weight(piece_, "a weight", rows, cols, values.data());
    return values;
  }

 private:
  weights::Format format_;
  TensorView view_;
  std::vector<TensorView> views_;
  moert_quant_view_t record_{};
  runtime::Quant quant_;
  moert_piece_t piece_{};
};

inline std::unique_ptr<runtime::Model> unloaded(
    const fs::path& folder, const std::function<void(spec::Model&)>& change = {}) {
  spec::Model spec = families().resolve(folder);
  if (change) change(spec);
  spec::Tensors rules = families().tensors(spec);
  runtime::ModelSettings settings;
  settings.device = "cpu";
  return std::make_unique<runtime::Model>(session(), std::move(spec), std::move(rules), settings);
}

// Element by element what the product reads in a part of a tensor.
inline void expect_decoded(const fs::path& folder, const std::string& tensor, uint32_t part,
                           const Weight& want, int64_t expert = 0,
                           const std::function<void(spec::Model&)>& change = {}) {
  const auto model = unloaded(folder, change);
  int found = 0;
  for (size_t i = 0; i < model->plan().layers.size(); ++i)
    for (const weights::Source& source : model->plan().layers[i].sources) {
      if (source.tensor->name != tensor || source.part != part) continue;
      if (source.rule->stacked && source.expert != expert) continue;
      ++found;
      EXPECT_EQ(WeightPiece(*model, i, source).decoded(want.rows, want.cols), as_f32(want.values))
          << tensor;
    }
  EXPECT_EQ(found, 1) << tensor;
}

// A quant method of this build, made for a scheme.
inline runtime::Quant quant_method(
    const std::string& candidate, const std::string& scheme,
    const std::vector<std::pair<std::string, std::string>>& options = {}) {
  runtime::KindChoice choice;
  choice.decision.chosen = session().registry().find(MOERT_KIND_QUANT_METHOD, candidate);
  choice.scheme = scheme;
  choice.use.scheme = {scheme, options};
  return runtime::make_quant(session(), choice);
}

}  // namespace moert::bugs
