// Compiles name rules and looks names up in them.
// SPDX-License-Identifier: Apache-2.0
#include "weights/rules.hpp"

#include <algorithm>
#include <charconv>

#include <moert/abi/moe_runner.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>
#include <moert/error.hpp>

namespace moert::weights {
namespace {

using spec::Target;
using spec::TensorRule;

constexpr std::string_view kLayer = "{layer}";
constexpr std::string_view kExpert = "{expert}";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

[[noreturn]] void refuse(const TensorRule& rule, const std::string& problem) {
  throw Error(Fault::usage, "the tensor rule '" + rule.pattern + "' " + problem, "family rules",
              "correct the rule in the family file");
}

// The placeholder that begins at `at`, or nothing. Other braces are a mistake.
std::string_view placeholder_at(const TensorRule& rule, size_t at) {
  const std::string_view rest = std::string_view(rule.pattern).substr(at);
  if (rest.starts_with(kLayer)) return kLayer;
  if (rest.starts_with(kExpert)) return kExpert;
  if (rest.front() == '{' || rest.front() == '}')
    refuse(rule, "has a brace that belongs to neither {layer} nor {expert}");
  return {};
}

// Splits a pattern without '*' into its key and runs.
void split(const TensorRule& rule, std::string* key, std::vector<CompiledRule::Run>* runs) {
  const std::string& pattern = rule.pattern;
  bool after_run = false;
  for (size_t at = 0; at < pattern.size();) {
    const std::string_view placeholder = placeholder_at(rule, at);
    size_t end = at + placeholder.size();
    if (placeholder.empty())
      while (end < pattern.size() && is_digit(pattern[end])) ++end;
    if (end == at) {
      *key += pattern[at++];
      after_run = false;
      continue;
    }
    if (after_run) refuse(rule, "has two numbers without text between them");
    after_run = true;
    *key += '0';
    runs->push_back({placeholder == kLayer    ? CompiledRule::Run::layer
                     : placeholder == kExpert ? CompiledRule::Run::expert
                                              : CompiledRule::Run::literal,
                     pattern.substr(at, end - at)});
    at = end;
  }
}

bool is_fused_pair(const std::vector<uint32_t>& parts) {
  return parts.size() == 2 && parts[0] != parts[1] && parts[0] <= MOERT_PART_UP &&
         parts[1] <= MOERT_PART_UP;
}

void check(const TensorRule& rule) {
  const bool has_layer = rule.pattern.find(kLayer) != std::string::npos;
  const bool has_expert = rule.pattern.find(kExpert) != std::string::npos;
  if (rule.target == Target::ignore) return;
  if (rule.pattern.find('*') != std::string::npos)
    refuse(rule, "has a '*', which only ignore rules may");
  if (!has_layer) refuse(rule, "has no {layer}");
  const bool per_expert = rule.target == Target::expert && !rule.stacked;
  if (has_expert != per_expert)
    refuse(rule, per_expert ? "has no {expert} and is not stacked"
                            : "has {expert}, but its tensor is not of one expert");
  if (rule.parts.empty()) refuse(rule, "feeds no part");
  if (rule.target == Target::router) {
    if (rule.parts.size() != 1 || rule.parts[0] > MOERT_ROUTER_TOKEN_TABLE || rule.stacked)
      refuse(rule, "must feed one part of the router");
    return;
  }
  if (rule.target == Target::layer) {
    if (rule.parts.size() != 1 || rule.parts[0] < MOERT_PART_LATENT_DOWN ||
        rule.parts[0] > MOERT_PART_OUTPUT_BIAS || rule.stacked)
      refuse(rule, "must feed one part of the layer");
    return;
  }
  if (rule.target == Target::shared && rule.stacked)
    refuse(rule, "is stacked, but shared experts are not");
  const uint32_t last =
      rule.target == Target::shared ? uint32_t{MOERT_PART_SIGMOID_GATE} : uint32_t{MOERT_PART_DOWN};
  if (rule.parts.size() == 1 ? rule.parts[0] > last : !is_fused_pair(rule.parts))
    refuse(rule, "must feed one part, or gate and up");
  if (rule.role > MOERT_ROLE_BIAS) refuse(rule, "is neither a weight nor a bias");
}

}  // namespace

void shape_of(std::string_view name, NameShape* shape) {
  shape->key.clear();
  shape->digits.clear();
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (end == at) {
      shape->key += name[at++];
    } else {
      shape->key += '0';
      shape->digits.push_back(name.substr(at, end - at));
      at = end;
    }
  }
}

