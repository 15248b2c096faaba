// Kind Experts: which experts get another scheme when a checkpoint is quantised.
// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"
#include "config/head.hpp"
#include "config/table.hpp"

namespace moert::config {

const Table& experts_table() {
  static const Table table = [] {
    Table all = head_table("Experts");
    const Table own = {
        {.path = "spec.experts",
         .type = Type::list,
         .required = true,
         .min = 1,
         .doc = "experts that get another scheme than `--scheme` says; a later entry wins"},
        {.path = "spec.experts[]", .type = Type::map},
        {.path = "spec.experts[].layers",
         .type = Type::ranges,
         .pattern = kRanges,
         .doc = "the MoE layers, 3 or 1-5,7; absent: all of them"},
        {.path = "spec.experts[].experts",
         .type = Type::list,
         .required = true,
         .min = 1,
         .unique = true,
         .doc = "the experts' numbers in each of these layers"},
        {.path = "spec.experts[].experts[]",
         .type = Type::integer,
         .min = 0,
         .max = static_cast<double>(kMaxExperts)},
        {.path = "spec.experts[].scheme",
         .required = true,
         .pattern = "[a-z0-9][a-z0-9.]*",
         .doc = "a word of `moert quantize --scheme`"}};
    all.insert(all.end(), own.begin(), own.end());
    return all;
  }();
  return table;
}

std::vector<spec::ExpertScheme> read_experts(const std::filesystem::path& file) {
  const YamlNode document = read_yaml_file(file);
  check_head(document, "Experts");
  check(document, experts_table());
  std::vector<spec::ExpertScheme> list;
  for (const YamlNode& item : at(document, "spec.experts")->items) {
    spec::ExpertScheme entry;
    if (const YamlNode* layers = item.find("layers"))
      entry.layers = layer_ranges(*layers, kMaxLayers);
    for (const YamlNode& expert : item.find("experts")->items)
      entry.experts.push_back(expert.integer);
    entry.scheme = item.find("scheme")->text;
    entry.place = item.find("scheme")->place();
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace moert::config
