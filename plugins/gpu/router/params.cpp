// moert_routing.params: which of them a method uses, and their numbers.
// SPDX-License-Identifier: Apache-2.0
#include "params.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace moert::gpu {
namespace {

// What must hold for a parameter to mean something.
enum class Use : uint8_t { logits, sum, input_norm, sparsemixer, simulated };

bool uses(const moert_routing_t& r, Method method, Use use) {
  switch (use) {
    case Use::logits: return method != Method::simulated;
    case Use::sum: return method != Method::simulated && (r.flags & MOERT_ROUTING_RENORMALIZE) != 0;
    case Use::input_norm: return (r.flags & MOERT_ROUTING_INPUT_NORM) != 0;
    case Use::sparsemixer: return method == Method::sparsemixer;
    default: return method == Method::simulated;
  }
}

enum class Range : uint8_t { positive, not_negative, not_zero };

struct Number {
  std::string_view key;
  double Rule::* field;
  Range range;
  Use use;
};
constexpr Number kNumbers[] = {
    {"logit_scale", &Rule::logit_scale, Range::positive, Use::logits},
    {"logit_softcap", &Rule::logit_softcap, Range::not_negative, Use::logits},
    {"renormalize_floor", &Rule::renormalize_floor, Range::not_negative, Use::sum},
    {"input_norm_eps", &Rule::input_norm_eps, Range::not_negative, Use::input_norm},
    {"input_gain", &Rule::input_gain, Range::not_zero, Use::input_norm},
    {"jitter_eps", &Rule::jitter_eps, Range::not_negative, Use::sparsemixer},
};

// All of the text, in any locale.
template <class T>
bool parsed(const char* text, T* out) {
  if (text == nullptr) return false;
  const char* end = text + std::strlen(text);
  const auto [stopped, code] = std::from_chars(text, end, *out);
  return code == std::errc() && stopped == end && end != text;
}

std::string read_number(const Number& number, const char* text, Rule* rule) {
  const std::string said = std::string(number.key) + " " + quoted(text);
  double value = 0;
  if (!parsed(text, &value) || !std::isfinite(value)) return said + " is no finite decimal number";
  switch (number.range) {
    case Range::positive:
      if (!(value > 0)) return said + " is not above 0";
      break;
    case Range::not_negative:
      if (value < 0) return said + " is below 0";
      break;
    case Range::not_zero:
      if (value == 0) return said + " is 0";
      break;
  }
  rule->*number.field = value;
  return {};
}

std::string read_seed(const char* text, Rule* rule) {
  return parsed(text, &rule->seed) ? std::string()
                                   : "seed " + quoted(text) + " is no integer in [0, 2^64)";
}

std::string read_distribution(const char* text, Rule* rule) {
  const int found = position(text, "uniform, normal, zipf");
  if (found < 0) return "distribution " + quoted(text) + ", only uniform, normal, zipf";
  rule->distribution = static_cast<Distribution>(found);
  return {};
}

std::string read_param(const moert_routing_t& r, const moert_kv_t& param, Rule* rule) {
  const std::string_view key = param.key == nullptr ? "" : param.key;
  const auto unused = [&] {
    return "parameter " + quoted(param.key) + " means nothing to method " + quoted(r.method) +
           " with these flags";
  };
  for (const Number& number : kNumbers) {
    if (key != number.key) continue;
    return uses(r, rule->method, number.use) ? read_number(number, param.value, rule) : unused();
  }
  const bool seed = key == "seed";
  if (!seed && key != "distribution") return "parameter " + quoted(param.key) + " is not known";
  if (!uses(r, rule->method, Use::simulated)) return unused();
  return seed ? read_seed(param.value, rule) : read_distribution(param.value, rule);
}

}  // namespace

std::string quoted(const char* text) {
  return text == nullptr ? "none" : "'" + std::string(text) + "'";
}

int position(const char* word, const char* list) {
  if (word == nullptr) return -1;
  std::string_view rest(list);
  for (int index = 0; !rest.empty(); ++index) {
    const std::string_view entry = rest.substr(0, rest.find(", "));
    if (entry == word) return index;
    rest.remove_prefix(std::min(rest.size(), entry.size() + 2));
  }
  return -1;
}

std::string read_params(const moert_routing_t& r, Rule* rule) {
  if (r.n_params != 0 && r.params == nullptr) return "params are missing (NULL)";
  for (uint32_t i = 0; i < r.n_params; ++i) {
    if (std::string reason = read_param(r, r.params[i], rule); !reason.empty()) return reason;
    for (uint32_t before = 0; before < i; ++before)
      if (std::string_view(r.params[before].key) == r.params[i].key)
        return "parameter " + quoted(r.params[i].key) + " is given twice";
  }
  return {};
}

}  // namespace moert::gpu
