// SPDX-License-Identifier: Apache-2.0
#include "capture_text.hpp"

#include <algorithm>

#include "text_table.hpp"

namespace moert::tool {

namespace {

using capture::CaptureFile;
using capture::CaptureInfo;
using capture::Difference;
using capture::LayerDifference;
using capture::LayerStatistics;
using capture::RowKey;

std::string count(int64_t value, const char* thing) {
  return count_text(static_cast<uint64_t>(value), thing);
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Of a name from a file: no line of it may look like one of ours.
std::string name_text(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  return printable(text);
}

std::string ids_text(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

std::vector<int64_t> layer_ids(const CaptureInfo& info) {
  std::vector<int64_t> ids;
  for (const capture::CapturedLayer& layer : info.layers) ids.push_back(layer.layer_id);
  return ids;
}

// "8 of 128", or the range over layers that differ: "4-8 of 64-128".
std::string sizes_text(const CaptureInfo& info) {
  const auto range = [&](int64_t capture::CapturedLayer::* member) {
    int64_t low = info.layers.front().*member, high = low;
    for (const capture::CapturedLayer& layer : info.layers) {
      low = std::min(low, layer.*member);
      high = std::max(high, layer.*member);
    }
    return low == high ? std::to_string(low) : std::to_string(low) + "-" + std::to_string(high);
  };
  return range(&capture::CapturedLayer::top_k) + " of " +
         range(&capture::CapturedLayer::num_experts) + " experts a token";
}

int64_t sequences_of(const CaptureFile& file) {
  int64_t sequences = 0;
  for (int64_t row = 0; row < file.rows(); ++row)
    if (row == 0 || file.key(row).sequence != file.key(row - 1).sequence) ++sequences;
  return sequences;
}

// body(row, layer, ids) for the rows that are shown; ids are empty where absent.
template <class Body>
void for_rows(const CaptureFile& file, int64_t rows, std::optional<int64_t> sequence, Body&& body) {
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < file.rows() && rows > 0; ++row) {
    if (sequence && file.key(row).sequence != *sequence) continue;
    --rows;
    for (size_t layer = 0; layer < file.info().layers.size(); ++layer) {
      ids.resize(static_cast<size_t>(file.info().layers[layer].top_k));
      if (!file.read(row, layer, ids.data())) ids.clear();
      body(row, layer, ids);
    }
  }
}

std::string pairs_text(const LayerStatistics& layer) {
  std::string text;
  for (const capture::ExpertPair& pair : layer.pairs)
    text += (text.empty() ? "" : "  ") + std::to_string(pair.a) + "+" + std::to_string(pair.b) +
            " x" + std::to_string(pair.rows);
  return text;
}

Json token_json(RowKey token) {
  return {{"sequence", token.sequence}, {"position", token.position}};
}

void print_first(Console& console, const capture::Divergence& first) {
  console.line("first difference: layer " + std::to_string(first.layer_id) + ", sequence " +
               std::to_string(first.token.sequence) + ", position " +
               std::to_string(first.token.position) + ": here " + ids_text(first.ids) + ", there " +
               ids_text(first.other_ids) +
               (first.margin ? ", margin " + significant(static_cast<double>(*first.margin), 3)
                             : ", margin not captured"));
}

}  // namespace

void print_capture_file(Console& console, const CaptureFile& file, int64_t rows,
                        std::optional<int64_t> sequence) {
  const CaptureInfo& info = file.info();
  console.line(console.bold(name_text(info.model.empty() ? "a model without name" : info.model)) +
               (info.family.empty() ? "" : ": " + name_text(info.family)) + ", " +
               count(static_cast<int64_t>(info.layers.size()), "MoE layer") + " (" +
               ranges_text(layer_ids(info)) + "), " + sizes_text(info));
  console.line(count(file.rows(), "token") + " of " + count(sequences_of(file), "sequence") +
               ", with ids" + (info.weights ? ", weights" : "") +
               (info.margins ? ", margins" : "") + "; slots in order of " +
               (info.slot_order == "selection" ? "selection" : "the source, which is not known"));
  const std::string holes = std::to_string(file.absent()) + " decisions are absent, " +
                            std::to_string(info.lost) + " tokens were lost" +
                            (info.cut ? ", and capturing ended before its source" : "");
  console.line(file.complete() ? console.good("complete: no decision is absent")
                               : console.bad("not complete: " + holes));
  if (!info.simulated.empty())
    console.line(console.bad("the routing was made up: " + name_text(info.simulated)));
  console.line("model  " + name_text(info.model_digest.empty() ? "-" : info.model_digest));
  console.line("router " + name_text(info.router_digest.empty() ? "-" : info.router_digest));
  console.line("source " + name_text(info.source.empty() ? "-" : info.source));
  if (rows == 0) return;
  console.line();
  TextTable table({">sequence", ">position", ">layer", "experts"});
  for_rows(file, rows, sequence, [&](int64_t row, size_t layer, const std::vector<int32_t>& ids) {
    const RowKey key = file.key(row);
    table.add({std::to_string(key.sequence), std::to_string(key.position),
               std::to_string(info.layers[layer].layer_id),
               ids.empty() ? "absent" : ids_text(ids)});
  });
  table.print(console);
}

Json capture_file_json(const CaptureFile& file, int64_t rows, std::optional<int64_t> sequence) {
  const CaptureInfo& info = file.info();
  Json json = json_document("moert capture show");
  json["path"] = file.path().string();
  json["model"] = info.model;
  json["family"] = info.family;
  json["model_digest"] = info.model_digest;
  json["router_digest"] = info.router_digest;
  json["hidden_layers"] = info.hidden_layers;
  json["layers"] = Json::array();
  for (const capture::CapturedLayer& layer : info.layers)
    json["layers"].push_back(
        {{"layer", layer.layer_id}, {"num_experts", layer.num_experts}, {"top_k", layer.top_k}});
  json["weights"] = info.weights;
  json["margins"] = info.margins;
  json["slot_order"] = info.slot_order;
  json["simulated"] = info.simulated.empty() ? Json(nullptr) : Json(info.simulated);
  json["source"] = info.source;
  json["tokens"] = file.rows();
  json["sequences"] = sequences_of(file);
  json["complete"] = file.complete();
  json["absent"] = file.absent();
  json["lost"] = info.lost;
  json["cut"] = info.cut;
  json["rows"] = Json::array();
  for_rows(file, rows, sequence, [&](int64_t row, size_t layer, const std::vector<int32_t>& ids) {
    if (layer == 0) {
      json["rows"].push_back(token_json(file.key(row)));
      json["rows"].back()["ids"] = Json::array();
    }
    json["rows"].back()["ids"].push_back(ids.empty() ? Json(nullptr) : Json(ids));
  });
  return json;
}

void print_statistics(Console& console, const CaptureFile& file,
                      const std::vector<LayerStatistics>& layers) {
  TextTable table({">layer", ">tokens", ">absent", ">busiest", ">share %", ">max/mean", ">dead",
                   ">entropy", ">of", ">near ties", "most frequent pairs"});
  for (const LayerStatistics& layer : layers) {
    const bool loaded = layer.load.slots > 0;
    table.add({std::to_string(layer.layer_id), std::to_string(layer.rows),
               std::to_string(layer.absent), loaded ? std::to_string(layer.load.busiest) : "",
               loaded ? fixed(100 * layer.load.busiest_share, 1) : "",
               loaded ? fixed(layer.load.max_over_mean, 2) : "", std::to_string(layer.load.dead),
               loaded ? fixed(layer.entropy, 2) : "", fixed(layer.even_entropy, 2),
               layer.mean_margin ? std::to_string(layer.near_ties) : "", pairs_text(layer)});
  }
  table.print(console);
  if (!file.complete())
    console.line(console.bad("the capture is not complete: " + std::to_string(file.absent()) +
                             " decisions are absent, " + std::to_string(file.info().lost) +
                             " tokens were lost"));
}

Json statistics_json(const CaptureFile& file, const std::vector<LayerStatistics>& layers) {
  Json json = json_document("moert capture stats");
  json["complete"] = file.complete();
  json["absent"] = file.absent();
  json["lost"] = file.info().lost;
  json["cut"] = file.info().cut;
  json["layers"] = Json::array();
  for (const LayerStatistics& layer : layers) {
    Json pairs = Json::array();
    for (const capture::ExpertPair& pair : layer.pairs)
      pairs.push_back(
          {{"experts", {pair.a, pair.b}}, {"tokens", pair.rows}, {"lift", json_number(pair.lift)}});
    json["layers"].push_back(
        {{"layer", layer.layer_id},
         {"num_experts", layer.num_experts},
         {"top_k", layer.top_k},
         {"tokens", layer.rows},
         {"absent", layer.absent},
         {"expert_tokens", layer.counts},
         {"busiest_expert", layer.load.busiest},
         {"busiest_share", layer.load.busiest_share},
         {"max_over_mean", layer.load.max_over_mean},
         {"dead_experts", layer.load.dead},
         {"entropy_bits", layer.entropy},
         {"even_entropy_bits", layer.even_entropy},
         {"mean_margin", layer.mean_margin ? json_number(*layer.mean_margin) : Json(nullptr)},
         {"near_ties", layer.mean_margin ? Json(layer.near_ties) : Json(nullptr)},
         {"pairs", pairs}});
  }
  return json;
}

void print_difference(Console& console, const Difference& difference, const std::string& other) {
  if (difference.rows == 0) {
    console.line(console.bad("nothing could be compared: " + other + " has none of these tokens"));
    return;
  }
  const std::string tokens = count(difference.rows, "token") + " compared with " + other;
  const int64_t only_one = difference.decisions_alone();
  if (only_one != 0 || !difference.layers_alone.empty())
    console.line(console.bad("not all could be compared: ") + count(only_one, "decision") +
                 " in one of the two only" +
                 (difference.layers_alone.empty()
                      ? ""
                      : ", and layers " + ranges_text(difference.layers_alone)));
  if (difference.same()) {
    console.line(console.good("same routing: ") + tokens + ", slot by slot");
    return;
  }
  TextTable table({">layer", ">tokens", ">in one only", ">flipped", ">flip %", ">reordered",
                   ">exchanged a token", ">jaccard", ">near ties %"});
  for (const LayerDifference& layer : difference.layers)
    table.add(
        {std::to_string(layer.layer_id), std::to_string(layer.rows), std::to_string(layer.only_one),
         std::to_string(layer.flipped), fixed(100 * share(layer.flipped, layer.rows), 2),
         std::to_string(layer.reordered),
         layer.flipped == 0 ? "" : fixed(share(layer.exchanged, layer.flipped), 2),
         layer.rows == 0 ? "" : fixed(layer.jaccard / static_cast<double>(layer.rows), 4),
         layer.with_margin == 0 ? "" : fixed(100 * share(layer.near_ties, layer.with_margin), 1)});
  table.print(console);
  console.line(console.bad("routing differs: ") + tokens + ", " +
               std::to_string(difference.rows_flipped) + " (" +
               fixed(100 * share(difference.rows_flipped, difference.rows), 1) +
               " %) take other experts in some layer");
  print_first(console, *difference.first);
}

Json difference_json(const Difference& difference) {
  Json json = {{"tokens", difference.rows},
               {"tokens_flipped", difference.rows_flipped},
               {"same", difference.same()},
               {"decisions_in_one_only", difference.decisions_alone()},
               {"layers_in_one_only", difference.layers_alone},
               {"layers", Json::array()}};
  for (const LayerDifference& layer : difference.layers)
    json["layers"].push_back({{"layer", layer.layer_id},
                              {"tokens", layer.rows},
                              {"only_in_one", layer.only_one},
                              {"flipped", layer.flipped},
                              {"reordered", layer.reordered},
                              {"exchanged", layer.exchanged},
                              {"jaccard_sum", json_number(layer.jaccard)},
                              {"flipped_with_margin", layer.with_margin},
                              {"near_ties", layer.near_ties}});
  json["first"] = nullptr;
  if (!difference.first) return json;
  json["first"] = token_json(difference.first->token);
  json["first"]["layer"] = difference.first->layer_id;
  json["first"]["ids"] = difference.first->ids;
  json["first"]["other_ids"] = difference.first->other_ids;
  json["first"]["margin"] = difference.first->margin
                                ? json_number(static_cast<double>(*difference.first->margin))
                                : Json(nullptr);
  return json;
}

}  // namespace moert::tool
