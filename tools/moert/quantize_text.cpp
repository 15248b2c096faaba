// SPDX-License-Identifier: Apache-2.0
#include "quantize_text.hpp"

#include <algorithm>

#include "text_table.hpp"

namespace moert::tool {

namespace {

using runtime::LayerChange;
using runtime::QuantizedLayer;
using runtime::QuantizeReport;

double changed_share(const LayerChange& change) {
  return change.slots == 0
             ? 0
             : static_cast<double>(change.changed_slots) / static_cast<double>(change.slots);
}

std::string layer_name(const QuantizedLayer& layer) {
  return layer.layer_id < 0 ? "outside" : std::to_string(layer.layer_id);
}

void add_row(TextTable& table, const std::string& name, const QuantizedLayer& layer,
             bool with_changes) {
  const bool written = layer.weights != 0;
  std::vector<Cell> row = {name,
                           std::to_string(layer.weights),
                           std::to_string(layer.unchanged),
                           bytes_text(layer.bytes_before),
                           bytes_text(layer.bytes_after),
                           written ? significant(layer.errors.largest, 3) : "",
                           written ? significant(layer.errors.rms(), 3) : "",
                           written ? fixed(100 * layer.errors.relative(), 3) : ""};
  if (with_changes) {
    row.emplace_back(layer.change ? fixed(100 * changed_share(*layer.change), 2) : "");
    row.emplace_back(layer.change ? fixed(100 * layer.change->output_error, 3) : "");
  }
  table.add(std::move(row));
}

Json errors_json(const QuantizedLayer& layer) {
  return {{"weights", layer.weights},
          {"unchanged", layer.unchanged},
          {"bytes_before", layer.bytes_before},
          {"bytes_after", layer.bytes_after},
          {"max_error", json_number(layer.errors.largest)},
          {"rms_error", json_number(layer.errors.rms())},
          {"relative_rms_error", json_number(layer.errors.relative())}};
}

Json layer_json(const QuantizedLayer& layer) {
  Json json;
  json["layer"] = layer.layer_id < 0 ? Json(nullptr) : Json(layer.layer_id);
  json.update(errors_json(layer));
  json["change"] = nullptr;
  if (layer.change)
    json["change"] = {{"slots", layer.change->slots},
                      {"changed_slots", layer.change->changed_slots},
                      {"changed_share", json_number(changed_share(*layer.change))},
                      {"relative_output_error", json_number(layer.change->output_error)}};
  return json;
}

}  // namespace

void print_report(Console& console, const QuantizeReport& report) {
  const bool with_changes =
      std::any_of(report.layers.begin(), report.layers.end(),
                  [](const QuantizedLayer& layer) { return layer.change.has_value(); });
  std::vector<std::string> columns = {"layer",  ">weights",   ">unchanged", ">before",
                                      ">after", ">max error", ">RMS error", ">RMS %"};
  if (with_changes) columns.insert(columns.end(), {">experts changed %", ">output RMS %"});
  TextTable table(columns);
  for (const QuantizedLayer& layer : report.layers)
    add_row(table, layer_name(layer), layer, with_changes);
  add_row(table, "all", report.total, with_changes);
  table.print(console);
  console.line();
  for (const std::string& note : report.notes) console.line("note: " + printable(note));
  if (report.excluded != 0)
    console.line(count_text(report.excluded, "weight") + " left as " +
                 (report.excluded == 1 ? "it was" : "they were") + " by --exclude");
  console.line(console.good("wrote " + printable(path_text(report.destination.string()))) + ": " +
               report.scheme + ", " + bytes_text(report.bytes) + " in " +
               count_text(report.files, "file") + ", " + count_text(report.copied, "tensor") +
               " copied as " + (report.copied == 1 ? "it was" : "they were") + ", " +
               seconds_text(report.seconds));
}

Json report_json(const QuantizeReport& report) {
  Json json = json_document("moert quantize");
  json["family"] = report.family;
  json["scheme"] = report.scheme;
  json["quant_method"] = report.method.empty() ? Json(nullptr) : Json(report.method);
  json["destination"] = report.destination.string();
  json["files"] = report.files;
  json["bytes"] = report.bytes;
  json["tensors_copied"] = report.copied;
  json["weights_excluded"] = report.excluded;
  json["layers"] = Json::array();
  for (const QuantizedLayer& layer : report.layers) json["layers"].push_back(layer_json(layer));
  json["total"] = errors_json(report.total);
  json["notes"] = report.notes;
  json["time_seconds"] = report.seconds;
  return json;
}

}  // namespace moert::tool
