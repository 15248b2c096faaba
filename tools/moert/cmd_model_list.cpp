// `moert model list`.
// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "json.hpp"
#include "setup.hpp"
#include "text_table.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

// A file without model_type is told by its class, or by its keys.
std::string recognised_by(const config::FamilyInfo& family) {
  if (!family.model_types.empty()) return joined(family.model_types);
  if (!family.architectures.empty()) return joined(family.architectures);
  return "keys " + joined(family.keys);
}

std::string numbers(const config::FamilyInfo& family) {
  if (!family.unsupported.empty()) return "not run: " + family.unsupported;
  if (family.tested == "transformers") return "as transformers computes them";
  if (family.tested == "reference") return "as a float64 reference computes them";
  return "not tested";
}

Json families_json(const std::vector<config::FamilyInfo>& families) {
  Json json = Json::array();
  for (const config::FamilyInfo& family : families)
    json.push_back({{"family", family.name},
                    {"model_types", family.model_types},
                    {"architectures", family.architectures},
                    {"keys", family.keys},
                    {"runs", family.unsupported.empty()},
                    {"unsupported", family.unsupported},
                    {"tested", family.tested}});
  return json;
}

}  // namespace

int cmd_model_list(const Options& options, Console& console) {
  make_log(options);
  const config::Families families = load_families(options);
  if (options.json) {
    Json json = json_document(options.command);
    json["families"] = families_json(families.list());
    print_json(console, json);
    return 0;
  }
  if (options.markdown) {
    console.line("| family | model_type | numbers |");
    console.line("|---|---|---|");
    for (const config::FamilyInfo& family : families.list())
      console.line("| " + printable(family.name) + " | " + printable(recognised_by(family)) +
                   " | " + printable(numbers(family)) + " |");
    return 0;
  }
  TextTable table({"family", "model_type", "numbers"});
  for (const config::FamilyInfo& family : families.list())
    table.add({family.name, recognised_by(family), numbers(family)});
  table.print(console);
  return 0;
}

}  // namespace moert::tool
