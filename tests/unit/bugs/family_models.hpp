// Configs and names of some families, with experts from plain_layer.hpp. One layer unless sizes say
// more; every layer has the same experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plain_layer.hpp"

namespace moert::bugs {

inline void put_identity(Tiny& tiny, const std::string& name, int64_t n) {
  std::vector<float> gate(static_cast<size_t>(n * n), 0.0f);
  for (int64_t i = 0; i < n; ++i) gate[static_cast<size_t>(i * n + i)] = 1;
  tiny.set(name, {n, n}, std::move(gate));
}

// The language model's part inside a multimodal release, as all of Qwen3-VL, Qwen3.5 and Gemma 4 are.
inline Tiny multimodal(const std::string& type, const Json& text) {
  Tiny tiny;
  tiny.config = {{"model_type", type}, {"text_config", text}};
  tiny.config["text_config"]["model_type"] = type + "_text";
  tiny.config["text_config"]["dtype"] = "float32";
  return tiny;
}

// Qwen3.5 or Qwen3-VL, without the experts. `shared` is the shared expert's width, 0 for none.
inline Tiny qwen(const std::string& type, const Sizes& s, int64_t shared = 0) {
  Tiny tiny = multimodal(type, {{"hidden_size", s.hidden},
                                {"intermediate_size", 7},
                                {"moe_intermediate_size", s.intermediate},
                                {"num_hidden_layers", s.layers},
                                {"num_experts", s.experts},
                                {"num_experts_per_tok", s.top_k},
                                {"decoder_sparse_step", 1},
                                {"mlp_only_layers", Json::array()},
                                {"hidden_act", "silu"}});
  if (shared > 0) tiny.config["text_config"]["shared_expert_intermediate_size"] = shared;
  const std::string mlp = "model.language_model.layers.0.mlp.";
  tiny.random(mlp + "gate.weight", {s.experts, s.hidden});
  if (shared == 0) return tiny;
  put_expert(tiny, mlp + "shared_expert.", plain_expert(s.hidden, shared, 77), s.hidden);
  tiny.random(mlp + "shared_expert_gate.weight", {1, s.hidden});
  return tiny;
}

// Gemma 4, which writes top_k_experts and nothing else.
inline Tiny gemma4(const Sizes& s) {
  Tiny tiny = multimodal("gemma4", {{"enable_moe_block", true},
                                    {"hidden_size", s.hidden},
                                    {"intermediate_size", 7},
                                    {"moe_intermediate_size", s.intermediate},
                                    {"num_hidden_layers", s.layers},
                                    {"num_experts", s.experts},
                                    {"top_k_experts", s.top_k},
                                    {"rms_norm_eps", 1e-6},
                                    {"hidden_activation", "gelu_pytorch_tanh"}});
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string place = "model.language_model.layers." + std::to_string(layer) + ".";
    tiny.random(place + "router.proj.weight", {s.experts, s.hidden});
    const auto ones = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n), 1.0f); };
    tiny.set(place + "router.scale", {s.hidden}, ones(s.hidden));
    tiny.set(place + "router.per_expert_scale", {s.experts}, ones(s.experts));
    tiny.set(place + "pre_feedforward_layernorm_2.weight", {s.hidden}, ones(s.hidden));
    put_stacked(tiny, place + "experts.", plain_experts(s), s);
  }
  return tiny;
}

// LongCat-Flash with `zero` experts that return their input.
inline Tiny longcat(const Sizes& s, int64_t zero) {
  Tiny tiny;
  tiny.config = {{"model_type", "longcat_flash"},
                 {"hidden_size", s.hidden},
                 {"expert_ffn_hidden_size", s.intermediate},
                 {"num_layers", s.layers},
                 {"n_routed_experts", s.experts},
                 {"zero_expert_num", zero},
                 {"moe_topk", s.top_k},
                 {"routed_scaling_factor", 1.0},
                 {"hidden_act", "silu"},
                 {"dtype", "float32"}};
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string mlp = "model.layers." + std::to_string(layer) + ".mlp.";
    tiny.random(mlp + "router.classifier.weight", {s.experts + zero, s.hidden});
    tiny.set(mlp + "router.e_score_correction_bias", {s.experts + zero},
             std::vector<float>(static_cast<size_t>(s.experts + zero), 0.0f));
    put_per_expert(tiny, mlp + "experts.", plain_experts(s), s.hidden);
  }
  return tiny;
}

// A config of the older kind: everything on one level, the experts' width is intermediate_size.
inline Json flat_config(const std::string& type, const Sizes& s, const std::string& top_k) {
  return {{"model_type", type},
          {"hidden_size", s.hidden},
          {"intermediate_size", s.intermediate},
          {"num_hidden_layers", s.layers},
          {"num_local_experts", s.experts},
          {top_k, s.top_k},
          {"hidden_act", "silu"},
          {"dtype", "float32"}};
}

// Mixtral or Arctic, with a gate that passes rows on as logits: hidden size is the number of experts.
inline Tiny block_sparse(const std::string& type, const Sizes& s) {
  Tiny tiny;
  tiny.config = flat_config(type, s, "num_experts_per_tok");
  if (type == "arctic") tiny.config["moe_layer_frequency"] = 1;
  const std::string block = "model.layers.0.block_sparse_moe.";
  put_identity(tiny, block + "gate.weight", s.experts);
  put_per_expert(tiny, block + "experts.", plain_experts(s), s.hidden, {"w1", "w3", "w2"});
  return tiny;
}

inline Tiny granite(const Sizes& s) {
  Tiny tiny;
  tiny.config = flat_config("granitemoe", s, "num_experts_per_tok");
  const std::string block = "model.layers.0.block_sparse_moe.";
  put_identity(tiny, block + "router.layer.weight", s.experts);
  put_stacked(tiny, block, plain_experts(s), s,
              {.gate_up = "input_linear.weight", .down = "output_linear.weight"});
  return tiny;
}

}  // namespace moert::bugs
