// moert_routing.params: which a rule uses, and their numbers.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "routing_rule.hpp"

namespace moert::cpu {
namespace {

bool has(const moert_routing_t& r, uint32_t flag) { return (r.flags & flag) != 0; }

bool reads_logits(const moert_routing_t&, Method method) { return method != Method::simulated; }
bool renormalizes(const moert_routing_t& r, Method method) {
  return method != Method::simulated && has(r, MOERT_ROUTING_RENORMALIZE);
}
bool norms_input(const moert_routing_t& r, Method) { return has(r, MOERT_ROUTING_INPUT_NORM); }
bool is_sparsemixer(const moert_routing_t&, Method method) { return method == Method::sparsemixer; }
bool is_simulated(const moert_routing_t&, Method method) { return method == Method::simulated; }

struct Number {
  const char* key;
  double RoutingParams::* field;
  bool zero;      // may be 0
  bool negative;  // may be below
  bool (*used)(const moert_routing_t&, Method);
};
constexpr Number kNumbers[] = {
    {"logit_scale", &RoutingParams::logit_scale, false, false, reads_logits},
    {"logit_softcap", &RoutingParams::logit_softcap, true, false, reads_logits},
    {"renormalize_floor", &RoutingParams::renormalize_floor, true, false, renormalizes},
    {"input_norm_eps", &RoutingParams::input_norm_eps, true, false, norms_input},
    {"input_gain", &RoutingParams::input_gain, false, true, norms_input},
    {"jitter_eps", &RoutingParams::jitter_eps, true, false, is_sparsemixer},
};

// The whole text must be one number, whatever the locale.
template <class T>
bool parse(const char* text, T* out) {
  if (text == nullptr || *text == '\0') return false;
  const char* end = text + std::strlen(text);
  const auto [stopped, code] = std::from_chars(text, end, *out);
  return code == std::errc() && stopped == end;
}

std::string read_number(const Number& number, const char* text, RoutingParams* params) {
  double value = 0;
  const std::string said = std::string(number.key) + " " + quoted(text);
  if (!parse(text, &value) || !std::isfinite(value))
    return said + " is not a finite decimal number";
  if ((value < 0 && !number.negative) || (value == 0 && !number.zero))
    return said + (number.negative ? " is 0" : number.zero ? " is below 0" : " is not above 0");
  params->*number.field = value;
  return {};
}

std::string read_simulated(std::string_view key, const char* text, RoutingParams* params) {
  if (key == "seed")
    return parse(text, &params->seed) ? std::string()
                                      : "seed " + quoted(text) + " is not an integer in [0, 2^64)";
  const int found = position(text, "uniform, normal, zipf");
  if (found < 0) return "distribution " + quoted(text) + ", only uniform, normal, zipf";
  params->distribution = static_cast<Distribution>(found);
  return {};
}

std::string read_param(const moert_routing_t& r, const moert_kv_t& param, Method method,
                       RoutingParams* params) {
  const std::string_view key = param.key == nullptr ? "" : param.key;
  const auto unused = "parameter " + quoted(param.key) + " is not used by method " +
                      quoted(r.method) + " with these flags";
  for (const Number& number : kNumbers)
    if (key == number.key)
      return number.used(r, method) ? read_number(number, param.value, params) : unused;
  if (key == "seed" || key == "distribution")
    return is_simulated(r, method) ? read_simulated(key, param.value, params) : unused;
  return "parameter " + quoted(param.key) + " is not known";
}

}  // namespace

std::string read_params(const moert_routing_t& r, Method method, RoutingParams* params) {
  if (r.n_params != 0 && r.params == nullptr) return "params are missing (NULL)";
  for (uint32_t i = 0; i < r.n_params; ++i) {
    if (std::string reason = read_param(r, r.params[i], method, params); !reason.empty())
      return reason;
    for (uint32_t j = 0; j < i; ++j)
      if (std::string_view(r.params[i].key) == r.params[j].key)
        return "parameter " + quoted(r.params[i].key) + " is given twice";
  }
  return {};
}

}  // namespace moert::cpu
