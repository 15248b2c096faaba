// The keys of kind Family.
// SPDX-License-Identifier: Apache-2.0
#include "config/head.hpp"
#include "config/layer_pattern.hpp"
#include "config/quantities.hpp"
#include "config/table.hpp"

namespace moert::config {
namespace {

void append(Table& table, const Table& part) {
  table.insert(table.end(), part.begin(), part.end());
}

std::vector<std::string> quantity_names() {
  std::vector<std::string> names;
  for (const Quantity& q : quantities()) names.emplace_back(q.name);
  return names;
}

std::vector<std::string> requirable() {
  std::vector<std::string> names = quantity_names();
  names.emplace_back("layers");
  return names;
}

Table recognition_keys() {
  return {
      {.path = "spec.abstract",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether this is only a base for others"},
      {.path = "spec.extends",
       .pattern = kNamePattern,
       .doc = "an abstract family, which may extend another; what is not said here is taken from "
              "it, its ignore and refuse rules are added"},
      {.path = "spec.match",
       .type = Type::map,
       .doc = "how a checkpoint of the family is recognised"},
      {.path = "spec.match.model_type",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "values of model_type in config.json"},
      {.path = "spec.match.model_type[]"},
      {.path = "spec.match.architectures",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "class names in architectures, for files without a known model_type"},
      {.path = "spec.match.architectures[]"},
      {.path = "spec.match.keys",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "config keys that are all present, for files that say neither of the two; dots go "
              "into nested maps"},
      {.path = "spec.match.keys[]"},
      {.path = "spec.tested",
       .type = Type::word,
       .words = {"transformers", "reference"},
       .doc = "whose numbers its own are tested against: those of Hugging Face transformers, or of "
              "a float64 reference written from published formulas"},
      {.path = "spec.unsupported", .doc = "why models of the family are described but not run"},
      {.path = "spec.required",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "quantities that the config must give: no default counts; `layers` is any that says "
              "which layers have experts"},
      {.path = "spec.required[]", .type = Type::word, .words = requirable()},
      {.path = "spec.roots",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "what {root} stands for in tensor names, each tried; multimodal releases keep the "
              "language model under another root"},
      {.path = "spec.roots[]", .pattern = "[A-Za-z0-9_.]+"},
  };
}

// How the family's files are read, beyond spellings.
Table reading_keys() {
  return {
      {.path = "spec.nested",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "keys under which a multimodal config.json keeps the language model's part, first "
              "match wins"},
      {.path = "spec.nested[]"},
      {.path = "spec.layers",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "rules that say which layers have experts; all must hold, no rule means every layer"},
      {.path = "spec.layers[]", .type = Type::word, .words = layer_rule_names()},
      {.path = "spec.refuse",
       .type = Type::list,
       .fallback = "[]",
       .doc = "config.json keys that ask for what cannot be run; null, 0, false and absent pass"},
      {.path = "spec.refuse[]", .type = Type::map},
      {.path = "spec.refuse[].key", .required = true, .doc = "the key; dots go into nested maps"},
      {.path = "spec.refuse[].reason", .required = true, .doc = "what it asks for"},
      {.path = "spec.refuse[].unless",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "further values, in quotes as JSON writes them, that ask for nothing"},
      {.path = "spec.refuse[].unless[]"},
  };
}

std::vector<std::string> words_of(const Quantity& q) {
  if (q.name == "activation") return activation_names();
  if (q.name == "limited_activation") return activation_names();
  if (q.name == "scoring") return scoring_names();
  if (q.name == "routing_method") return {"topk", "sparsemixer", "group_topk"};
  if (q.name == "selection_bias_on") return {"scores", "logits"};
  if (q.name == "router_input") return {"plain", "unit"};
  if (q.name == "zero_expert_type") return {"identity"};
  if (q.name == "expert_norm") return {"none", "in", "out"};
  if (q.name == "shared_combine") return {"sum", "average"};
  if (q.name == "group_score") return group_score_names();
  if (q.name == "dtype") return dtype_names();
  if (q.name == "scale_on") return {"weights", "output"};
  return {};
}

// The type that a default, or the meaning of a word, has.
Key value_key(const Quantity& q, const std::string& path) {
  Key key{.path = path};
  switch (q.kind) {
    case QuantityKind::count:
    case QuantityKind::pattern:
    case QuantityKind::size:
      key.type = Type::integer;
      key.min = q.kind == QuantityKind::size ? 0 : 1;
      key.max = static_cast<double>(kMaxWidth);
      break;
    case QuantityKind::flag: key.type = Type::boolean; break;
    case QuantityKind::real: key.type = Type::number; break;
    case QuantityKind::last_layer:
      key.type = Type::integer;
      key.min = -1;
      key.max = static_cast<double>(kMaxLayers);
      break;
    case QuantityKind::layer_list:
    case QuantityKind::layer_words:
      key.type = Type::word;
      key.words = {"dense", "experts", "hash"};
      break;
    case QuantityKind::word:
      key.words = words_of(q);
      key.type = key.words.empty() ? Type::string : Type::word;
  }
  return key;
}

Table quantity_keys() {
  Table table = {{.path = "spec.spellings",
                  .type = Type::map,
                  .doc = "for each quantity the config.json keys to try, in order; dots go into "
                         "nested maps; [] means "
                         "never read"}};
  for (const Quantity& q : quantities()) {
    const std::string path = "spec.spellings." + std::string(q.name);
    table.push_back({.path = path, .type = Type::list, .unique = true, .doc = std::string(q.doc)});
    table.push_back({.path = path + "[]"});
  }
  table.push_back({.path = "spec.defaults",
                   .type = Type::map,
                   .doc = "values of quantities that config.json does not give; the keys are those "
                          "of spec.spellings"});
  for (const Quantity& q : quantities())
    if (q.kind != QuantityKind::layer_list && q.kind != QuantityKind::layer_words)
      table.push_back(value_key(q, "spec.defaults." + std::string(q.name)));
  table.push_back(
      {.path = "spec.words",
       .type = Type::map,
       .doc = "for each quantity that is a word or a flag, what the words in a "
              "config.json mean, as well as true, false, null and numbers; others are refused"});
  for (const Quantity& q : quantities()) {
    if (q.kind != QuantityKind::word && q.kind != QuantityKind::flag &&
        q.kind != QuantityKind::real && q.kind != QuantityKind::layer_words)
      continue;
    table.push_back({.path = "spec.words." + std::string(q.name), .type = Type::map});
    table.push_back(value_key(q, "spec.words." + std::string(q.name) + ".*"));
  }
  return table;
}

Table rule_keys(const std::string& path, const std::vector<std::string>& parts) {
  return {
      {.path = path, .type = Type::map},
      {.path = path + ".name",
       .required = true,
       .doc = "whole tensor name; {layer} and {expert} stand for numbers, {root} for each of "
              "spec.roots"},
      {.path = path + ".parts",
       .type = Type::list,
       .required = true,
       .min = 1,
       .max = 2,
       .unique = true,
       .doc = "what it holds; two parts are halves along the output dimension, in this order"},
      {.path = path + ".parts[]", .type = Type::word, .words = parts},
      {.path = path + ".role",
       .type = Type::word,
       .fallback = "weight",
       .words = {"weight", "bias"},
       .doc = "weight or bias"},
      {.path = path + ".transposed",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "[in, out] instead of [out, in]"},
      {.path = path + ".interleaved",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "the two halves alternate row by row"},
      {.path = path + ".optional",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "may be absent"},
  };
}

Table layout_keys() {
  Table table = {
      {.path = "spec.tensors",
       .type = Type::map,
       .doc = "which tensor of the checkpoint feeds what"},
      {.path = "spec.tensors.experts",
       .type = Type::list,
       .fallback = "[]",
       .doc = "layouts in which releases store experts; a layer's is the one of which most parts "
              "are there in shapes that fit"},
      {.path = "spec.tensors.experts[]", .type = Type::map},
      {.path = "spec.tensors.experts[].layout",
       .required = true,
       .pattern = kShortName,
       .doc = "its name in reports"},
      {.path = "spec.tensors.experts[].prefixes",
       .type = Type::list,
       .required = true,
       .min = 1,
       .unique = true,
       .doc = "beginnings of tensor names; with each of them the rules make one layout"},
      {.path = "spec.tensors.experts[].prefixes[]"},
      {.path = "spec.tensors.experts[].rules",
       .type = Type::list,
       .required = true,
       .min = 1,
       .doc = "the tensors"},
  };
  append(table, rule_keys("spec.tensors.experts[].rules[]", {"gate", "up", "down"}));
  table.push_back({.path = "spec.tensors.experts[].rules[].stacked",
                   .type = Type::boolean,
                   .fallback = "false",
                   .doc = "one tensor holds all experts, the expert is its first dimension"});
  table.push_back({.path = "spec.tensors.experts[].rules[].flat",
                   .type = Type::boolean,
                   .fallback = "false",
                   .doc = "one matrix [E x out, in] holds all experts, one after the other"});
  return table;
}

Table tensor_keys(const std::string& path, const std::string& doc,
                  const std::vector<std::string>& words) {
  return {
      {.path = path, .type = Type::list, .fallback = "[]", .doc = doc},
      {.path = path + "[]", .type = Type::map},
      {.path = path + "[].name", .required = true, .doc = "whole tensor name"},
      {.path = path + "[].tensor",
       .type = Type::word,
       .required = true,
       .words = words,
       .doc = "what it is"},
      {.path = path + "[].transposed",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "[in, out] instead of [out, in]"},
      {.path = path + "[].optional",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "may be absent"},
  };
}

Table router_keys() {
  return tensor_keys(
      "spec.tensors.router", "tensors of the router",
      {"gate_weight", "gate_bias", "selection_bias", "expert_scale", "input_scale", "token_table"});
}

Table layer_keys() {
  return tensor_keys("spec.tensors.layer", "tensors of the layer around its experts",
                     {"latent_down", "latent_up", "expert_norm", "output_bias"});
}

Table shared_keys() {
  Table table = {{.path = "spec.tensors.shared",
                  .type = Type::list,
                  .fallback = "[]",
                  .doc = "tensors of shared experts"}};
  append(table, rule_keys("spec.tensors.shared[]", {"gate", "up", "down", "sigmoid_gate"}));
  return table;
}

Table ignore_keys() {
  const std::string ignore = "spec.tensors.ignore";
  return {
      {.path = ignore,
       .type = Type::list,
       .fallback = "[]",
       .doc = "tensors that are no part of MoE layers"},
      {.path = ignore + "[]", .type = Type::map},
      {.path = ignore + "[].names",
       .type = Type::list,
       .required = true,
       .min = 1,
       .unique = true,
       .doc = "tensor names; * stands for any text, {dense_layer} for a layer without experts, "
              "{extra_layer} for one of the extra_layers after the last"},
      {.path = ignore + "[].names[]"},
      {.path = ignore + "[].reason", .required = true, .doc = "why they are not read"},
  };
}

}  // namespace

const Table& family_table() {
  static const Table table = [] {
    Table all = head_table("Family");
    append(all, recognition_keys());
    append(all, reading_keys());
    append(all, quantity_keys());
    for (const Table& part :
         {layout_keys(), router_keys(), shared_keys(), layer_keys(), ignore_keys()})
      append(all, part);
    return all;
  }();
  return table;
}

}  // namespace moert::config
