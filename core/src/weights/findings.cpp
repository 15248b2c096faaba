// What is said about a checkpoint that does not fit.
// SPDX-License-Identifier: Apache-2.0
#include "weights/findings.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

#include <moert/error.hpp>

#include "util/nearest.hpp"
#include "weights/text.hpp"

namespace moert::weights {
namespace {

constexpr size_t kMostNearest = 100;   // findings of a kind that get a nearest name
constexpr size_t kMostCompared = 256;  // names that one finding is compared with
constexpr size_t kLongestName = 512;   // longer ones are nobody's typing error

// Names of some findings, by what they have in common with another name.
class Names {
 public:
  Names(const std::vector<Finding>& findings, Finding::Kind kind) {
    NameShape shape;
    for (const Finding& finding : findings) {
      if (finding.kind != kind || finding.name.size() > kLongestName) continue;
      shape_of(finding.name, &shape);
      add(&by_digits_[joined_digits(shape)], finding.name);
      add(&by_key_[shape.key], finding.name);
      add(&some_, finding.name);
    }
  }
  // Those with the same numbers; if there are none, those of the same words; else some.
  const std::vector<std::string>& like(const NameShape& shape) const {
    const auto digits = by_digits_.find(joined_digits(shape));
    if (digits != by_digits_.end()) return digits->second;
    const auto key = by_key_.find(shape.key);
    return key != by_key_.end() ? key->second : some_;
  }

 private:
  static std::string joined_digits(const NameShape& shape) {
    std::string text;
    for (const std::string_view digits : shape.digits) text += std::string(digits) + ".";
    return text;
  }
  static void add(std::vector<std::string>* to, const std::string& name) {
    if (to->size() < kMostCompared) to->push_back(name);
  }
  std::unordered_map<std::string, std::vector<std::string>> by_digits_, by_key_;
  std::vector<std::string> some_;
};

// What the rules would call a tensor with these numbers, brought into range.
void add_expansions(const spec::Model& model, const Rules& rules, const std::vector<int>& layouts,
                    const NameShape& shape, std::vector<std::string>* names) {
  if (model.layers.empty()) return;
  const auto number = [&shape](size_t i) {
    return shape.digits.size() > i ? plain_number(shape.digits[i]).value_or(0) : 0;
  };
  auto layer =
      std::lower_bound(model.layers.begin(), model.layers.end(), number(0),
                       [](const spec::MoELayer& l, int64_t id) { return l.layer_id < id; });
  if (layer == model.layers.end()) --layer;
  const int64_t expert = std::min(number(1), layer->routing.num_experts - 1);
  const int layout = layouts[static_cast<size_t>(layer - model.layers.begin())];
  for (uint32_t i = 0; i < rules.size(); ++i) {
    const CompiledRule& rule = rules.at(i);
    if (rule.rule->target != spec::Target::ignore && (rule.layout < 0 || rule.layout == layout))
      names->push_back(expand(*rule.rule, layer->layer_id, expert));
  }
}

std::string finding_text(const Finding& finding) {
  constexpr const char* kWords[] = {"missing ", "unexpected ", "misshapen "};
  return kWords[finding.kind] + shown(finding.name);
}

std::string remedy_of(const Finding& finding) {
  const std::string nearest = shown(finding.nearest);
  switch (finding.kind) {
    case Finding::missing:
      return nearest.empty() ? "use a complete checkpoint of this family"
                             : "is '" + nearest + "' meant, which feeds nothing?";
    case Finding::unexpected:
      return nearest.empty() ? "remove it, or ignore it by a rule of the family with a reason"
                             : "did you mean '" + nearest + "'?";
    default: return "use a checkpoint whose tensors have the shapes of its config";
  }
}

}  // namespace

void fill_nearest(const spec::Model& model, const Rules& rules, const std::vector<int>& layouts,
                  std::vector<Finding>* findings) {
  const Names missing(*findings, Finding::missing);
  const Names unexpected(*findings, Finding::unexpected);
  size_t counts[3] = {0, 0, 0};
  NameShape shape;
  for (Finding& finding : *findings) {
    if (finding.kind == Finding::misshapen || finding.name.size() > kLongestName ||
        counts[finding.kind]++ >= kMostNearest)
      continue;
    shape_of(finding.name, &shape);
    std::vector<std::string> names =
        (finding.kind == Finding::missing ? unexpected : missing).like(shape);
    if (finding.kind == Finding::unexpected) add_expansions(model, rules, layouts, shape, &names);
    const std::vector<std::string> nearest = nearest_names(finding.name, names);
    if (!nearest.empty() && nearest.front() != finding.name) finding.nearest = nearest.front();
  }
}

void Plan::require_complete(const Checkpoint& checkpoint) const {
  if (findings.empty()) return;
  constexpr size_t kMore = 5;
  const auto missing = static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& finding) { return finding.kind == Finding::missing; }));
  const Finding& first = findings.front();
  std::string remedy = remedy_of(first);
  for (size_t i = 1; i < findings.size() && i <= kMore; ++i)
    remedy += (i > 1                   ? "; "
               : remedy.ends_with('?') ? " Also "
                                       : ". Also ") +
              finding_text(findings[i]);
  if (findings.size() > kMore + 1)
    remedy += "; and " + std::to_string(findings.size() - kMore - 1) + " more";
  const TensorInfo* tensor = checkpoint.find(first.name);
  throw Error(Fault::input,
              std::to_string(findings.size()) + " of " +
                  std::to_string(checkpoint.tensors().size() + missing) +
                  " tensors do not fit: " + finding_text(first) + " (" + first.detail + ")",
              tensor != nullptr ? checkpoint.place(*tensor) : checkpoint.path().string(), remedy);
}

}  // namespace moert::weights
