// The family's name rules, compiled so that a tensor's name is looked up and not compared with each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spec/family.hpp"

namespace moert::weights {

// A name with every run of digits replaced by one '0', and the runs. Views into the name.
struct NameShape {
  std::string key;
  std::vector<std::string_view> digits;
};
void shape_of(std::string_view name, NameShape* shape);

// A decimal number without leading zeros, below 10^18.
std::optional<int64_t> plain_number(std::string_view digits);

// What the placeholders of a rule stand for in a name; -1 where the rule has no such placeholder.
struct Numbers {
  int64_t layer = -1, expert = -1;
  size_t layer_end = 0;  // position in the name after the layer's number
};

struct CompiledRule {
  // One run of digits of the pattern: a placeholder, or literal digits.
  struct Run {
    enum Kind { literal, layer, expert } kind;
    std::string text;
  };
  const spec::TensorRule* rule = nullptr;
  int layout = -1;     // index into Tensors::experts; -1 for the other rules
  std::string prefix;  // the pattern up to its first placeholder or '*'
  std::vector<Run> runs;
};

class Rules {
 public:
  // Throws Error(usage) for a rule that makes no sense, naming its pattern. `tensors` must outlive it.
  explicit Rules(const spec::Tensors& tensors);

  const CompiledRule& at(uint32_t i) const { return rules_[i]; }
  uint32_t size() const { return static_cast<uint32_t>(rules_.size()); }
  // Rules without '*' whose fixed text fits a name of this shape; their digits may not.
  std::span<const uint32_t> candidates(const NameShape& shape) const;
  // The numbers of `name` under rule `i`, one of candidates(); nullopt if its digits do not fit.
  std::optional<Numbers> fit(uint32_t i, std::string_view name, const NameShape& shape) const;
  // The ignore rule that takes `name`. Rules that end their fixed prefix before `prefix_end` do not
  // count: a name whose layer does not exist is only ignored by a rule that names that layer. Nor do
  // rules of dense layers for a layer that `has_experts`.
  const spec::TensorRule* ignored(std::string_view name, const NameShape& shape, size_t prefix_end,
                                  const std::function<bool(int64_t)>& has_experts) const;

 private:
  void add(const spec::TensorRule& rule, int layout);
  std::vector<CompiledRule> rules_;
  std::vector<uint32_t> globs_;  // ignore rules with '*'
  std::unordered_map<std::string, std::vector<uint32_t>> by_key_;
};

// The name that a pattern stands for.
std::string expand(const spec::TensorRule& rule, int64_t layer, int64_t expert);

// Does `name` fit `pattern`, in which '*' stands for any text and {layer}, {expert} for a number?
// Time is at most the product of the lengths.
bool glob_fits(std::string_view pattern, std::string_view name);

}  // namespace moert::weights
