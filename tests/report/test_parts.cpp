// Colours of the heatmap, ranks of the curves, rows of the tables.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/balance.hpp"
#include "report/curves.hpp"
#include "report/experts.hpp"
#include "report/heatmap.hpp"
#include "report/html.hpp"
#include "report/overview.hpp"
#include "support/sample_captures.hpp"

namespace {

using namespace moert::report;
using moert::capture::LayerStatistics;
using testing::PrintToString;

LayerStatistics layer_of(std::vector<int64_t> counts, int64_t id = 0) {
  LayerStatistics layer;
  layer.layer_id = id;
  layer.num_experts = static_cast<int64_t>(counts.size());
  layer.top_k = 1;
  layer.load = moert::capture::summarize_load(counts);
  layer.rows = layer.load.slots;
  layer.counts = std::move(counts);
  return layer;
}

ReportCapture capture_of(std::vector<LayerStatistics> layers) {
  ReportCapture capture;
  capture.layers = std::move(layers);
  return capture;
}

size_t times_in(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(ReportHeatmap, Steps) {
  // 64 experts of which one has `count` and the others fill up to a mean of 1,000.
  const std::pair<int64_t, int> cases[] = {{0, kDead}, {1, 0},    {124, 0},  {125, 1},  {249, 1},
                                           {250, 2},   {499, 2},  {500, 3},  {707, 3},  {708, 4},
                                           {1000, 4},  {1414, 4}, {1415, 5}, {1999, 5}, {2000, 6},
                                           {4000, 7},  {7999, 7}, {8000, 8}, {63000, 8}};
  for (const auto& [count, want] : cases) {
    std::vector<int64_t> counts(64, (64000 - count) / 63);
    counts[0] = count;
    counts[1] += 64000 - count - counts[1] * 63;
    const LayerStatistics layer = layer_of(counts);
    ASSERT_EQ(layer.load.slots, 64000);
    EXPECT_EQ(load_step(layer, count), want) << count;
  }
  EXPECT_EQ(load_step(layer_of({0, 0}), 0), kNothing) << "without decisions no expert is dead";
  EXPECT_EQ(relative_load(layer_of({0, 0}), 0), 0);
  EXPECT_EQ(relative_load(layer_of({}), 0), 0);
}

TEST(ReportHeatmap, CellsOfOneColourAreOneStroke) {
  const std::string page =
      heatmap(capture_of({layer_of({5, 5, 0, 0, 0, 5}, 3), layer_of({4, 4, 4, 4, 4, 4}, 9)}));
  EXPECT_NE(page.find("<path class=\"q6\" d=\"M0 0h2M5 0h1\"/>"), std::string::npos) << page;
  EXPECT_NE(page.find("<path class=\"dead\" d=\"M2 0h3\"/>"), std::string::npos) << page;
  EXPECT_NE(page.find("<path class=\"q4\" d=\"M0 1h6\"/>"), std::string::npos) << page;
  EXPECT_NE(page.find(">3</text>"), std::string::npos) << "the model's own number of the layer";
  EXPECT_NE(page.find(">9</text>"), std::string::npos);
}

TEST(ReportHeatmap, LayersOfDifferentWidthAndWithoutDecisions) {
  const std::string page =
      heatmap(capture_of({layer_of({1, 2}), layer_of({0, 0, 0, 0}), layer_of({1, 1, 1, 1})}));
  EXPECT_EQ(times_in(page, "class=\"dead\""), 1U) << "in the legend alone";
  EXPECT_EQ(times_in(page, "no decisions"), 1U);
  EXPECT_EQ(times_in(heatmap(capture_of({layer_of({1, 2})})), "no decisions"), 0U);
}

TEST(ReportCurves, Ranks) {
  const std::pair<int64_t, std::vector<int64_t>> cases[] = {
      {0, {}}, {1, {1}}, {2, {1, 2}}, {6, {1, 2, 4, 6}}, {8, {1, 2, 4, 8}}};
  for (const auto& [experts, want] : cases) EXPECT_EQ(table_ranks(experts), want) << experts;
}

TEST(ReportCurves, Values) {
  const std::string page = curves(capture_of({layer_of({1, 6, 1, 0}, 7)}));
  EXPECT_NE(page.find("<th scope=\"row\">7<td>3.00×<td>0.500×<td>0×<td>75.0%<td>87.5%<td>100%"),
            std::string::npos)
      << page;
  EXPECT_EQ(curves(capture_of({layer_of({0, 0})})), "") << "nothing to draw";
}

TEST(ReportBalance, LayersWithoutDecisionsHaveNoFigures) {
  const std::string page = balance(capture_of({layer_of({1, 3}, 4), layer_of({0, 0}, 5)}));
  EXPECT_NE(page.find("<th scope=\"row\">4<td>2<td>1<td>4<td>0<td>4<td>1<td>75.0%<td>1.50×"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("<th scope=\"row\">5<td>2<td>1<td>0<td>0<td>0<td>–<td>–<td>–<td>–"),
            std::string::npos)
      << page;
  EXPECT_EQ(times_in(page, "<circle"), 2U) << "one layer in two pictures";
  EXPECT_EQ(page.find("mean margin"), std::string::npos);
}

TEST(ReportBalance, Margins) {
  ReportCapture capture = capture_of({layer_of({1, 3}), layer_of({2, 2})});
  capture.layers[0].mean_margin = 0.0125;
  capture.layers[0].near_ties = 1234;
  const std::string page = balance(capture);
  EXPECT_NE(page.find("<td>0.0125<td>1,234"), std::string::npos) << page;
  EXPECT_NE(page.find("<td>–<td>–</tbody>"), std::string::npos) << "not known in the second";
}

TEST(ReportExperts, BusiestAndDead) {
  const std::string page =
      experts(capture_of({layer_of({0, 8, 0, 0}, 2), layer_of({5, 1, 1, 1}, 3)}));
  const size_t first = page.find("<th scope=\"row\">2<td>1<td>8<td>100%<td>4.00×");
  const size_t second = page.find("<th scope=\"row\">3<td>0<td>5<td>62.5%<td>2.50×");
  ASSERT_NE(first, std::string::npos) << page;
  ASSERT_NE(second, std::string::npos) << page;
  EXPECT_LT(first, second);
  EXPECT_NE(page.find("<th scope=\"row\">2<td>3<td>75.0%<td class=\"text\">0, 2, 3"),
            std::string::npos)
      << page;
  EXPECT_NE(experts(capture_of({layer_of({1, 1})})).find("Every expert has tokens"),
            std::string::npos);
}

TEST(ReportExperts, Pairs) {
  ReportCapture capture = capture_of({layer_of({5, 3, 2}, 6)});
  EXPECT_EQ(pairs(capture), "") << "none were counted";
  capture.layers[0].pairs = {{0, 2, 4, 1.25}};
  EXPECT_NE(pairs(capture).find("<th scope=\"row\">6<td>0 + 2<td>4<td>40.0%<td>1.25×"),
            std::string::npos)
      << pairs(capture);
}

TEST(ReportTable, Cells) {
  Table table("Things", {{"name", true}, {"count", false, "how many"}}, "own");
  EXPECT_TRUE(table.empty());
  table.row({"a", "1"}, " data-x=\"2\"");
  EXPECT_FALSE(table.empty());
  const std::string want =
      "<table class=\"own\"><caption>Things</caption><thead><tr><th scope=\"col\" "
      "class=\"text\">name<th scope=\"col\" title=\"how many\">count"
      "</thead><tbody>\n<tr data-x=\"2\"><th scope=\"row\" class=\"text\">a<td>1</tbody></table>";
  EXPECT_NE(table.take().find(want), std::string::npos);
}

}  // namespace
