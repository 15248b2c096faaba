// SPDX-License-Identifier: Apache-2.0
#include "report/balance.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "report/heatmap.hpp"
#include "report/html.hpp"
#include "report/numbers.hpp"
#include "report/svg.hpp"

namespace moert::report {
namespace {

using Layers = std::vector<capture::LayerStatistics>;

constexpr int kLeft = 44, kTop = 14, kPanel = 130, kBottom = 30;
constexpr double kLeast = 280;  // width of a picture of few layers

// One value of each layer as a dot that hangs from a reference, layers from left to right.
struct Panel {
  std::string name, spoken;
  double low = 0, high = 1;  // of the vertical axis
  struct Tick {
    double at;
    std::string text;
  };
  std::vector<Tick> ticks;
  struct Dot {
    double value, reference;
    std::string tip;
  };
  std::vector<Dot> dots;  // of the layers; a value that is no number is left out
};

double pitch_of(size_t layers) {
  return std::clamp(1000.0 / static_cast<double>(std::max<size_t>(layers, 1)), 7.0, 64.0);
}

double height_of(const Panel& panel, double value) {
  return kTop + kPanel * (panel.high - value) / (panel.high - panel.low);
}

std::string grid(const Panel& panel, double width) {
  std::string markup;
  for (const Panel::Tick& tick : panel.ticks) {
    const double y = height_of(panel, tick.at);
    markup += element("path",
                      {{"class", "rule"}, {"d", "M" + point(kLeft, y) + "H" + coordinate(width)}});
    markup += label(kLeft - 6, y + 3.5, "end", tick.text);
  }
  return markup;
}

std::string layer_labels(const Layers& layers, double pitch) {
  size_t distance = 1;
  while (static_cast<double>(distance) * pitch < 24) distance *= 2;
  std::string markup;
  for (size_t l = 0; l < layers.size(); l += distance)
    markup += label(kLeft + (static_cast<double>(l) + 0.5) * pitch, kTop + kPanel + 18, "middle",
                    std::to_string(layers[l].layer_id));
  return markup;
}

// A column over the whole height answers the pointer, not the dot alone.
std::string dots(const Panel& panel, double pitch) {
  std::string markup;
  for (size_t l = 0; l < panel.dots.size(); ++l) {
    const Panel::Dot& dot = panel.dots[l];
    if (!std::isfinite(dot.value)) continue;
    const double left = kLeft + static_cast<double>(l) * pitch, x = left + pitch / 2;
    const double from = height_of(panel, dot.reference), to = height_of(panel, dot.value);
    std::string parts = element("title", {}, dot.tip);
    parts += element(
        "rect",
        {{"class", "column"}, {"x", left}, {"y", kTop}, {"width", pitch}, {"height", kPanel}});
    parts +=
        element("path", {{"class", "stem"}, {"d", "M" + point(x, from) + "V" + coordinate(to)}});
    parts += element("circle", {{"cx", x}, {"cy", to}, {"r", pitch < 10 ? 2.5 : 3.5}});
    markup += element("g", {{"data-row", l}}, parts);
  }
  return markup;
}

std::string picture(const Panel& panel, const Layers& layers) {
  const double pitch = pitch_of(layers.size());
  const double width = std::max(kLeft + pitch * static_cast<double>(layers.size()), kLeast);
  const double whole = width + 4, height = kTop + kPanel + kBottom;
  const std::string drawn =
      element("svg",
              {{"class", "chart"},
               {"role", "img"},
               {"aria-label", panel.spoken},
               {"width", whole},
               {"height", height},
               {"viewBox", view_box(whole, height)}},
              grid(panel, width) + layer_labels(layers, pitch) + dots(panel, pitch));
  return "<figure class=\"wide\"><figcaption>" + panel.name + "</figcaption>" +
         scrolling(panel.name, drawn) + "</figure>\n";
}

const capture::LayerStatistics& least_even(const Layers& layers) {
  return *std::max_element(layers.begin(), layers.end(), [](const auto& a, const auto& b) {
    return a.load.max_over_mean < b.load.max_over_mean;
  });
}

std::string layer_name(const capture::LayerStatistics& layer) {
  return "layer " + std::to_string(layer.layer_id);
}

Panel peak_panel(const Layers& layers) {
  Panel panel;
  panel.name = "Busiest expert against the mean, by layer";
  const capture::LayerStatistics& worst = least_even(layers);
  panel.spoken = "Dot plot over " + counted(static_cast<int64_t>(layers.size()), "layer") +
                 ". Highest: " + layer_name(worst) + " with " +
                 times_text(worst.load.max_over_mean) + ". The table below has all values.";
  panel.high = std::max(1.0, std::ceil(std::log2(std::max(1.0, worst.load.max_over_mean))));
  const int between = panel.high > 6 ? 2 : 1;
  for (int power = 0; power <= static_cast<int>(panel.high); power += between)
    panel.ticks.push_back({static_cast<double>(power), integer_text(int64_t{1} << power) + "×"});
  for (const capture::LayerStatistics& layer : layers)
    panel.dots.push_back({std::log2(layer.load.max_over_mean), 0,
                          layer_name(layer) + ": expert " + std::to_string(layer.load.busiest) +
                              ", " + times_text(layer.load.max_over_mean)});
  return panel;
}

Panel entropy_panel(const Layers& layers) {
  Panel panel;
  panel.name = "Entropy of the load in bits, hanging from that of an even load";
  double low = INFINITY, high = 0;
  for (const capture::LayerStatistics& layer : layers) {
    high = std::max(high, layer.even_entropy);
    const bool known = layer.load.slots > 0;
    if (known) low = std::min(low, layer.entropy);
    panel.dots.push_back({known ? layer.entropy : NAN, layer.even_entropy,
                          layer_name(layer) + ": " + number_text(layer.entropy) + " of " +
                              number_text(layer.even_entropy) + " bits"});
  }
  panel.high = std::max(1.0, std::ceil(high));
  panel.low = std::clamp(std::floor(low * 2) / 2, 0.0, panel.high - 0.5);
  const double between = panel.high - panel.low > 3 ? 1 : 0.5;
  for (double bits = panel.high; bits >= panel.low; bits -= between)
    panel.ticks.push_back({bits, coordinate(bits)});
  panel.spoken = "Dot plot over " + counted(static_cast<int64_t>(layers.size()), "layer") +
                 ". Lowest entropy: " + number_text(low) + " bits; an even load has " +
                 number_text(high) + ". The table below has all values.";
  return panel;
}

std::string table(const ReportCapture& capture) {
  const Layers& layers = capture.layers;
  const bool margins = std::any_of(layers.begin(), layers.end(),
                                   [](const auto& layer) { return layer.mean_margin.has_value(); });
  const std::string near = "rows whose margin is below " + number_text(capture.near_tie);
  std::vector<Column> columns = {
      {"layer"},
      {"experts"},
      {"k", false, "experts chosen for a token"},
      {"rows"},
      {"absent", false, "rows without a decision of this layer"},
      {"slots", false, "rows times k"},
      {"busiest", false, "the expert with most slots"},
      {"its share"},
      {"max / mean"},
      {"entropy", false, "bits, of an expert's share of the slots"},
      {"even", false, "bits if all shares were the same"},
      {"effective", false, "how many experts with equal shares have this entropy"},
      {"dead", false, "experts without a token"}};
  if (margins)
    columns.insert(columns.end(), {{"mean margin", false,
                                    "selection score of the last slot minus the best one left out"},
                                   {"near ties", false, near}});
  Table result("Balance of each layer", columns);
  for (const capture::LayerStatistics& layer : layers) {
    const bool known = layer.load.slots > 0;
    const auto if_known = [&](const std::string& text) { return known ? text : std::string("–"); };
    std::vector<std::string> row = {std::to_string(layer.layer_id),
                                    integer_text(layer.num_experts),
                                    integer_text(layer.top_k),
                                    integer_text(layer.rows),
                                    integer_text(layer.absent),
                                    integer_text(layer.load.slots),
                                    if_known(std::to_string(layer.load.busiest)),
                                    if_known(percent_text(layer.load.busiest_share)),
                                    if_known(times_text(layer.load.max_over_mean)),
                                    if_known(number_text(layer.entropy)),
                                    number_text(layer.even_entropy),
                                    if_known(number_text(std::exp2(layer.entropy))),
                                    if_known(integer_text(layer.load.dead))};
    if (margins) {
      row.push_back(layer.mean_margin ? number_text(*layer.mean_margin) : "–");
      row.push_back(layer.mean_margin ? integer_text(layer.near_ties) : "–");
    }
    result.row(row);
  }
  return result.take();
}

}  // namespace

std::string balance(const ReportCapture& capture) {
  return part("Balance by layer",
              "At 1× the busiest expert has no more than its share. Entropy looks at all experts: "
              "one bit below even is as if half of them were not there.",
              "<div class=\"flow\">" + picture(peak_panel(capture.layers), capture.layers) +
                  picture(entropy_panel(capture.layers), capture.layers) + "</div>\n" +
                  details("Figures of each layer as a table", table(capture)));
}

}  // namespace moert::report
