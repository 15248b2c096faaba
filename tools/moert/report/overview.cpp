// SPDX-License-Identifier: Apache-2.0
#include "report/overview.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "report/heatmap.hpp"
#include "report/html.hpp"
#include "report/numbers.hpp"

namespace moert::report {
namespace {

using Layers = std::vector<capture::LayerStatistics>;

constexpr double kFewSlots = 10;  // below it, chance alone spreads loads by a third

// A name from a file. <bdi>: letters that are written from the right stay inside it.
std::string name(const std::string& text) { return "<bdi>" + escape(text) + "</bdi>"; }

std::string value_or(const std::string& text, const std::string& otherwise) {
  return text.empty() ? "<span class=\"muted\">" + otherwise + "</span>" : name(text);
}

std::string file_name(const ReportCapture& capture) {
  return capture.path.substr(capture.path.find_last_of('/') + 1);
}

// Figures over the layers that have decisions.
struct Totals {
  int64_t known = 0, dead = 0, experts = 0, slots = 0;
  double peak_sum = 0, share_sum = 0;  // of max / mean, of entropy / even
  const capture::LayerStatistics* worst = nullptr;
};

Totals totals_of(const Layers& layers) {
  Totals totals;
  for (const capture::LayerStatistics& layer : layers) {
    if (layer.load.slots == 0) continue;
    ++totals.known;
    totals.dead += layer.load.dead;
    totals.experts += static_cast<int64_t>(layer.counts.size());
    totals.slots += layer.load.slots;
    totals.peak_sum += layer.load.max_over_mean;
    totals.share_sum += layer.even_entropy > 0 ? layer.entropy / layer.even_entropy : 1;
    if (!totals.worst || layer.load.max_over_mean > totals.worst->load.max_over_mean)
      totals.worst = &layer;
  }
  return totals;
}

double mean(double sum, int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : NAN;
}

std::string different_values(const Layers& layers, int64_t capture::LayerStatistics::* field) {
  std::set<int64_t> values;
  for (const capture::LayerStatistics& layer : layers) values.insert(layer.*field);
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ", ") + integer_text(value);
  return text.empty() ? "–" : text;
}

std::string tile(const std::string& label, const std::string& value, const std::string& note = {}) {
  return "<div class=\"tile\"><dt>" + label + "</dt><dd>" + value +
         (note.empty() ? "" : " <small>" + note + "</small>") + "</dd></div>";
}

std::string tiles(const ReportCapture& capture, const Totals& totals) {
  const std::string rows_note =
      capture.sequence    ? "of sequence " + std::to_string(*capture.sequence)
      : capture.sequences ? "in " + counted(*capture.sequences, "sequence")
                          : "";
  std::string markup =
      "<dl class=\"tiles\">" + tile("Rows", integer_text(capture.rows), rows_note) +
      tile("MoE layers", integer_text(static_cast<int64_t>(capture.layers.size())),
           capture.info.hidden_layers > 0 ? "of " + counted(capture.info.hidden_layers, "layer")
                                          : "") +
      tile("Experts", different_values(capture.layers, &capture::LayerStatistics::num_experts),
           "k = " + different_values(capture.layers, &capture::LayerStatistics::top_k));
  if (totals.worst)
    markup += tile("Busiest", times_text(totals.worst->load.max_over_mean),
                   "expert " + std::to_string(totals.worst->load.busiest) + ", layer " +
                       std::to_string(totals.worst->layer_id)) +
              tile("Entropy", percent_text(mean(totals.share_sum, totals.known)),
                   "of even, mean of layers") +
              tile("Dead", integer_text(totals.dead), "of " + integer_text(totals.experts));
  return markup + "</dl>\n";
}

std::string notice(const std::string& kind, const std::string& heading, const std::string& text) {
  return "<div class=\"notice " + kind + "\" role=\"note\"><strong>" + heading + "</strong> " +
         text + "</div>\n";
}

std::string notices(const ReportCapture& capture, const Totals& totals) {
  std::string markup;
  if (!capture.info.simulated.empty())
    markup += notice("loud", "Simulated routing.",
                     "Experts were drawn at random (" + name(capture.info.simulated) +
                         ") instead of chosen by the model&#39;s routers. Nothing below says "
                         "anything about the model.");
  const int64_t decisions = capture.rows * static_cast<int64_t>(capture.layers.size());
  if (capture.absent > 0)
    markup += notice(
        "warning",
        counted(capture.absent, "decision") +
            (capture.absent == 1 ? " is absent." : " are absent."),
        percent_text(mean(static_cast<double>(capture.absent), decisions)) + " of the " +
            integer_text(decisions) +
            " decisions of these rows were not captured. All shares are of those that were.");
  if (capture.info.lost > 0)
    markup += notice(
        "warning",
        counted(capture.info.lost, "row") + (capture.info.lost == 1 ? " was lost." : " were lost."),
        "They were recorded, but nothing of them could be kept; they are in no number below.");
  if (capture.info.cut)
    markup +=
        notice("warning", "Cut short.",
               "Capturing ended before what was captured did; how much is missing is not known.");
  if (capture.rows > 0 && totals.slots == 0)
    markup += notice("warning", "No decisions.",
                     "No layer of these rows was captured, so there is nothing to draw.");
  if (totals.slots > 0 && mean(static_cast<double>(totals.slots), totals.experts) < kFewSlots)
    markup += notice("hint", "A short capture.",
                     "An expert has " +
                         number_text(mean(static_cast<double>(totals.slots), totals.experts)) +
                         " slots on average. Uneven and dead experts of this degree come about by "
                         "chance as well.");
  return markup;
}

std::string fact(const std::string& label, const std::string& value) {
  return "<div><dt>" + label + "</dt><dd>" + value + "</dd></div>";
}

std::string kept(const capture::CaptureInfo& info) {
  return std::string("ids") + (info.weights ? ", weights" : "") + (info.margins ? ", margins" : "");
}

std::string provenance(const ReportCapture& capture) {
  const capture::CaptureInfo& info = capture.info;
  return "<dl class=\"facts\">" + fact("File", name(capture.path)) +
         fact("Model", value_or(info.model, "no name")) +
         fact("Family", value_or(info.family, "not said")) +
         fact("Source", value_or(info.source, "not said")) + fact("Kept of each slot", kept(info)) +
         fact("Order of slots", value_or(info.slot_order, "not said")) +
         fact("Model digest", "<code>" + value_or(info.model_digest, "not known") + "</code>") +
         fact("Router digest", "<code>" + value_or(info.router_digest, "not known") + "</code>") +
         "</dl>\n";
}

std::string state(const ReportCapture& capture) {
  const std::string badge = capture.complete ? "<span class=\"badge good\">complete</span>"
                                             : "<span class=\"badge bad\">not complete</span>";
  return capture.info.simulated.empty() ? badge
                                        : badge + " <span class=\"badge bad\">simulated</span>";
}

}  // namespace

