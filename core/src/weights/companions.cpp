// SPDX-License-Identifier: Apache-2.0
#include "weights/companions.hpp"

#include <moert/abi/quant_method.h>

namespace moert::weights {
namespace {

struct Suffix {
  std::string_view text;
  uint32_t param;
  Spelling spelling = Spelling::plain;
};

// A suffix that ends with another one stands before it.
constexpr Suffix kSuffixes[] = {
    // of a module: "experts.3.down_proj.weight_scale" beside "experts.3.down_proj.weight"
    {".weight_packed", MOERT_PARAM_WEIGHT, Spelling::packed},
    {".qweight", MOERT_PARAM_WEIGHT, Spelling::words},
    {".weight_scale_inv", MOERT_PARAM_SCALE},
    {".weight_scale", MOERT_PARAM_SCALE},
    {".scales", MOERT_PARAM_SCALE},
    {".scale", MOERT_PARAM_SCALE},
    {".weight_scale_2", MOERT_PARAM_SCALE2},
    {".weight_global_scale", MOERT_PARAM_SCALE2},
    {".weight_zero_point", MOERT_PARAM_ZERO_POINT},
    {".qzeros", MOERT_PARAM_ZERO_POINT},
    {".weight_g_idx", MOERT_PARAM_GROUP_INDEX},
    {".g_idx", MOERT_PARAM_GROUP_INDEX},
    {".input_scale", MOERT_PARAM_INPUT_SCALE},
    {".input_global_scale", MOERT_PARAM_INPUT_SCALE},
    {".weight_shape", kShapeParam},
    // of a tensor that holds all experts: "experts.down_proj_scale" beside "experts.down_proj"
    {"_packed", MOERT_PARAM_WEIGHT, Spelling::packed},
    {"_weight_scale_inv", MOERT_PARAM_SCALE},
    {"_scale_inv", MOERT_PARAM_SCALE},
    {"_input_scale", MOERT_PARAM_INPUT_SCALE},
    {"_input_global_scale", MOERT_PARAM_INPUT_SCALE},
    {"_weight_scale_2", MOERT_PARAM_SCALE2},
    {"_scale_2", MOERT_PARAM_SCALE2},
    {"_weight_global_scale", MOERT_PARAM_SCALE2},
    {"_global_scale", MOERT_PARAM_SCALE2},
    {"_weight_scale", MOERT_PARAM_SCALE},
    {"_scales", MOERT_PARAM_SCALE},
    {"_scale", MOERT_PARAM_SCALE},
};
// What the weight itself is called in the place of the suffix.
constexpr std::string_view kOfModule[] = {".weight", ""};
constexpr std::string_view kOfTensor[] = {"", "_blocks"};
constexpr std::string_view kUsual[kParams] = {"",       "_scale",      "_scale_2", "_zero_point",
                                              "_g_idx", "input_scale", "_shape"};

}  // namespace

bool for_each_base(std::string_view name, const std::function<bool(const BaseName&)>& try_name) {
  for (const Suffix& suffix : kSuffixes) {
    if (!name.ends_with(suffix.text)) continue;
    const std::string stem(name.substr(0, name.size() - suffix.text.size()));
    const auto try_all = [&](const auto& endings) {
      for (const std::string_view ending : endings)
        if (try_name({stem + std::string(ending), suffix.param, suffix.spelling})) return true;
      return false;
    };
    if (suffix.text.front() == '.' ? try_all(kOfModule) : try_all(kOfTensor)) return true;
  }
  return false;
}

const char* param_text(uint32_t param) {
  constexpr const char* kNames[kParams] = {
      "weight", "scale", "second scale", "zero point", "group index", "input scale", "shape"};
  return kNames[param];
}

std::string companion_name(const std::string& weight, uint32_t param, std::string_view beside) {
  const auto stem_of = [](std::string_view name, std::string_view* ending) {
    for (const std::string_view each :
         {".weight_packed", ".qweight", ".weight", "_blocks", "_packed"})
      if (name.ends_with(each)) {
        *ending = each;
        return std::string(name.substr(0, name.size() - each.size()));
      }
    return std::string(name);
  };
  std::string_view ending;
  const std::string stem = stem_of(weight, &ending);
  for (const Suffix& suffix : kSuffixes)
    if (suffix.param == param && beside.ends_with(suffix.text))
      return stem + std::string(suffix.text);
  if (ending == "_blocks") return stem + "_scales";
  if (ending == ".qweight" && param == MOERT_PARAM_GROUP_INDEX) return stem + ".g_idx";
  if (ending == ".qweight") return stem + (param == MOERT_PARAM_SCALE ? ".scales" : ".qzeros");
  if (param == MOERT_PARAM_INPUT_SCALE) return stem + (ending.empty() ? "_" : ".") + "input_scale";
  return stem + (ending.empty() ? "" : ".weight") + std::string(kUsual[param]);
}

}  // namespace moert::weights
