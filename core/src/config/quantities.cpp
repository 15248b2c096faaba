// The table of quantities. A new spelling is a line of YAML; a new quantity is a line here and its use
// in resolve.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "config/quantities.hpp"

#include <algorithm>

namespace moert::config {

namespace {

using K = QuantityKind;
using List = std::vector<Quantity>;

// Of the model.
List sizes() {
  return {
      {"num_layers", K::count, false, "number of layers, dense ones included"},
      {"extra_layers", K::size, false, "layers of multi-token prediction after the last one", "0"},
      {"hidden_size", K::count, false, "H: width of a token's row"},
      {"dtype", K::word, false, "type of the weights"},
      {"moe_enabled", K::flag, false, "whether the model has experts at all", "true"},
      {"num_experts", K::count, true, "E: routed experts of a layer"},
      {"top_k", K::count, true, "k: experts that a token visits"},
      {"intermediate_size", K::count, true, "I: width of one routed expert"},
  };
}

// Of one expert.
List experts() {
  return {
      {"gated", K::flag, false, "whether experts have a gate matrix", "true"},
      {"bias", K::flag, false, "whether experts have biases", "false"},
      {"activation", K::word, false, "function between an expert's projections"},
      {"activation_alpha", K::real, false, "parameter of the activation", "0"},
      {"activation_beta", K::real, false, "parameter of the activation", "0"},
      {"activation_limit", K::real, true, "clamp of the activation; 0 is none", "0"},
      {"limited_activation", K::word, false,
       "function of the layers that have a limit, where it is another one"},
      {"weight_on_input", K::flag, false, "whether routing weights multiply what experts read",
       "false"},
  };
}

// How a token's experts are chosen and weighed.
List routing() {
  return {
      {"routing_method", K::word, false, "rule of choice", "topk"},
      {"scoring", K::word, false, "from logits to scores"},
      {"logit_scale", K::real, false, "factor on the logits", "1"},
      {"logit_softcap", K::real, false, "bound that tanh puts on the logits; 0 is none", "0"},
      {"jitter_eps", K::real, false, "half the tolerance of sparsemixer", "0.01"},
      {"renormalize", K::flag, false, "whether weights are divided by their sum"},
      {"renormalize_eps", K::real, false, "added to that sum", "0"},
      {"renormalize_floor", K::real, false, "least value of that sum", "0"},
      {"renormalize_least_k", K::count, false, "with fewer experts per token weights stay", "1"},
      {"routed_scale", K::real, false, "factor on what the routed experts give", "1"},
      {"scale_on", K::word, false, "where the factor is applied: weights or output", "weights"},
      {"selection_bias", K::flag, false, "whether a bias per expert enters the choice", "false"},
      {"selection_bias_on", K::word, false, "what that bias is added to: scores or logits",
       "scores"},
      {"gate_bias", K::flag, false, "whether logits have a bias", "false"},
      {"expert_scale", K::flag, false, "whether weights are multiplied by a factor of the expert",
       "false"},
      {"router_input", K::word, false, "what the router reads: plain rows, or of unit length",
       "plain"},
      {"router_input_eps", K::real, false, "added to the mean square of such a row", "0"},
      {"grouped", K::flag, false, "whether groups are looked at", "true"},
      {"num_groups", K::count, false, "groups that the experts are cut into", "1"},
      {"top_groups", K::count, false, "groups that stay in the choice", "1"},
      {"group_score", K::word, false, "how a group is scored"},
  };
}

// What stands beside and around the experts.
List around() {
  return {
      {"zero_experts", K::size, false, "experts after the real ones, which return their input",
       "0"},
      {"zero_expert_type", K::word, false, "what those do", "identity"},
      {"hash_layers", K::size, false, "MoE layers, from the first, that route by a table of tokens",
       "0"},
      {"latent_size", K::size, false, "width in which experts work; 0 is hidden_size", "0"},
      {"expert_norm", K::word, false, "RMS norm of what experts read (in) or give (out)", "none"},
      {"expert_norm_eps", K::real, false, "added to the mean square of such a row", "0"},
      {"output_bias", K::flag, false, "whether a bias is added to the routed output", "false"},
      {"shared_count", K::size, true, "shared experts"},
      {"shared_width", K::size, true, "width of all shared experts together"},
      {"shared_each", K::size, true,
       "width of one shared expert; without it and shared_width, intermediate_size"},
      {"shared_sigmoid_gate", K::flag, false, "whether the shared output has a sigmoid gate",
       "false"},
      {"shared_limit", K::real, true,
       "clamp of the shared experts' activation; without it, activation_limit"},
      {"shared_combine", K::word, false, "whether routed and shared output are a sum or an average",
       "sum"},
  };
}

// Which layers have experts, and how they are stored.
List layers() {
  return {
      {"first_dense", K::size, false, "layers below this one are dense"},
      {"layer_freq", K::pattern, false,
       "layer i has experts if i is a multiple, or if entry i of the list is 1"},
      {"sparse_step", K::count, false, "layer i has experts if i + 1 is a multiple"},
      {"dense_list", K::layer_list, false, "layers that are dense"},
      {"layer_period", K::count, false,
       "layer i has experts if i leaves the remainder layer_offset"},
      {"layer_offset", K::size, false, "see layer_period", "0"},
      {"layer_start", K::size, false, "first layer that has experts"},
      {"layer_end", K::last_layer, false, "last layer that has experts; -1 is the model's last"},
      {"moe_list", K::layer_list, false, "layers that have experts"},
      {"layer_words", K::layer_words, false, "what each layer is: dense, experts or hash"},
      {"expert_scheme", K::word, false,
       "weight format of the routed experts alone, beside quantization_config"},
  };
}

}  // namespace

const std::vector<Quantity>& quantities() {
  static const List table = [] {
    List all;
    for (const List& part : {sizes(), experts(), routing(), around(), layers()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

const Quantity& quantity(std::string_view name) {
  return *std::find_if(quantities().begin(), quantities().end(),
                       [&](const Quantity& q) { return q.name == name; });
}

}  // namespace moert::config