std::string capture_name(const ReportCapture& capture) {
  return capture.info.model.empty() ? value_or(file_name(capture), "unnamed capture")
                                    : name(capture.info.model);
}

std::string distinct_name(const std::vector<ReportCapture>& captures, size_t number) {
  const ReportCapture& capture = captures.at(number);
  const auto count = [&](auto&& key) {
    return std::count_if(captures.begin(), captures.end(),
                         [&](const ReportCapture& other) { return key(other) == key(capture); });
  };
  if (count(capture_name) == 1) return capture_name(capture);
  return value_or(count(file_name) == 1 ? file_name(capture) : capture.path, "unnamed capture");
}

std::string overview(const ReportCapture& capture) {
  const Totals totals = totals_of(capture.layers);
  return "<p class=\"states\">" + state(capture) + "</p>\n" + notices(capture, totals) +
         tiles(capture, totals) + provenance(capture);
}

std::string comparison(const std::vector<ReportCapture>& captures) {
  Table table("Captures of this report", {{"capture", true},
                                          {"rows"},
                                          {"layers"},
                                          {"experts"},
                                          {"k"},
                                          {"max / mean", false, "mean of the layers"},
                                          {"entropy / even", false, "mean of the layers"},
                                          {"dead"},
                                          {"absent"},
                                          {"lost"},
                                          {"state", true}});
  for (size_t i = 0; i < captures.size(); ++i) {
    const ReportCapture& capture = captures[i];
    const Totals totals = totals_of(capture.layers);
    table.row({"<a href=\"#capture-" + std::to_string(i + 1) + "\">" + distinct_name(captures, i) +
                   "</a>",
               integer_text(capture.rows),
               integer_text(static_cast<int64_t>(capture.layers.size())),
               different_values(capture.layers, &capture::LayerStatistics::num_experts),
               different_values(capture.layers, &capture::LayerStatistics::top_k),
               times_text(mean(totals.peak_sum, totals.known)),
               percent_text(mean(totals.share_sum, totals.known)), integer_text(totals.dead),
               integer_text(capture.absent), integer_text(capture.info.lost), state(capture)});
  }
  return table.take();
}

}  // namespace moert::report
