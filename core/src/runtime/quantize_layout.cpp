// SPDX-License-Identifier: Apache-2.0
#include "runtime/quantize_layout.hpp"

#include <moert/abi/quant_method.h>
#include <moert/error.hpp>

#include "weights/companions.hpp"
#include "weights/header_text.hpp"

namespace moert::runtime {

namespace {

constexpr std::string_view kBlocks = "_blocks";

const spec::TensorRule* rule_of(const spec::Tensors& tensors, const std::string& pattern) {
  for (const spec::Layout& layout : tensors.experts)
    for (const spec::TensorRule& rule : layout.rules)
      if (rule.pattern == pattern) return &rule;
  return nullptr;
}

// Of one part with a tensor of its own, whose name begins like those of the stacked ones.
bool is_beside(const spec::TensorRule& rule, const std::string& stem, uint32_t part) {
  return !rule.stacked && rule.role == MOERT_ROLE_WEIGHT && rule.parts == std::vector{part} &&
         rule.pattern.starts_with(stem) && rule.pattern.compare(stem.size(), 8, "{expert}") == 0;
}

uint32_t stored_dtype(uint32_t dtype) {
  return dtype == MOERT_DTYPE_F4_E2M1 || dtype == MOERT_DTYPE_F8_E8M0
             ? static_cast<uint32_t>(MOERT_DTYPE_U8)
             : dtype;
}

std::string name_of(const Placement& to, const TargetScheme& target, uint32_t param,
                    const std::string& method) {
  if (is_of_blocks(*to.rule)) {
    const std::string stem = to.name.substr(0, to.name.size() - kBlocks.size());
    return stem + (param == MOERT_PARAM_WEIGHT ? "_blocks" : "_scales");
  }
  switch (param) {
    case MOERT_PARAM_WEIGHT:
      return to.name + (target.storage == TargetScheme::elements ? "" : "_packed");
    case MOERT_PARAM_SCALE: return to.name + (method == "fp8" ? "_scale_inv" : "_scale");
    case MOERT_PARAM_SCALE2: return to.name + "_global_scale";
    default: return to.name + "_shape";
  }
}

// The matrix of one expert becomes the tensor of all.
std::vector<int64_t> stored_shape(const TargetScheme& target, const Placement& to,
                                  const StoredPart& part) {
  const spec::TensorRule& rule = *to.rule;
  std::vector<int64_t> shape = part.shape;
  if (shape.empty()) shape = {1};
  if (shape.size() == 2 && target.block == weights::BlockSize{} && !target.is_plain() &&
      part.param == MOERT_PARAM_SCALE && !rule.stacked)
    shape = {1};
  if (part.dtype == MOERT_DTYPE_F4_E2M1) shape.back() /= 2;
  if (rule.transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
  if (part.param == MOERT_PARAM_WEIGHT && is_of_blocks(rule)) {
    shape.back() /= 16;
    shape.push_back(16);
  }
  if (rule.flat)
    shape.front() *= to.experts;
  else if (rule.stacked)
    shape.insert(shape.begin(), to.experts);
  return shape;
}

}  // namespace

bool is_of_blocks(const spec::TensorRule& rule) { return rule.pattern.ends_with(kBlocks); }

const spec::TensorRule* per_expert_rule(const spec::Tensors& tensors, const spec::TensorRule& rule,
                                        uint32_t part) {
  const std::string stem = rule.pattern.substr(0, rule.pattern.rfind('.') + 1);
  for (const spec::Layout& layout : tensors.experts)
    for (const spec::TensorRule& each : layout.rules)
      if (is_beside(each, stem, part)) return &each;
  return nullptr;
}

const spec::TensorRule* with_blocks(const spec::Tensors& tensors, const spec::TensorRule& rule) {
  return rule_of(tensors, rule.pattern + std::string(kBlocks));
}

const spec::TensorRule* without_blocks(const spec::Tensors& tensors, const spec::TensorRule& rule) {
  return rule_of(tensors, rule.pattern.substr(0, rule.pattern.size() - kBlocks.size()));
}

void require_fit(const TargetScheme& target, const Placement& to, const std::string& place) {
  const spec::TensorRule& rule = *to.rule;
  const auto halves = static_cast<int64_t>(rule.parts.size());
  const auto refuse = [&](const std::string& problem, const std::string& remedy) {
    throw Error(Fault::usage, "scheme " + target.word + " does not fit: " + problem, place, remedy);
  };
  if (target.is_plain()) return;
  if (to.cols % target.group != 0)
    refuse("rows of " + std::to_string(to.cols) + " are no whole groups of " +
               std::to_string(target.group),
           "choose a scheme without groups, such as fp8.channel, or --exclude these weights");
  const bool stacked = rule.stacked && !is_of_blocks(rule);
  if (target.storage != TargetScheme::elements &&
      (stacked || rule.transposed || !(is_of_blocks(rule) || to.name.ends_with(".weight"))))
    refuse("packed codes need a matrix of its own for each expert, and this family stores " +
               std::string(stacked ? "all experts in one tensor" : "them in another way"),
           "choose fp8.channel or int8.channel, or --exclude these weights");
  if (target.storage == TargetScheme::words && halves != 1)
    refuse("gate and up lie in one matrix", "choose a scheme of eight bits");
  if (target.block.rows > 1 && halves == 2 &&
      (rule.interleaved || to.rows / 2 % target.block.rows != 0))
    refuse("blocks of " + std::to_string(target.block.rows) +
               " rows would lie across gate and up, " +
               (rule.interleaved
                    ? "whose rows take turns in one tensor"
                    : "of " + std::to_string(to.rows / 2) + " rows each, which share a tensor"),
           "choose other blocks, or fp8.channel");
  const bool across =
      target.block.rows == 0 || (target.block.rows > 1 && to.rows % target.block.rows != 0);
  if (rule.flat && to.experts > 1 && (rule.transposed || across))
    refuse("scales would lie across experts, whose rows follow each other in one matrix",
           "--exclude these weights, or decode (bf16, f32)");
}

std::vector<StoredTensor> stored_tensors(const TargetScheme& target, const Placement& to,
                                         const std::vector<StoredPart>& parts,
                                         const std::string& method) {
  std::vector<StoredTensor> tensors;
  for (const StoredPart& part : parts)
    tensors.push_back({part.param, weights::new_tensor(name_of(to, target, part.param, method),
                                                       stored_dtype(part.dtype),
                                                       stored_shape(target, to, part))});
  if (target.storage == TargetScheme::words)
    tensors.push_back({weights::kShapeParam,
                       weights::new_tensor(name_of(to, target, weights::kShapeParam, method),
                                           MOERT_DTYPE_I64, {2})});
  return tensors;
}

}  // namespace moert::runtime
