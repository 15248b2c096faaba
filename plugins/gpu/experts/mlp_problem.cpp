// Which problems of routed and shared experts are served, and how.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "../backend.hpp"
#include "../tensors.hpp"
#include "activation.hpp"
#include "mlps.hpp"

namespace moert::gpu {
namespace {

std::string number(const char* name, int64_t value) {
  return std::string(name) + " " + std::to_string(value);
}

bool is_row_type(uint32_t dtype) {
  return dtype == MOERT_DTYPE_F32 || dtype == MOERT_DTYPE_BF16 || dtype == MOERT_DTYPE_F16;
}

// The device's layout; false, with the reason, where there is no such device.
bool find_layout(moert_device_id_t device, LayoutId* layout, std::string* reason) {
  *reason = device_refusal(device);
  if (!reason->empty()) return false;
  *layout = remembered_facts(device.ordinal).layout;
  return true;
}

std::string refuse_sizes(const MlpProblem& p) {
  const std::pair<const char*, int64_t> sizes[] = {{"hidden_size", p.sizes.hidden},
                                                   {"intermediate_size", p.sizes.intermediate},
                                                   {"num_local_experts", p.experts},
                                                   {"top_k", p.top_k}};
  for (const auto& [name, value] : sizes)
    if (value < 1) return number(name, value) + ": must be at least 1";
  if (p.max_tokens < 0) return number("max_tokens", p.max_tokens) + ": must not be negative";
  if (p.experts > kMostExperts)
    return number("num_local_experts", p.experts) + ", at most " + std::to_string(kMostExperts);
  if (p.top_k > kMostSlots)
    return number("top_k", p.top_k) + ", at most " + std::to_string(kMostSlots);
  int64_t bytes = 0;
  if (!product({p.max_tokens, std::max(p.sizes.hidden, p.top_k), 8}, &bytes))
    return "the sizes do not fit 64 bits";
  return {};
}

std::string refuse_layout(const MlpProblem& p, const Treatment& treatment, LayoutId layout) {
  PackedLayout packed;
  int64_t bytes = 0;
  if (!PackedLayout::make(layout, treatment.format, p.sizes, &packed) ||
      !product({packed.bytes_per_expert(), p.experts}, &bytes))
    return "the sizes do not fit 64 bits";
  return {};
}

}  // namespace

std::string refusal(const MlpProblem& p) {
  LayoutId layout{};
  std::string reason;
  if (!find_layout(p.device, &layout, &reason)) return reason;
  for (const uint32_t dtype : {p.activation_dtype, p.output_dtype})
    if (!is_row_type(dtype))
      return "rows of type " + std::string(dtype_name(dtype)) + ", only f32, bf16, f16";
  if (reason = refuse_sizes(p); !reason.empty()) return reason;
  Treatment treatment;
  if (!treat(p.weight_scheme, p.activations, p.activation_dtype, &treatment))
    return "rows quantised by '" + std::string(p.activations) + "' for weights of '" +
           std::string(p.weight_scheme) + "'";
  if (reason = refuse_layout(p, treatment, layout); !reason.empty()) return reason;
  if (reason = gemm_refusal(p.gemm, remembered_facts(p.device.ordinal), treatment); !reason.empty())
    return reason;
  return activation_refusal(p.activation, p.sizes.gated);
}

std::string service_text(const MlpProblem& p) {
  Treatment treatment;
  treat(p.weight_scheme, p.activations, p.activation_dtype, &treatment);
  return treatment_text(treatment, p.weight_scheme, p.activations);
}

uint64_t persistent_bytes(const MlpProblem& p) {
  Treatment treatment;
  treat(p.weight_scheme, p.activations, p.activation_dtype, &treatment);
  PackedLayout packed;
  PackedLayout::make(remembered_facts(p.device.ordinal).layout, treatment.format, p.sizes, &packed);
  const uint64_t scales = treatment.rule.by_weight() ? InputScales::kBundleBytes : 0;
  return (static_cast<uint64_t>(packed.bytes_per_expert()) + scales) *
         static_cast<uint64_t>(p.experts);
}

}  // namespace moert::gpu
