// The keys of kind Model.
// SPDX-License-Identifier: Apache-2.0
#include "config/head.hpp"
#include "config/table.hpp"

namespace moert::config {
namespace {

Table model_keys() {
  return {
      {.path = "spec.family",
       .pattern = kNamePattern,
       .doc = "family whose file names the tensors; needed where there are MoE layers"},
      {.path = "spec.checkpoint",
       .type = Type::path,
       .required = true,
       .doc = "folder with the safetensors files"},
      {.path = "spec.hidden_size",
       .type = Type::integer,
       .required = true,
       .min = 0,
       .max = kMaxWidth,
       .doc = "H: width of a token's row; 0 only where there are no MoE layers"},
      {.path = "spec.num_layers",
       .type = Type::integer,
       .required = true,
       .min = 0,
       .max = kMaxLayers,
       .doc = "number of layers, dense ones included"},
      {.path = "spec.extra_layers",
       .type = Type::integer,
       .fallback = "0",
       .min = 0,
       .max = kMaxExtraLayers,
       .doc = "layers of multi-token prediction after those, whose tensors are not read"},
      {.path = "spec.dtype",
       .type = Type::word,
       .words = dtype_names(),
       .doc = "what the model's own config says; the files decide"},
      {.path = "spec.dense_layers",
       .type = Type::ranges,
       .pattern = kRanges,
       .doc = "layers without experts; every other layer stands in one entry of spec.layers"},
      {.path = "spec.unsupported",
       .type = Type::list,
       .fallback = "[]",
       .doc = "why the model cannot be run"},
      {.path = "spec.unsupported[]"},
  };
}

Table layer_keys() {
  return {
      {.path = "spec.layers",
       .type = Type::list,
       .fallback = "[]",
       .doc = "MoE layers, those with equal numbers in one entry"},
      {.path = "spec.layers[]", .type = Type::map},
      {.path = "spec.layers[].layers",
       .type = Type::ranges,
       .required = true,
       .pattern = kRanges,
       .doc = "the layers that this entry describes: 3 or 1-5,7"},
      {.path = "spec.layers[].intermediate_size",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxWidth,
       .doc = "I: width of one routed expert"},
      {.path = "spec.layers[].gated",
       .type = Type::boolean,
       .fallback = "true",
       .doc = "whether an expert is down(act(gate) * up), or down(act(up))"},
      {.path = "spec.layers[].bias",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether experts have biases"},
      {.path = "spec.layers[].weight_on_input",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether routing weights multiply what experts read"},
      {.path = "spec.layers[].output_bias",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether a bias is added to the routed output"},
      {.path = "spec.layers[].latent_size",
       .type = Type::integer,
       .fallback = "0",
       .min = 0,
       .max = kMaxWidth,
       .doc = "width in which experts work; 0 is hidden_size"},
      {.path = "spec.layers[].expert_norm",
       .type = Type::word,
       .fallback = "none",
       .words = {"none", "in", "out"},
       .doc = "RMS norm of what experts read (in) or give (out)"},
      {.path = "spec.layers[].expert_norm_eps",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .max = 1e30,
       .doc = "added to the mean square of such a row"},
      {.path = "spec.layers[].scheme",
       .doc = "weight format that the experts' tensors must have; without it, what they say"},
  };
}

Table quantization_keys() {
  const std::string q = "spec.quantization", group = q + ".groups[]";
  return {
      {.path = q,
       .type = Type::map,
       .doc = "formats of weights that the model's own config announces"},
      {.path = q + ".method", .required = true, .doc = "as the config calls it"},
      {.path = q + ".groups",
       .type = Type::list,
       .fallback = "[]",
       .doc = "what has which format; of a module the first entry that fits holds"},
      {.path = group, .type = Type::map},
      {.path = group + ".targets",
       .type = Type::list,
       .fallback = "[]",
       .doc = "modules: a name or whole words of one, a glob, or \"re:\" and an expression; none "
              "is every weight"},
      {.path = group + ".targets[]"},
      {.path = group + ".kind",
       .required = true,
       .doc = "fp8, mxfp8, mxfp4, nvfp4, int8, int4_packed, int4_gptq, int4_awq, none, or a "
              "plugin's scheme"},
      {.path = group + ".blocks",
       .doc = "what one scale is of: tensor, channel, block128x128, g128; without it, as the "
              "scale's shape says"},
      {.path = group + ".activations",
       .doc = "how rows are quantised: the quant method's option of that name"},
      {.path = group + ".global",
       .type = Type::word,
       .words = {"multiply", "divide"},
       .doc = "how a second-level scale enters"},
      {.path = group + ".zeros",
       .type = Type::word,
       .words = {"none", "stored", "plus_one"},
       .doc = "zero points of int4"},
      {.path = group + ".nibbles",
       .type = Type::word,
       .words = {"low", "high"},
       .doc = "which half of a byte holds the first of two codes; without it, the low one"},
      {.path = group + ".column_groups",
       .type = Type::word,
       .words = {"in_order", "stored"},
       .doc = "of int4: whether a tensor must say of which group each column is"},
      {.path = q + ".excluded",
       .type = Type::list,
       .fallback = "[]",
       .doc = "modules that are plain floats, as targets are written"},
      {.path = q + ".excluded[]"},
  };
}

Table activation_keys(const std::string& path, const std::string& doc) {
  return {
      {.path = path, .type = Type::map, .doc = doc},
      {.path = path + ".name",
       .type = Type::word,
       .fallback = "silu",
       .words = activation_names(),
       .doc = "function between an expert's projections"},
      {.path = path + ".alpha",
       .type = Type::number,
       .fallback = "0",
       .doc = "its parameter, if it has one"},
      {.path = path + ".beta",
       .type = Type::number,
       .fallback = "0",
       .doc = "its parameter, if it has one"},
      {.path = path + ".limit",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .doc = "clamp; 0 is none"},
  };
}

Table routing_keys() {
  const std::string r = "spec.layers[].routing";
  return {
      {.path = r,
       .type = Type::map,
       .required = true,
       .doc = "how a token's experts are chosen and weighed"},
      {.path = r + ".method",
       .type = Type::word,
       .fallback = "topk",
       .words = method_names(),
       .doc = "rule of choice"},
      {.path = r + ".scoring",
       .type = Type::word,
       .fallback = "softmax",
       .words = scoring_names(),
       .doc = "from logits to scores"},
      {.path = r + ".num_experts",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxExperts,
       .doc = "E: routed experts of the layer"},
      {.path = r + ".zero_experts",
       .type = Type::integer,
       .fallback = "0",
       .min = 0,
       .max = kMaxExperts,
       .doc = "experts after those, which return their input"},
      {.path = r + ".top_k",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxExperts,
       .doc = "k: experts that a token visits"},
  };
}

Table scoring_keys() {
  const std::string r = "spec.layers[].routing";
  return {
      {.path = r + ".renormalize",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether a token's weights are divided by their sum"},
      {.path = r + ".renormalize_eps",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .max = 1e30,
       .doc = "added to that sum"},
      {.path = r + ".renormalize_floor",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .max = 1e30,
       .doc = "least value of that sum"},
      {.path = r + ".logit_scale",
       .type = Type::number,
       .fallback = "1",
       .min = 1e-30,
       .max = 1e30,
       .doc = "factor on the logits"},
      {.path = r + ".logit_softcap",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .max = 1e30,
       .doc = "bound that tanh puts on the logits; 0 is none"},
      {.path = r + ".jitter_eps",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .max = 1e30,
       .doc = "half the tolerance of sparsemixer"},
  };
}

Table weighing_keys() {
  const std::string r = "spec.layers[].routing";
  return {
      {.path = r + ".routed_scale",
       .type = Type::number,
       .fallback = "1",
       .min = 1e-30,
       .max = 1e30,
       .doc = "factor on what the routed experts give"},
      {.path = r + ".scale_on",
       .type = Type::word,
       .fallback = "weights",
       .words = {"weights", "output"},
       .doc = "where the factor is applied"},
      {.path = r + ".selection_bias",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether a bias per expert is added for the choice, but not for the weights"},
      {.path = r + ".selection_bias_on",
       .type = Type::word,
       .fallback = "scores",
       .words = {"scores", "logits"},
       .doc = "what that bias is added to"},
      {.path = r + ".gate_bias",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether logits have a bias"},
      {.path = r + ".expert_scale",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether weights are multiplied by a factor of the expert"},
      {.path = r + ".input",
       .type = Type::word,
       .fallback = "plain",
       .words = {"plain", "unit"},
       .doc = "what the router reads: plain rows, or rows of length 1 times a learned scale"},
      {.path = r + ".input_eps",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .max = 1e30,
       .doc = "added to the mean square of such a row"},
  };
}

Table group_keys() {
  const std::string r = "spec.layers[].routing";
  return {
      {.path = r + ".num_groups",
       .type = Type::integer,
       .fallback = "1",
       .min = 1,
       .max = kMaxExperts,
       .doc = "groups that the experts are cut into; 1 is no grouping"},
      {.path = r + ".top_groups",
       .type = Type::integer,
       .fallback = "1",
       .min = 1,
       .max = kMaxExperts,
       .doc = "groups that stay in the choice"},
      {.path = r + ".group_score",
       .type = Type::word,
       .words = group_score_names(),
       .doc = "a group's score: its best expert's, or the sum of its two best (of what there is, "
              "in groups of one)"},
  };
}

Table shared_keys() {
  const std::string s = "spec.layers[].shared_experts";
  return {
      {.path = s,
       .type = Type::map,
       .doc = "experts that every token visits; none without this key"},
      {.path = s + ".count",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxExperts,
       .doc = "how many there are"},
      {.path = s + ".intermediate_size",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxWidth,
       .doc = "their width, all of them together"},
      {.path = s + ".sigmoid_gate",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether their output is multiplied by the sigmoid of a gate"},
      {.path = s + ".combine",
       .type = Type::word,
       .fallback = "sum",
       .words = {"sum", "average"},
       .doc = "how routed and shared output come together"},
  };
}

}  // namespace

const Table& model_table() {
  static const Table table = [] {
    Table all = head_table("Model");
    for (const Table& part : {model_keys(), quantization_keys(), layer_keys(),
                              activation_keys("spec.layers[].activation", ""), routing_keys(),
                              scoring_keys(), weighing_keys(), group_keys(), shared_keys(),
                              activation_keys("spec.layers[].shared_experts.activation",
                                              "their own; without it, the layer's")})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

}  // namespace moert::config
