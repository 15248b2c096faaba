// SPDX-License-Identifier: Apache-2.0
#include "runtime/formats.hpp"

#include <algorithm>

#include "weights/companions.hpp"

namespace moert::runtime {

namespace {

const char* word_of(spec::Target target) {
  if (target == spec::Target::shared) return "shared_quant";
  return target == spec::Target::layer ? "layer_quant" : "quant";
}

// "layers.0.experts.0.down_proj.weight with weight_scale_inv"
std::string tensors_text(const weights::Source& source, std::string text) {
  for (size_t i = 0; i < source.companions.size(); ++i) {
    const std::string& name = source.companions[i].tensor->name;
    text += (i == 0 ? " with " : " and ") + name.substr(name.rfind('.') + 1);
  }
  return text;
}

std::string activations_of(const spec::Scheme& scheme) {
  for (const auto& [key, value] : scheme.options)
    if (key == "activations") return value;
  return "none";
}

// The rule's name as this release spells it.
std::string pattern_of(const weights::Source& source) {
  std::string pattern = source.rule->pattern;
  for (const std::string_view packed : {".weight_packed", ".qweight"})
    if (source.tensor->name.ends_with(packed) && pattern.ends_with(".weight"))
      pattern.replace(pattern.size() - std::string_view(".weight").size(), std::string::npos,
                      packed);
  return pattern;
}

}  // namespace

std::vector<FormatUse> formats_of(const weights::Plan& plan, const weights::LayerPlan& layer) {
  std::vector<FormatUse> uses;
  for (const weights::Source& source : layer.sources) {
    if (source.format == weights::kNoFormat) continue;
    const std::string word = word_of(source.target);
    auto use = std::find_if(uses.begin(), uses.end(), [&](const FormatUse& each) {
      return each.word == word && each.format == source.format;
    });
    if (use == uses.end())
      use = uses.insert(uses.end(), {word, source.format, plan.formats[source.format].scheme,
                                     tensors_text(source, source.tensor->name),
                                     tensors_text(source, pattern_of(source)), 0});
    ++use->weights;
  }
  return uses;
}

std::string act_scheme_of(const std::vector<FormatUse>& formats, const std::string& word) {
  std::string result;
  for (const FormatUse& use : formats) {
    if (use.word != word) continue;
    const std::string own = activations_of(use.scheme);
    if (!result.empty() && result != own) return "mixed";
    result = own;
  }
  return result.empty() ? "none" : result;
}

bool names_scheme(const std::string& asked, const std::string& scheme) {
  if (!scheme.starts_with(asked)) return false;
  return scheme.size() == asked.size() || scheme[asked.size()] == '.' ||
         scheme[asked.size()] == '_';
}

}  // namespace moert::runtime
