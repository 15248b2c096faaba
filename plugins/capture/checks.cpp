// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include <charconv>
#include <moert/sdk/tensor.hpp>

namespace moert::capture {
namespace {

constexpr uint32_t kKnown = MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS | MOERT_CAPTURE_MARGINS;

std::string layer_refusal(const moert_capture_spec_t& s) {
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

}  // namespace

std::string refusal(const moert_capture_spec_t& s) {
  if (s.device.kind != MOERT_DEVICE_CPU) return "decisions are not in host memory";
  if ((s.what & ~kKnown) != 0)
    return "capture bits " + std::to_string(s.what & ~kKnown) + " are not known";
  if ((s.what & MOERT_CAPTURE_IDS) == 0) return "a capture without ids";
  if (s.max_tokens < 0) return "max_tokens " + std::to_string(s.max_tokens) + " is negative";
  if (s.n_layers == 0) return "the model has no MoE layers, so there is nothing to capture";
  if (s.layer_ids == nullptr || s.num_experts == nullptr || s.top_k == nullptr)
    return "the layers' sizes are missing";
  return layer_refusal(s);
}

moert_capture_spec_t accepted(const moert_capture_spec_t& spec) {
  if (const std::string reason = refusal(spec); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return spec;
}

int64_t number_option(const Options& options, std::string_view key, int64_t fallback, int64_t least,
                      int64_t most) {
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

bool is_second_word(const Options& options, std::string_view key, std::string_view first,
                    std::string_view second) {
  const std::string_view text = options.get(key, first);
  if (text != first && text != second)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "option " + std::string(key) + " is '" + std::string(text) + "', expected '" +
                          std::string(first) + "' or '" + std::string(second) + "'");
  return text == second;
}

void expect_rows(const moert_tensor_t* t, const char* name, uint32_t dtype, int64_t rows,
                 int64_t cols) {
  if (cols > 0)
    expect_tensor(t, name, dtype, {-1, cols});
  else
    expect_tensor(t, name, dtype, {-1});
  must_understand(t->flags & 0xffff0000u, 0, name);
  const auto wrong = [&](const std::string& why) {
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      std::string(name) + " is " + tensor_text(*t) + ", " + why);
  };
  if (t->device.kind != MOERT_DEVICE_CPU) wrong("but not in host memory");
  if (t->shape[0] < rows) wrong("but the step has " + std::to_string(rows) + " tokens");
  if (rows == 0) return;
  const int64_t across = cols > 0 ? t->strides[1] : 0;
  int64_t down = 0, along = 0, count = 0;
  if (t->data == nullptr || t->strides[0] < 0 || across < 0 ||
      __builtin_mul_overflow(rows - 1, t->strides[0], &down) ||
      __builtin_mul_overflow(cols > 0 ? cols - 1 : 0, across, &along) ||
      __builtin_add_overflow(down, along, &count) || count >= INT64_MAX / 8 ||
      dtype_bytes(dtype, count + 1) > t->bytes)
    wrong("more than its " + std::to_string(t->bytes) + " bytes");
}

void refuse_ids(int64_t row, const int32_t* ids, int64_t k, int64_t num_experts) {
  int64_t j = 0;
  while (j < k - 1 && ids[j] >= 0 && ids[j] < num_experts) ++j;
  throw PluginError(MOERT_INVALID_ARGUMENT,
                    "ids[" + std::to_string(row) + ", " + std::to_string(j) + "] is " +
                        std::to_string(ids[j]) + ", expected an expert below " +
                        std::to_string(num_experts));
}

}  // namespace moert::capture
