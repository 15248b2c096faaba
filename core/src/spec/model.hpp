// What a model is, resolved: the same facts whether they came from a config.json or a Model YAML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace moert::spec {

// How a layer picks experts. Words as in abi/router.h.
struct Routing {
  std::string method = "topk";
  std::string scoring = "softmax";  // "softmax" | "sigmoid"
  int64_t num_experts = 0;
  int64_t top_k = 0;
  bool renormalize = false;
  double renormalize_eps = 0;
  double routed_scale = 1;
  bool scale_on_output = false;  // where routed_scale is applied: weights, or the summed output
  bool selection_bias = false;
  bool gate_bias = false;
  int64_t num_groups = 1;  // 1: not grouped
  int64_t top_groups = 1;
  std::string group_score;  // "max" | "top2_sum"; empty unless grouped

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

  bool operator==(const SharedExperts&) const = default;
};

struct MoELayer {
  int64_t layer_id = 0;
  int64_t intermediate_size = 0;  // of one routed expert
  bool gated = true;
  bool bias = false;
  std::string scheme;  // weight format; empty: as the checkpoint's tensors say
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
  std::string dtype;             // "bf16" ...: what the config says; the files decide
  std::vector<MoELayer> layers;  // MoE layers, rising layer_id; empty: a dense model
  std::vector<int64_t> dense_layers;
  // quantity -> where its value came from, e.g. "num_experts" -> "config.json: num_experts",
  // "scoring" -> "family olmoe". For `explain` and `model inspect`.
  std::map<std::string, std::string> origin;
};

}  // namespace moert::spec
