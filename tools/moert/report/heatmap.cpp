// Cells of one colour are one path, and runs of them one stroke: a rectangle each would be ten times as long.
// SPDX-License-Identifier: Apache-2.0
#include "report/heatmap.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "report/html.hpp"
#include "report/numbers.hpp"
#include "report/svg.hpp"

namespace moert::report {
namespace {

using Layers = std::vector<capture::LayerStatistics>;

// Upper bounds of the steps but the last. About even is within the square root of two.
constexpr std::array<double, kSteps - 1> kBounds = {0.125, 0.25, 0.5, 0.7071, 1.4142, 2, 4, 8};
constexpr std::array<std::string_view, kSteps> kStepNames = {"below 1/8×", "1/8–1/4×", "1/4–1/2×",
                                                             "1/2–0.7×",   "even",     "1.4–2×",
                                                             "2–4×",       "4–8×",     "8× and up"};

constexpr int kWidth = 1024, kHeight = 560;  // wanted, where cells may have any size
constexpr int kLeft = 44, kTop = 30;

struct Grid {
  int64_t columns = 0, rows = 0;
  int cell_width = 0, cell_height = 0;
  bool written = false;  // room for a number in each cell

  double x(int64_t column) const { return static_cast<double>(kLeft + column * cell_width); }
  double y(int64_t row) const { return static_cast<double>(kTop + row * cell_height); }
  double width() const { return x(columns) + 1; }
  double height() const { return y(rows) + 1; }
};

Grid grid_of(const Layers& layers) {
  Grid grid;
  grid.rows = static_cast<int64_t>(layers.size());
  for (const capture::LayerStatistics& layer : layers)
    grid.columns = std::max(grid.columns, static_cast<int64_t>(layer.counts.size()));
  const auto fitting = [](int wanted, int64_t count, int least, int most) {
    return static_cast<int>(std::clamp<int64_t>(wanted / std::max<int64_t>(count, 1), least, most));
  };
  grid.cell_width = fitting(kWidth, grid.columns, 2, 60);
  grid.written = grid.cell_width >= 48;
  grid.cell_height = fitting(kHeight, grid.rows, grid.written ? 20 : 6, 24);
  return grid;
}

// The power of two of cells between two labels that need `room`.
int64_t label_distance(int cell, int room) {
  int64_t distance = 1;
  while (distance * cell < room) distance *= 2;
  return distance;
}

std::string axes(const Grid& grid, const Layers& layers) {
  std::string markup = label(kLeft - 6, 10, "end", "layer") + label(kLeft, 10, "start", "expert");
  for (int64_t e = 0, d = label_distance(grid.cell_width, 40); e < grid.columns; e += d)
    markup += label(grid.x(e) + grid.cell_width / 2.0, kTop - 6, "middle", std::to_string(e));
  for (int64_t l = 0, d = label_distance(grid.cell_height, 14); l < grid.rows; l += d)
    markup += label(kLeft - 6, grid.y(l) + grid.cell_height / 2.0 + 4, "end",
                    std::to_string(layers[static_cast<size_t>(l)].layer_id));
  return element("g", {{"class", "axis"}}, markup);
}

// Strokes of one cell's height, in units of cells: "M5 3h2" are the experts 5 and 6 of the layer at 3.
void add_runs(const capture::LayerStatistics& layer, size_t row,
              std::array<std::string, kSteps + 1>& paths) {
  const size_t experts = layer.counts.size();
  for (size_t begin = 0, end = 0; begin < experts; begin = end) {
    const int step = load_step(layer, layer.counts[begin]);
    for (end = begin + 1; end < experts && load_step(layer, layer.counts[end]) == step;) ++end;
    if (step != kNothing)
      paths[static_cast<size_t>(step)] += "M" + std::to_string(begin) + " " + std::to_string(row) +
                                          "h" + std::to_string(end - begin);
  }
}

std::string step_class(int step) { return step == kDead ? "dead" : "q" + std::to_string(step); }

std::string cells(const Grid& grid, const Layers& layers) {
  std::array<std::string, kSteps + 1> paths;
  for (size_t row = 0; row < layers.size(); ++row) add_runs(layers[row], row, paths);
  std::string markup;
  for (int step = 0; step <= kDead; ++step)
    if (const std::string& path = paths[static_cast<size_t>(step)]; !path.empty())
      markup += element("path", {{"class", step_class(step)}, {"d", path}});
  const std::string place = "translate(" + point(kLeft, kTop + grid.cell_height / 2.0) +
                            ") scale(" + point(grid.cell_width, grid.cell_height) + ")";
  return element("g", {{"class", "cells"}, {"transform", place}}, markup);
}

// Lines between cells that are large enough to lose a pixel.
std::string lines(const Grid& grid) {
  std::string path;
  if (grid.cell_height >= 8)
    for (int64_t l = 0; l <= grid.rows; ++l)
      path += "M" + point(kLeft, grid.y(l)) + "H" + coordinate(grid.x(grid.columns));
  if (grid.cell_width >= 6)
    for (int64_t e = 0; e <= grid.columns; ++e)
      path += "M" + point(grid.x(e), kTop) + "V" + coordinate(grid.y(grid.rows));
  return path.empty() ? path : element("path", {{"class", "lines"}, {"d", path}});
}

std::string numbers(const Grid& grid, const Layers& layers) {
  std::string markup;
  for (size_t l = 0; l < layers.size(); ++l)
    for (size_t e = 0; e < layers[l].counts.size(); ++e) {
      const int64_t count = layers[l].counts[e];
      const int step = load_step(layers[l], count);
      if (step == kNothing) continue;
      const double x = grid.x(static_cast<int64_t>(e)) + grid.cell_width / 2.0;
      const double y = grid.y(static_cast<int64_t>(l)) + grid.cell_height / 2.0 + 4;
      markup += element("text", {{"class", "on-" + step_class(step)}, {"x", x}, {"y", y}},
                        number_text(relative_load(layers[l], count)));
    }
  return element("g", {{"class", "numbers"}, {"text-anchor", "middle"}}, markup);
}

std::string spoken(const ReportCapture& capture, const Grid& grid) {
  const capture::LayerStatistics* highest = nullptr;
  int64_t dead = 0;
  for (const capture::LayerStatistics& layer : capture.layers) {
    if (layer.load.slots > 0) dead += layer.load.dead;
    if (layer.load.slots > 0 &&
        (!highest || layer.load.max_over_mean > highest->load.max_over_mean))
      highest = &layer;
  }
  std::string text =
      "Heatmap of " + counted(grid.rows, "layer") + " by " + counted(grid.columns, "expert") + ".";
  if (highest)
    text += " Highest: expert " + std::to_string(highest->load.busiest) + " of layer " +
            std::to_string(highest->layer_id) + " with " + times_text(highest->load.max_over_mean) +
            " the even load.";
  return text + " Without a token: " + counted(dead, "expert") +
         ". The table below has all counts.";
}

// The data- attributes are how the script finds the cell under a pointer.
std::string picture(const ReportCapture& capture, const Grid& grid) {
  return element("svg",
                 {{"class", "heatmap"},
                  {"role", "img"},
                  {"aria-label", spoken(capture, grid)},
                  {"width", grid.width()},
                  {"height", grid.height()},
                  {"viewBox", view_box(grid.width(), grid.height())},
                  {"data-left", kLeft},
                  {"data-top", kTop},
                  {"data-cell-width", grid.cell_width},
                  {"data-cell-height", grid.cell_height}},
                 axes(grid, capture.layers) + cells(grid, capture.layers) + lines(grid) +
                     (grid.written ? numbers(grid, capture.layers) : ""));
}

std::string legend(const ReportCapture& capture) {
  const auto entry = [](const std::string& css_class, std::string_view name) {
    return "<li>" +
           element("svg",
                   {{"class", "swatch"},
                    {"viewBox", "0 0 1 1"},
                    {"preserveAspectRatio", "none"},
                    {"aria-hidden", "true"}},
                   element("path", {{"class", css_class}, {"d", "M0 .5h1"}})) +
           std::string(name) + "</li>";
  };
  std::string markup = "<ul class=\"scale\" aria-label=\"Colours: load against an even one\">";
  for (int step = 0; step < kSteps; ++step)
    markup += entry(step_class(step), kStepNames[static_cast<size_t>(step)]);
  markup += entry("dead", "no token");
  if (std::any_of(capture.layers.begin(), capture.layers.end(),
                  [](const auto& layer) { return layer.load.slots == 0; }))
    markup += entry("nothing", "no decisions");
  return markup + "</ul>";
}

std::string counts_table(const ReportCapture& capture, const Grid& grid) {
  std::vector<std::string> names(static_cast<size_t>(grid.columns));
  for (size_t e = 0; e < names.size(); ++e) names[e] = std::to_string(e);
  std::vector<Column> columns = {{"layer"}};
  for (const std::string& name : names) columns.push_back({name});
  Table table("Slots that went to each expert", columns, "counts");
  for (const capture::LayerStatistics& layer : capture.layers) {
    std::vector<std::string> row = {std::to_string(layer.layer_id)};
    for (const int64_t count : layer.counts) row.push_back(integer_text(count));
    table.row(row, " data-slots=\"" + std::to_string(layer.load.slots) + "\"");
  }
  return table.take();
}

}  // namespace

double even_count(const capture::LayerStatistics& layer) {
  if (layer.counts.empty()) return 0;
  return static_cast<double>(layer.load.slots) / static_cast<double>(layer.counts.size());
}

double relative_load(const capture::LayerStatistics& layer, int64_t count) {
  const double even = even_count(layer);
  return even > 0 ? static_cast<double>(count) / even : 0;
}

int load_step(const capture::LayerStatistics& layer, int64_t count) {
  if (layer.load.slots == 0) return kNothing;
  if (count == 0) return kDead;
  const double load = relative_load(layer, count);
  return static_cast<int>(std::upper_bound(kBounds.begin(), kBounds.end(), load) - kBounds.begin());
}

std::string heatmap(const ReportCapture& capture) {
  const Grid grid = grid_of(capture.layers);
  return part("Load of every expert",
              "Each cell is an expert of a layer; its colour is how many slots went to it, against "
              "an even share of the "
              "layer&#39;s slots, on a scale of powers of two.",
              "<figure class=\"wide\">" + legend(capture) +
                  scrolling("Load of every expert", picture(capture, grid)) +
                  "<figcaption class=\"hint\"></figcaption></figure>\n" +
                  details("All counts as a table", counts_table(capture, grid)));
}

}  // namespace moert::report
