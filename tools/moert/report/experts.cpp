// SPDX-License-Identifier: Apache-2.0
#include "report/experts.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "report/heatmap.hpp"
#include "report/html.hpp"
#include "report/numbers.hpp"

namespace moert::report {
namespace {

using Layers = std::vector<capture::LayerStatistics>;

constexpr size_t kOfAll = 10, kOfLayer = 5;  // rows that a table shows of all layers, of each layer

struct Load {
  const capture::LayerStatistics* layer;
  size_t expert;

  int64_t count() const { return layer->counts[expert]; }
  double relative() const { return relative_load(*layer, count()); }
};

// Highest load first; ties by layer and number.
bool busier(const Load& a, const Load& b) {
  const double x = a.relative(), y = b.relative();
  return x != y ? x > y
                : std::pair(a.layer->layer_id, a.expert) < std::pair(b.layer->layer_id, b.expert);
}

// A layer's experts, busiest first. Dead ones are left out.
std::vector<Load> busiest(const capture::LayerStatistics& layer) {
  std::vector<Load> loads;
  for (size_t e = 0; e < layer.counts.size(); ++e)
    if (layer.counts[e] > 0) loads.push_back({&layer, e});
  std::sort(loads.begin(), loads.end(), busier);
  loads.resize(std::min(loads.size(), kOfLayer));
  return loads;
}

std::string load_table(const std::string& caption, const std::vector<Load>& loads) {
  Table table(caption, {{"layer"},
                        {"expert"},
                        {"slots"},
                        {"share", false, "of the layer's slots"},
                        {"against even"}});
  for (const Load& load : loads)
    table.row({std::to_string(load.layer->layer_id), std::to_string(load.expert),
               integer_text(load.count()),
               percent_text(static_cast<double>(load.count()) /
                            static_cast<double>(load.layer->load.slots)),
               times_text(load.relative())});
  return table.take();
}

std::string dead_table(const Layers& layers) {
  Table table("Experts without a token", {{"layer"}, {"dead"}, {"of all"}, {"experts", true}});
  for (const capture::LayerStatistics& layer : layers) {
    if (layer.load.slots == 0 || layer.load.dead == 0) continue;
    std::vector<int64_t> dead;
    for (size_t e = 0; e < layer.counts.size(); ++e)
      if (layer.counts[e] == 0) dead.push_back(static_cast<int64_t>(e));
    table.row({std::to_string(layer.layer_id), integer_text(layer.load.dead),
               percent_text(static_cast<double>(layer.load.dead) /
                            static_cast<double>(layer.counts.size())),
               ranges_text(dead)});
  }
  return table.empty()
             ? "<p class=\"none\">Every expert has tokens in every layer with decisions.</p>\n"
             : table.take();
}

struct Pair {
  const capture::LayerStatistics* layer;
  const capture::ExpertPair* pair;

  double share() const {
    return layer->rows > 0 ? static_cast<double>(pair->rows) / static_cast<double>(layer->rows) : 0;
  }
};

// Largest share of its layer's rows first; ties by layer and numbers.
bool more_frequent(const Pair& a, const Pair& b) {
  const double x = a.share(), y = b.share();
  return x != y ? x > y
                : std::tuple(a.layer->layer_id, a.pair->a, a.pair->b) <
                      std::tuple(b.layer->layer_id, b.pair->a, b.pair->b);
}

std::string pair_table(const std::string& caption, const std::vector<Pair>& pairs) {
  Table table(caption, {{"layer"},
                        {"experts"},
                        {"rows", false, "that chose both"},
                        {"share of rows"},
                        {"lift", false,
                         "rows against what independent choices of the same load would give"}});
  for (const Pair& p : pairs)
    table.row({std::to_string(p.layer->layer_id),
               std::to_string(p.pair->a) + " + " + std::to_string(p.pair->b),
               integer_text(p.pair->rows), percent_text(p.share()), times_text(p.pair->lift)});
  return table.take();
}

}  // namespace

std::string experts(const ReportCapture& capture) {
  std::vector<Load> all;
  for (const capture::LayerStatistics& layer : capture.layers) {
    const std::vector<Load> of_layer = busiest(layer);
    all.insert(all.end(), of_layer.begin(), of_layer.end());
  }
  std::vector<Load> top = all;
  std::sort(top.begin(), top.end(), busier);
  top.resize(std::min(top.size(), kOfAll));
  return part(
      "Busiest and dead experts",
      "The busiest of all layers, by load against an even one; and those that no token went to.",
      "<div class=\"pair\">" + load_table("Busiest of all layers", top) +
          dead_table(capture.layers) + "</div>" +
          details("Busiest of each layer",
                  load_table("The " + std::to_string(kOfLayer) + " busiest of each layer", all)));
}

std::string pairs(const ReportCapture& capture) {
  std::vector<Pair> all;
  for (const capture::LayerStatistics& layer : capture.layers)
    for (const capture::ExpertPair& pair : layer.pairs) all.push_back({&layer, &pair});
  if (all.empty()) return {};
  std::vector<Pair> top = all;
  std::sort(top.begin(), top.end(), more_frequent);
  top.resize(std::min(top.size(), kOfAll));
  return part(
      "Experts chosen together",
      "Pairs that one token visits both of. A lift of 1× is what their loads alone would give.",
      pair_table("Most frequent pairs of all layers", top) +
          details("Pairs of each layer", pair_table("Most frequent pairs of each layer", all)));
}

}  // namespace moert::report
