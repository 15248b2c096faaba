// What any capturer asks of a spec, and the options that capturers have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <moert/abi/capturer.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

namespace detail {
inline std::string capture_layers_refusal(const moert_capture_spec_t& s) {
  for (uint32_t i = 0; i < s.n_layers; ++i) {
    const std::string layer = "layer " + std::to_string(s.layer_ids[i]);
    if (i > 0 && s.layer_ids[i] <= s.layer_ids[i - 1])
      return layer + " comes after layer " + std::to_string(s.layer_ids[i - 1]);
    if (s.num_experts[i] < 1 || s.num_experts[i] > INT32_MAX)
      return layer + " has num_experts " + std::to_string(s.num_experts[i]);
    if (s.top_k[i] < 1 || s.top_k[i] > s.num_experts[i])
      return layer + " has top_k " + std::to_string(s.top_k[i]) + " of " +
             std::to_string(s.num_experts[i]) + " experts";
  }
  return {};
}
}  // namespace detail

// Why nobody could capture this, wherever the rows lie; empty: it can be captured.
inline std::string capture_refusal(const moert_capture_spec_t& s) {
  constexpr uint32_t kKnown = MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS | MOERT_CAPTURE_MARGINS;
  if ((s.what & ~kKnown) != 0)
    return "capture bits " + std::to_string(s.what & ~kKnown) + " are not known";
  if ((s.what & MOERT_CAPTURE_IDS) == 0) return "a capture without ids";
  if (s.max_tokens < 0) return "max_tokens " + std::to_string(s.max_tokens) + " is negative";
  if (s.n_layers == 0) return "the model has no MoE layers, so there is nothing to capture";
  if (s.layer_ids == nullptr || s.num_experts == nullptr || s.top_k == nullptr)
    return "the layers' sizes are missing";
  return detail::capture_layers_refusal(s);
}

namespace detail {
// Option `key` as a whole number in [least, most]; throws MOERT_INVALID_ARGUMENT.
inline int64_t number_option(const Options& options, std::string_view key, int64_t fallback,
                             int64_t least, int64_t most) {
  const std::string_view text = options.get(key);
  if (text.empty()) return fallback;
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    throw PluginError(MOERT_INVALID_ARGUMENT, "option " + std::string(key) + " is '" +
                                                  std::string(text) + "', expected a number from " +
                                                  std::to_string(least) + " to " +
                                                  std::to_string(most));
  return value;
}

// Option `key` as the index of one of two words.
inline bool is_second_word(const Options& options, std::string_view key, std::string_view first,
                           std::string_view second) {
  const std::string_view text = options.get(key, first);
  if (text != first && text != second)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "option " + std::string(key) + " is '" + std::string(text) + "', expected '" +
                          std::string(first) + "' or '" + std::string(second) + "'");
  return text == second;
}
}  // namespace detail

}  // namespace moert
