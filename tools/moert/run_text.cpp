// SPDX-License-Identifier: Apache-2.0
#include "run_text.hpp"

#include <cmath>

#include "capture_text.hpp"
#include "text_table.hpp"

namespace moert::tool {

namespace {

using runtime::Comparison;
using runtime::LayerReport;
using runtime::RunReport;
using runtime::Worst;

std::string candidate_of(const LayerReport& layer, const std::string& word) {
  for (const auto& [kind, candidate] : layer.candidates)
    if (kind == word) return candidate;
  return {};
}

// A monolithic runner is its own experts.
std::string experts_of(const LayerReport& layer) {
  const std::string experts = candidate_of(layer, "routed_experts");
  return experts.empty() ? candidate_of(layer, "runner") : experts;
}

double tokens_per_second(const LayerReport& layer) {
  return layer.seconds > 0 ? static_cast<double>(layer.tokens) / layer.seconds : 0;
}

std::string check_text(const Comparison& check) {
  const std::string ids =
      check.wrong_ids == 0 ? "ids ok" : std::to_string(check.wrong_ids) + " rows with wrong ids";
  return std::string(check.passed ? "ok: " : "FAILED: ") + ids + ", error " +
         significant(check.output.error, 2) + " of " + significant(check.output_tolerance, 2);
}

void print_head(Console& console, const RunReport& report) {
  console.line(console.bold(printable(report.name)) + ": " + printable(report.family) + ", " +
               count_text(report.layers.size(), "MoE layer") + " on " + report.device);
  console.line("checkpoint " + printable(path_text(report.checkpoint.string())) + ": " +
               count_text(report.packed_tensors, "tensor") + " loaded, " +
               std::to_string(report.ignored_tensors) + " not of the MoE layers, " +
               seconds_text(report.load_seconds));
  console.line();
}

void print_layers(Console& console, const RunReport& report) {
  std::vector<std::string> columns = {">layer",    "routed_experts", "scheme",   ">tokens",
                                      ">time us",  ">tokens/s",      ">busiest", ">share %",
                                      ">max/mean", ">dead"};
  if (report.checked) columns.emplace_back("check");
  TextTable table(columns);
  for (const LayerReport& layer : report.layers) {
    const bool loaded = layer.load.slots > 0;
    std::vector<Cell> row = {std::to_string(layer.layer_id),
                             experts_of(layer),
                             layer.scheme,
                             std::to_string(layer.tokens),
                             fixed(layer.seconds * 1e6, 1),
                             fixed(tokens_per_second(layer), 0),
                             loaded ? std::to_string(layer.load.busiest) : "",
                             loaded ? fixed(100 * layer.load.busiest_share, 1) : "",
                             loaded ? fixed(layer.load.max_over_mean, 2) : "",
                             std::to_string(layer.load.dead)};
    if (layer.comparison)
      row.emplace_back(check_text(*layer.comparison),
                       layer.comparison->passed ? Cell::good : Cell::bad);
    table.add(std::move(row));
  }
  table.print(console);
}

std::string number_text(double value) { return significant(value, 7); }

// The element that is farthest off, of everything that is out of tolerance.
void print_misses(Console& console, const LayerReport& layer) {
  const Comparison& check = *layer.comparison;
  const std::string place = "  layer " + std::to_string(layer.layer_id) + ", ";
  if (check.wrong_ids > 0)
    console.line(place + "ids: " + count_text(static_cast<uint64_t>(check.wrong_ids), "row") +
                 " differ; " + check.first_wrong_ids);
  const auto print = [&](const char* what, const char* column, const Worst& worst,
                         double tolerance) {
    if (worst.error <= tolerance || worst.token < 0) return;
    console.line(place + what + ": token " + std::to_string(worst.token) + ", " + column + " " +
                 std::to_string(worst.column) + ": got " + number_text(worst.got) + ", want " +
                 number_text(worst.want) + ", error " + significant(worst.error, 3) +
                 ", tolerance " + significant(tolerance, 3));
  };
  print("output", "column", check.output, check.output_tolerance);
  print("weight", "expert", check.weight, check.weight_tolerance);
}

void print_capture(Console& console, const runtime::CaptureReport& capture) {
  std::string text = capture.path.empty() ? capture.capturer
                                          : "wrote " + printable(path_text(capture.path.string()));
  if (!capture.segment.empty()) text += ", segment " + printable(capture.segment);
  text += ": routing of " + count_text(static_cast<uint64_t>(capture.rows), "token");
  if (capture.absent_decisions != 0)
    text +=
        ", " + count_text(static_cast<uint64_t>(capture.absent_decisions), "decision") + " absent";
  console.line(text);
  if (capture.absent != 0 || capture.lost != 0)
    console.line(
        console.bad("  no room: " + count_text(static_cast<uint64_t>(capture.absent), "token") +
                    " without experts, " + std::to_string(capture.lost) + " more were lost"));
}

void print_routes(Console& console, const runtime::RouteReport& routes) {
  const std::string file = printable(path_text(routes.path.string()));
  if (routes.same_model && !*routes.same_model)
    console.line("note: " + file + " was captured from another model");
  else if (routes.same_router && !*routes.same_router)
    console.line("note: " + file + " was captured with other router weights");
  if (!routes.simulated.empty())
    console.line("note: the routing in " + file + " was made up (" + printable(routes.simulated) +
                 ")");
  const int64_t all = routes.replayed + routes.native;
  if (!routes.verify) {
    const std::string share = std::to_string(routes.replayed) + " of " +
                              count_text(static_cast<uint64_t>(all), "routing decision") +
                              " from " + file;
    console.line(routes.replayed != 0
                     ? "replayed " + share
                     : console.bad("replayed " + share + ": it has none of these tokens"));
    return;
  }
  print_difference(console, *routes.difference, file);
}

void print_end(Console& console, const RunReport& report) {
  console.line();
  for (const runtime::CaptureReport& capture : report.captures) print_capture(console, capture);
  if (report.routes) print_routes(console, *report.routes);
  if (!report.output.empty()) console.line("wrote " + printable(path_text(report.output.string())));
  if (!report.simulated.empty())
    console.line("routing was made up (" + report.simulated + "): outputs and routes mean nothing");
  if (!report.checked) {
    console.line("not checked: the run has no `expect`");
    return;
  }
  size_t passed = 0;
  for (const LayerReport& layer : report.layers)
    passed += layer.comparison && layer.comparison->passed ? 1 : 0;
  const std::string all =
      std::to_string(passed) + " of " + count_text(report.layers.size(), "layer") + " as expected";
  console.line(report.passed ? console.good("check passed: " + all)
                             : console.bad("check FAILED: " + all));
  for (const LayerReport& layer : report.layers)
    if (layer.comparison && !layer.comparison->passed) print_misses(console, layer);
}

Json capture_json(const runtime::CaptureReport& capture) {
  return {{"capturer", capture.capturer},
          {"path", capture.path.empty() ? Json(nullptr) : Json(capture.path.string())},
          {"segment", capture.segment.empty() ? Json(nullptr) : Json(capture.segment)},
          {"tokens", capture.rows},
          {"tokens_without_room", capture.absent},
          {"tokens_lost", capture.lost},
          {"decisions_absent", capture.absent_decisions}};
}

Json routes_json(const runtime::RouteReport& routes) {
  return {{"path", routes.path.string()},
          {"verify", routes.verify},
          {"same_model", routes.same_model ? Json(*routes.same_model) : Json(nullptr)},
          {"same_router", routes.same_router ? Json(*routes.same_router) : Json(nullptr)},
          {"decisions_in_file", routes.replayed},
          {"decisions_not_in_file", routes.native},
          {"difference", routes.difference ? difference_json(*routes.difference) : Json(nullptr)}};
}

Json worst_json(const Worst& worst, const char* column) {
  return {{"token", worst.token},
          {column, worst.column},
          {"got", json_number(worst.got)},
          {"want", json_number(worst.want)},
          {"error", json_number(worst.error)}};
}

Json check_json(const Comparison& check) {
  return {{"passed", check.passed},
          {"tokens", check.tokens},
          {"rows_with_wrong_ids", check.wrong_ids},
          {"first_wrong_ids", check.first_wrong_ids},
          {"output", worst_json(check.output, "column")},
          {"output_tolerance", json_number(check.output_tolerance)},
          {"weight", worst_json(check.weight, "expert")},
          {"weight_tolerance", json_number(check.weight_tolerance)}};
}

Json layer_json(const LayerReport& layer) {
  Json json;
  json["layer"] = layer.layer_id;
  json["candidates"] = Json::object();
  for (const auto& [word, candidate] : layer.candidates) json["candidates"][word] = candidate;
  if (!layer.options.empty()) json["options"] = layer.options;
  json["routed_experts"] = experts_of(layer);
  json["scheme"] = layer.scheme;
  json["layout"] = layer.layout;
  json["tokens"] = layer.tokens;
  json["time_seconds"] = layer.seconds;
  json["all_time_seconds"] = layer.all_seconds;
  json["tokens_per_second"] = tokens_per_second(layer);
  json["load"] = {{"slots", layer.load.slots},
                  {"busiest_expert", layer.load.busiest},
                  {"busiest_share", layer.load.busiest_share},
                  {"max_over_mean", layer.load.max_over_mean},
                  {"dead_experts", layer.load.dead},
                  {"expert_tokens", layer.expert_tokens}};
  json["check"] = layer.comparison ? check_json(*layer.comparison) : Json(nullptr);
  return json;
}

}  // namespace

void print_report(Console& console, const RunReport& report) {
  print_head(console, report);
  print_layers(console, report);
  print_end(console, report);
}

Json report_json(const RunReport& report) {
  Json json = json_document("moert run");
  json["name"] = report.name;
  json["family"] = report.family;
  json["device"] = report.device;
  json["checkpoint"] = report.checkpoint.string();
  json["tensors_loaded"] = report.packed_tensors;
  json["tensors_ignored"] = report.ignored_tensors;
  json["load_seconds"] = report.load_seconds;
  json["dense_layers"] = report.dense_layers;
  json["simulated"] = report.simulated.empty() ? Json(nullptr) : Json(report.simulated);
  json["layers"] = Json::array();
  for (const LayerReport& layer : report.layers) json["layers"].push_back(layer_json(layer));
  json["captures"] = Json::array();
  for (const runtime::CaptureReport& capture : report.captures)
    json["captures"].push_back(capture_json(capture));
  json["replay"] = report.routes ? routes_json(*report.routes) : Json(nullptr);
  json["output"] = report.output.empty() ? Json(nullptr) : Json(report.output.string());
  json["checked"] = report.checked;
  json["passed"] = report.passed;
  return json;
}

}  // namespace moert::tool
