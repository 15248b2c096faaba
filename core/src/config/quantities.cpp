// The table of quantities. A new spelling is a line of YAML; a new quantity is a line here and its use
// in resolve.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "config/quantities.hpp"

#include <algorithm>

namespace moert::config {

const std::vector<Quantity>& quantities() {
  using K = QuantityKind;
  static const std::vector<Quantity> table = {
      {"num_layers", K::count, false, "number of layers, dense ones included"},
      {"hidden_size", K::count, false, "H: width of a token's row"},
      {"dtype", K::word, false, "type of the weights"},
      {"num_experts", K::count, true, "E: routed experts of a layer"},
      {"top_k", K::count, true, "k: experts that a token visits"},
      {"intermediate_size", K::count, true, "I: width of one routed expert"},
      {"gated", K::flag, false, "whether experts have a gate matrix"},
      {"bias", K::flag, false, "whether experts have biases"},
      {"activation", K::word, false, "function between an expert's projections"},
      {"activation_alpha", K::real, false, "parameter of the activation"},
      {"activation_beta", K::real, false, "parameter of the activation"},
      {"activation_limit", K::real, false, "clamp of the activation; 0 is none"},
      {"scoring", K::word, false, "from logits to scores"},
      {"renormalize", K::flag, false, "whether weights are divided by their sum"},
      {"renormalize_eps", K::real, false, "added to that sum"},
      {"routed_scale", K::real, false, "factor on what the routed experts give"},
      {"scale_on", K::word, false, "where the factor is applied: weights or output"},
      {"selection_bias", K::flag, false, "whether a bias per expert enters the choice"},
      {"gate_bias", K::flag, false, "whether logits have a bias"},
      {"num_groups", K::count, false, "groups that the experts are cut into"},
      {"top_groups", K::count, false, "groups that stay in the choice"},
      {"group_score", K::word, false, "how a group is scored"},
      {"shared_count", K::size, true, "shared experts"},
      {"shared_width", K::size, true,
       "width of all shared experts together; without it, count times intermediate_size"},
      {"shared_sigmoid_gate", K::flag, false, "whether the shared output has a sigmoid gate"},
      {"first_dense", K::size, false, "layers below this one are dense"},
      {"layer_freq", K::pattern, false,
       "layer i has experts if i is a multiple, or if entry i of the list is 1"},
      {"sparse_step", K::count, false, "layer i has experts if i + 1 is a multiple"},
      {"dense_list", K::layer_list, false, "layers that are dense"},
      {"scheme", K::word, false, "weight format that the config announces"},
  };
  return table;
}

const Quantity& quantity(std::string_view name) {
  return *std::find_if(quantities().begin(), quantities().end(),
                       [&](const Quantity& q) { return q.name == name; });
}

}  // namespace moert::config