std::optional<int64_t> plain_number(std::string_view digits) {
  if (digits.empty() || digits.size() > 18 || (digits.size() > 1 && digits[0] == '0')) return {};
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

Rules::Rules(const spec::Tensors& tensors) {
  for (size_t i = 0; i < tensors.experts.size(); ++i) {
    for (const TensorRule& rule : tensors.experts[i].rules) {
      if (rule.target != Target::expert) refuse(rule, "stands in a layout, but feeds no expert");
      add(rule, static_cast<int>(i));
    }
  }
  for (const TensorRule& rule : tensors.others) {
    if (rule.target == Target::expert) refuse(rule, "feeds experts, but stands in no layout");
    add(rule, -1);
  }
}

void Rules::add(const TensorRule& rule, int layout) {
  check(rule);
  const auto number = static_cast<uint32_t>(rules_.size());
  CompiledRule compiled;
  compiled.rule = &rule;
  compiled.layout = layout;
  compiled.prefix = rule.pattern.substr(0, rule.pattern.find_first_of("{*"));
  if (rule.pattern.find('*') != std::string::npos) {
    for (size_t at = 0; at < rule.pattern.size(); ++at)
      at += std::max<size_t>(placeholder_at(rule, at).size(), 1) - 1;
    globs_.push_back(number);
  } else {
    std::string key;
    split(rule, &key, &compiled.runs);
    std::vector<uint32_t>& bucket = by_key_[key];
    for (const uint32_t other : bucket)
      if (rules_[other].layout == layout && rules_[other].rule->pattern == rule.pattern)
        refuse(rule, "stands twice");
    bucket.push_back(number);
  }
  rules_.push_back(std::move(compiled));
}

std::span<const uint32_t> Rules::candidates(const NameShape& shape) const {
  const auto it = by_key_.find(shape.key);
  if (it == by_key_.end()) return {};
  return it->second;
}

std::optional<Numbers> Rules::fit(uint32_t i, std::string_view name, const NameShape& shape) const {
  const CompiledRule& rule = rules_[i];
  Numbers numbers;
  for (size_t run = 0; run < rule.runs.size(); ++run) {
    const std::string_view digits = shape.digits[run];
    if (rule.runs[run].kind == CompiledRule::Run::literal) {
      if (digits != rule.runs[run].text) return {};
      continue;
    }
    const bool is_layer = rule.runs[run].kind == CompiledRule::Run::layer;
    const std::optional<int64_t> value = plain_number(digits);
    int64_t& to = is_layer ? numbers.layer : numbers.expert;
    if (!value || (to >= 0 && to != *value)) return {};
    to = *value;
    if (is_layer)
      numbers.layer_end = static_cast<size_t>(digits.data() + digits.size() - name.data());
  }
  return numbers;
}

const TensorRule* Rules::ignored(std::string_view name, const NameShape& shape, size_t prefix_end,
                                 const std::function<bool(int64_t)>& has_experts) const {
  // The number stands right after the fixed prefix: the family's reader sees to that.
  const auto is_elsewhere = [&](const CompiledRule& rule) {
    if (!rule.rule->dense_only) return false;
    const std::string_view rest = name.substr(rule.prefix.size());
    size_t end = 0;
    while (end < rest.size() && is_digit(rest[end])) ++end;
    const std::optional<int64_t> layer = plain_number(rest.substr(0, end));
    return layer && has_experts(*layer);
  };
  for (const uint32_t i : candidates(shape)) {
    if (rules_[i].rule->target == Target::ignore && rules_[i].prefix.size() >= prefix_end &&
        fit(i, name, shape) && !is_elsewhere(rules_[i]))
      return rules_[i].rule;
  }
  for (const uint32_t i : globs_) {
    if (rules_[i].prefix.size() >= prefix_end && name.starts_with(rules_[i].prefix) &&
        glob_fits(rules_[i].rule->pattern, name) && !is_elsewhere(rules_[i]))
      return rules_[i].rule;
  }
  return nullptr;
}

std::string expand(const TensorRule& rule, int64_t layer, int64_t expert) {
  std::string name;
  for (size_t at = 0; at < rule.pattern.size();) {
    const std::string_view placeholder = placeholder_at(rule, at);
    if (placeholder.empty()) {
      name += rule.pattern[at++];
    } else {
      name += std::to_string(placeholder == kLayer ? layer : expert);
      at += placeholder.size();
    }
  }
  return name;
}

bool glob_fits(std::string_view pattern, std::string_view name) {
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0, n = 0, star = kNone, resume = 0;
  while (n < name.size() || p < pattern.size()) {
    const std::string_view rest = pattern.substr(p);
    if (rest.starts_with('*')) {
      star = ++p;
      resume = n;
      continue;
    }
    const size_t blank = rest.starts_with(kLayer)    ? kLayer.size()
                         : rest.starts_with(kExpert) ? kExpert.size()
                                                     : 0;
    if (blank != 0) {
      size_t end = n;
      while (end < name.size() && is_digit(name[end])) ++end;
      if (plain_number(name.substr(n, end - n))) {
        p += blank;
        n = end;
        continue;
      }
    } else if (!rest.empty() && n < name.size() && rest.front() == name[n]) {
      ++p;
      ++n;
      continue;
    }
    // No fit here: the last '*' takes one character more.
    if (star == kNone || resume >= name.size()) return false;
    p = star;
    n = ++resume;
  }
  return true;
}

}  // namespace moert::weights
