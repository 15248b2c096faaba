// SPDX-License-Identifier: Apache-2.0
#include "report/curves.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "report/heatmap.hpp"
#include "report/html.hpp"
#include "report/numbers.hpp"
#include "report/svg.hpp"

namespace moert::report {
namespace {

constexpr int kLeft = 44, kTop = 12, kWidth = 350, kHeight = 210;
constexpr size_t kPoints = 80;  // of a line; more cannot be seen

// One layer's experts, busiest first.
struct Curve {
  int64_t layer_id = 0;
  size_t row = 0;
  std::vector<double> load;  // against even
  std::vector<double> sum;   // share of the slots, this expert's and all before it
};

std::vector<Curve> curves_of(const std::vector<capture::LayerStatistics>& layers) {
  std::vector<Curve> curves;
  for (size_t row = 0; row < layers.size(); ++row) {
    const capture::LayerStatistics& layer = layers[row];
    if (layer.load.slots == 0) continue;
    std::vector<int64_t> counts = layer.counts;
    std::sort(counts.begin(), counts.end(), std::greater<>());
    Curve curve{layer.layer_id, row, {}, {}};
    int64_t sum = 0;
    for (const int64_t count : counts) {
      sum += count;
      curve.load.push_back(relative_load(layer, count));
      curve.sum.push_back(static_cast<double>(sum) / static_cast<double>(layer.load.slots));
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

// The layers that are drawn above the others: least even first, then most even.
std::array<size_t, 2> extremes(const std::vector<Curve>& curves) {
  const auto area = [](const Curve& curve) {
    return std::accumulate(curve.sum.begin(), curve.sum.end(), 0.0) /
           static_cast<double>(curve.sum.size());
  };
  const auto less = [&](const Curve& a, const Curve& b) { return area(a) < area(b); };
  const auto [most, least] = std::minmax_element(curves.begin(), curves.end(), less);
  return {static_cast<size_t>(least - curves.begin()), static_cast<size_t>(most - curves.begin())};
}

struct Plot {
  std::string name, spoken, x_name;
  struct Tick {
    double at;  // 0 below, 1 above
    std::string text;
  };
  std::vector<Tick> ticks;
  std::string even;  // path of an even load
  // Height of an expert's point, 0 to 1; NAN: not drawn.
  std::function<double(const Curve&, size_t)> height;
  bool from_corner = false;  // lines begin at zero
};

// Of a place in the plot, each 0 to 1.
std::string at(double x, double y) { return point(kLeft + kWidth * x, kTop + kHeight * (1 - y)); }

std::string line(const Plot& plot, const Curve& curve, const char* css_class) {
  const size_t experts = curve.load.size(), points = std::min(experts, kPoints);
  std::string path = plot.from_corner ? at(0, 0) + " " : "";
  for (size_t i = 0; i < points; ++i) {
    const size_t expert = points < 2 ? 0 : i * (experts - 1) / (points - 1);
    const double y = plot.height(curve, expert);
    if (std::isnan(y)) break;
    path += at(static_cast<double>(expert + 1) / static_cast<double>(experts), y) + " ";
  }
  path.pop_back();
  return element("polyline", {{"data-row", curve.row}, {"class", css_class}, {"points", path}},
                 element("title", {}, "layer " + std::to_string(curve.layer_id)));
}

std::string frame(const Plot& plot) {
  std::string markup;
  for (const Plot::Tick& tick : plot.ticks) {
    const double y = kTop + kHeight * (1 - tick.at);
    markup += element("path",
                      {{"class", "rule"}, {"d", "M" + point(kLeft, y) + "h" + coordinate(kWidth)}});
    markup += label(kLeft - 6, y + 3.5, "end", tick.text);
  }
  for (int percent = 0; percent <= 100; percent += 25)
    markup += label(kLeft + kWidth * percent / 100.0, kTop + kHeight + 16, "middle",
                    std::to_string(percent) + "%");
  return markup + label(kLeft + kWidth / 2.0, kTop + kHeight + 32, "middle", plot.x_name);
}

std::string picture(const Plot& plot, const std::vector<Curve>& curves) {
  const auto [least, most] = extremes(curves);
  std::string lines;
  for (size_t i = 0; i < curves.size(); ++i)
    if (i != least && i != most) lines += line(plot, curves[i], "other");
  if (most != least) lines += line(plot, curves[most], "most");
  lines += line(plot, curves[least], "least");
  const double width = kLeft + kWidth + 18, height = kTop + kHeight + 38;
  const std::string drawn =
      element("svg",
              {{"class", "curves"},
               {"role", "img"},
               {"aria-label", plot.spoken},
               {"viewBox", view_box(width, height)}},
              frame(plot) + element("path", {{"class", "even"}, {"d", plot.even}}) + lines);
  return "<figure><figcaption>" + plot.name + "</figcaption>" + drawn + "</figure>\n";
}

Plot sorted_plot(const std::vector<Curve>& curves) {
  Plot plot;
  plot.name = "Load of each expert against even";
  plot.x_name = "experts, busiest first";
  double highest = 1;
  for (const Curve& curve : curves) highest = std::max(highest, curve.load.front());
  plot.spoken = "Lines of falling load, one for each layer; the highest begins at " +
                times_text(highest) + ". The table below has the values.";
  const double low = -4, high = std::max(1.0, std::ceil(std::log2(highest)));  // powers of two
  for (double power = low; power <= high; power += high > 4 ? 2 : 1) {
    const std::string text = power < 0 ? "1/" + integer_text(std::lround(std::exp2(-power)))
                                       : integer_text(std::lround(std::exp2(power)));
    plot.ticks.push_back({(power - low) / (high - low), text + "×"});
  }
  plot.even = "M" + at(0, -low / (high - low)) + "L" + at(1, -low / (high - low));
  // What is below the axis is dead or nearly so: the line ends on the axis.
  plot.height = [low, high](const Curve& curve, size_t expert) {
    const double load = curve.load[expert];
    return load > 0 ? std::max(0.0, (std::log2(load) - low) / (high - low))
           : expert > 0 && curve.load[expert - 1] > 0 ? 0.0
                                                      : NAN;
  };
  return plot;
}

Plot sum_plot(const std::vector<Curve>& curves) {
  Plot plot;
  plot.name = "Share of the slots that the busiest experts take together";
  plot.x_name = "experts, busiest first";
  const Curve& least = curves[extremes(curves)[0]];
  const size_t quarter = (least.sum.size() - 1) / 4;
  plot.spoken = "Lines of summed load, one for each layer. In layer " +
                std::to_string(least.layer_id) + ", the least even, the busiest " +
                counted(static_cast<int64_t>(quarter + 1), "expert") + " take " +
                percent_text(least.sum[quarter]) + ". The table below has the values.";
  for (int percent = 0; percent <= 100; percent += 25)
    plot.ticks.push_back({percent / 100.0, std::to_string(percent) + "%"});
  plot.even = "M" + at(0, 0) + "L" + at(1, 1);
  plot.from_corner = true;
  plot.height = [](const Curve& curve, size_t expert) { return curve.sum[expert]; };
  return plot;
}

std::string legend(const std::vector<Curve>& curves) {
  const auto [least, most] = extremes(curves);
  const auto entry = [](const std::string& css_class, const std::string& text) {
    return "<li>" +
           element("svg",
                   {{"class", "swatch"}, {"width", 26}, {"height", 12}, {"aria-hidden", "true"}},
                   element("path", {{"class", "line-" + css_class}, {"d", "M0 6h26"}})) +
           text + "</li>";
  };
  std::string markup =
      "<ul class=\"legend lines-legend\">" +
      entry("least", "layer " + std::to_string(curves[least].layer_id) + ", least even");
  if (most != least)
    markup += entry("most", "layer " + std::to_string(curves[most].layer_id) + ", most even");
  if (curves.size() > 2) markup += entry("other", "other layers");
  return markup + entry("even", "even load") + "</ul>";
}

std::string table(const std::vector<Curve>& curves) {
  int64_t experts = 0;
  for (const Curve& curve : curves)
    experts = std::max(experts, static_cast<int64_t>(curve.load.size()));
  const std::vector<int64_t> ranks = table_ranks(experts);
  std::vector<std::string> names;
  for (const int64_t rank : ranks) names.push_back("load of #" + std::to_string(rank));
  for (const int64_t rank : ranks) names.push_back("first " + std::to_string(rank));
  std::vector<Column> columns = {{"layer"}};
  for (const std::string& name : names) columns.push_back({name});
  Table result(
      "Load against even of the expert at a rank, and the share of the slots of all up to it",
      columns);
  for (const Curve& curve : curves) {
    std::vector<std::string> row = {std::to_string(curve.layer_id)};
    const auto add = [&](const std::vector<double>& values, std::string (*text)(double)) {
      for (const int64_t rank : ranks)
        row.push_back(rank <= static_cast<int64_t>(values.size())
                          ? text(values[static_cast<size_t>(rank - 1)])
                          : "–");
    };
    add(curve.load, times_text);
    add(curve.sum, percent_text);
    result.row(row);
  }
  return result.take();
}

}  // namespace

std::vector<int64_t> table_ranks(int64_t experts) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 1; rank < experts; rank *= 2) ranks.push_back(rank);
  if (experts > 0) ranks.push_back(experts);
  return ranks;
}

std::string curves(const ReportCapture& capture) {
  const std::vector<Curve> all = curves_of(capture.layers);
  if (all.empty()) return {};
  return part("Load curves",
              "Experts in falling order of load, a line for each layer. The further from the "
              "dashed line, the less even.",
              legend(all) + "<div class=\"pair\">" + picture(sorted_plot(all), all) +
                  picture(sum_plot(all), all) + "</div>" +
                  details("Values of the curves as a table", table(all)));
}

}  // namespace moert::report
