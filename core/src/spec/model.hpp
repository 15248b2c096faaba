// What a model is, resolved: the same facts whether they came from a config.json or a Model YAML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "spec/quantization.hpp"

namespace moert::spec {

// How a layer picks experts. Words as in abi/router.h.
struct Routing {
  std::string method = "topk";      // "topk", "hash", "sparsemixer", "group_topk", "simulated"
  std::string scoring = "softmax";  // "softmax", "softmax_topk", "sigmoid", "sqrtsoftplus"
  int64_t num_experts = 0;
  int64_t zero_experts = 0;  // further rows of the router, whose experts return their input
  int64_t top_k = 0;
  double logit_scale = 1;
  double logit_softcap = 0;  // 0: none
  double jitter_eps = 0;     // sparsemixer's
  bool renormalize = false;
  double renormalize_eps = 0;    // added to the sum
  double renormalize_floor = 0;  // least divisor
  double routed_scale = 1;
  bool scale_on_output = false;  // where routed_scale is applied: weights, or the summed output
  bool selection_bias = false;
  bool bias_on_logits = false;  // the selection bias is added to logits, not to scores
  bool gate_bias = false;
  bool expert_scale = false;  // weights are multiplied by a learned factor of the expert
  bool unit_input = false;    // the router reads rows of length 1 times a learned scale
  double unit_input_eps = 0;
  int64_t num_groups = 1;  // 1: not grouped
  int64_t top_groups = 1;
  std::string group_score;   // "max" | "top2_sum"; empty unless groups are chosen
  std::string distribution;  // of simulated: "uniform", "normal", "zipf"
  int64_t seed = 0;          // of simulated

  int64_t rows() const { return num_experts + zero_experts; }  // of the gate, and of logits
  bool operator==(const Routing&) const = default;
};

struct Activation {
  std::string name = "silu";
  double alpha = 0, beta = 0, limit = 0;

  bool operator==(const Activation&) const = default;
};

struct SharedExperts {
  int64_t count = 0;
  int64_t intermediate_size = 0;  // of all of them together
  bool sigmoid_gate = false;
  bool average = false;   // routed and shared output are averaged, not summed
  Activation activation;  // their own: its limit may differ from the routed experts'

  bool operator==(const SharedExperts&) const = default;
};

struct MoELayer {
  int64_t layer_id = 0;
  int64_t intermediate_size = 0;  // of one routed expert
  bool gated = true;
  bool bias = false;
  bool weight_on_input = false;  // the routing weight multiplies what an expert reads
  bool output_bias = false;      // a bias is added to the routed output
  int64_t latent_size = 0;       // width in which experts work; 0: hidden_size
  // RMS norm in that width: "in", of the rows that experts read; "out", of those that they give.
  std::string expert_norm = "none";
  double expert_norm_eps = 0;
  std::string scheme;  // that the experts' weights must have; empty: what their tensors say
  Routing routing;
  Activation activation;
  std::optional<SharedExperts> shared;

  bool same_but_for_id(const MoELayer& other) const {
    MoELayer copy = other;
    copy.layer_id = layer_id;
    return copy == *this;
  }
  bool operator==(const MoELayer&) const = default;
};

struct Model {
  std::string name;
  std::string family;
  std::filesystem::path checkpoint;  // folder, absolute
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t extra_layers = 0;                  // of multi-token prediction after them; never run
  bool speaks_of_experts = false;            // the config does, whether or not any layer has them
  std::string dtype;                         // "bf16" ...: what the config says; the files decide
  std::optional<Quantization> quantization;  // announced; nullopt: nothing is
  std::vector<MoELayer> layers;              // MoE layers, rising layer_id; empty: a dense model
  std::vector<int64_t> dense_layers;
  std::vector<std::string> unsupported;  // why it cannot be run; it is described nevertheless
  // quantity -> where its value came from, e.g. "num_experts" -> "config.json: num_experts",
  // "scoring" -> "family olmoe". For `explain` and `model inspect`.
  std::map<std::string, std::string> origin;
};

}  // namespace moert::spec
