// SPDX-License-Identifier: Apache-2.0
#include "runtime/explain.hpp"

#include <algorithm>

#include "util/self.hpp"

namespace moert::runtime {

namespace {

std::string indented(const std::string& lines) {
  std::string text;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size() - 1) + 1;
    text += "    " + lines.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

std::string layer_tables(const LayerChoice& choice) {
  std::string text;
  for (const KindChoice& kind : choice.kinds) {
    text += "  " + kind.word + " (" + kind.kind +
            (kind.scheme.empty() ? "" : ", scheme " + kind.use.scheme.text()) + ")\n";
    if (!kind.scheme.empty())
      text += "    found in " + std::to_string(kind.use.weights) + " weights, as " +
              kind.use.pattern + "\n";
    text += indented(registry::decision_table(kind.decision));
  }
  return text;
}

std::string heading(int64_t first, int64_t last) {
  if (first == last) return "layer " + std::to_string(first) + "\n";
  return "layers " + std::to_string(first) + "-" + std::to_string(last) + "\n";
}

}  // namespace

std::string explain_choices(const std::vector<LayerChoice>& choices) {
  std::string text;
  for (size_t begin = 0; begin < choices.size();) {
    const std::string tables = layer_tables(choices[begin]);
    size_t end = begin + 1;
    while (end < choices.size() && choices[end].layer_id == choices[end - 1].layer_id + 1 &&
           layer_tables(choices[end]) == tables)
      ++end;
    text += heading(choices[begin].layer_id, choices[end - 1].layer_id) + tables;
    begin = end;
  }
  return text;
}

std::filesystem::path installed_families() {
  // bin/moert and lib/libmoert.so stand one folder below the prefix; lib/<triplet>/libmoert.so two.
  std::filesystem::path prefix = running_object().parent_path().parent_path();
  if (prefix.filename() == "lib") prefix = prefix.parent_path();
  return prefix / "share/moert/families";
}

}  // namespace moert::runtime
