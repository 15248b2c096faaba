// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer_problem.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace moert::runtime {

namespace {

uint32_t flag_if(bool condition, uint32_t flag) { return condition ? flag : 0; }

}  // namespace

LayerProblem::LayerProblem(const spec::Model& model, const spec::MoELayer& layer,
                           const LayerSetting& setting)
    : spec_(layer), setting_(setting), has_shared_(layer.shared.has_value()) {
  activation_ = activation_of(spec_.activation);
  fill_layer(model);
  fill_experts(model);
  fill_routing(model);
  if (has_shared_) fill_shared(model);
  layer_.experts = &experts_;
  layer_.routing = &routing_;
  layer_.shared = shared();
  layer_.weight_scheme = setting_.scheme.c_str();
}

moert_activation_t LayerProblem::activation_of(const spec::Activation& from) {
  return {sizeof(moert_activation_t), 0, from.name.c_str(), from.alpha, from.beta, from.limit};
}

void LayerProblem::fill_layer(const spec::Model& model) {
  const bool average = has_shared_ && spec_.shared->average;
  layer_.struct_size = sizeof layer_;
  layer_.flags = flag_if(spec_.routing.zero_experts != 0, MOERT_LAYER_ZERO_EXPERTS) |
                 flag_if(spec_.latent_size != 0, MOERT_LAYER_LATENT) |
                 flag_if(spec_.expert_norm == "in", MOERT_LAYER_NORM_IN) |
                 flag_if(spec_.expert_norm == "out", MOERT_LAYER_NORM_OUT) |
                 flag_if(spec_.output_bias, MOERT_LAYER_OUTPUT_BIAS) |
                 flag_if(average, MOERT_LAYER_SHARED_SCALE);
  layer_.output_scale = spec_.routing.scale_on_output ? spec_.routing.routed_scale : 1.0;
  if (average) layer_.output_scale *= 0.5;
  layer_.shared_scale = average ? 0.5 : 0.0;
  layer_.norm_eps = spec_.expert_norm_eps;
  layer_.hidden_size = model.hidden_size;
}

void LayerProblem::fill_experts(const spec::Model& model) {
  moert_moe_problem_t& p = experts_;
  p.struct_size = sizeof p;
  p.flags = flag_if(!spec_.gated, MOERT_PROBLEM_NON_GATED) |
            flag_if(spec_.bias, MOERT_PROBLEM_BIAS) |
            flag_if(spec_.weight_on_input, MOERT_PROBLEM_WEIGHT_ON_INPUT);
  p.device = setting_.device;
  p.layer_id = spec_.layer_id;
  p.max_tokens = setting_.max_tokens;
  p.hidden_size = spec_.latent_size != 0 ? spec_.latent_size : model.hidden_size;
  p.intermediate_size = spec_.intermediate_size;
  p.num_experts = p.num_physical_experts = p.num_local_experts = spec_.routing.num_experts;
  p.top_k = spec_.routing.top_k;
  p.activation_dtype = setting_.dtype;
  // Where something is still to be added or multiplied, the experts give f32 and the sum is rounded
  // once.
  const bool more_to_do = has_shared_ || layer_.output_scale != 1.0 || layer_.flags != 0;
  p.output_dtype = more_to_do ? static_cast<uint32_t>(MOERT_DTYPE_F32) : setting_.dtype;
  p.weight_scheme = setting_.scheme.c_str();
  p.act_scheme = setting_.act_scheme.c_str();
  p.activation = &activation_;
  p.ep_size = 1;
  p.tp_size = 1;
}

void LayerProblem::fill_routing(const spec::Model& model) {
  const spec::Routing& from = spec_.routing;
  moert_routing_t& r = routing_;
  r.struct_size = sizeof r;
  const bool grouped = !from.group_score.empty() || from.method == "group_topk";
  r.flags = flag_if(from.renormalize, MOERT_ROUTING_RENORMALIZE) |
            flag_if(from.selection_bias, MOERT_ROUTING_SELECTION_BIAS) |
            flag_if(from.bias_on_logits, MOERT_ROUTING_BIAS_ON_LOGITS) |
            flag_if(grouped, MOERT_ROUTING_GROUPED) |
            flag_if(from.gate_bias, MOERT_ROUTING_GATE_BIAS) |
            flag_if(from.method == "hash", MOERT_ROUTING_NEEDS_TOKEN_IDS) |
            flag_if(from.expert_scale, MOERT_ROUTING_EXPERT_SCALE) |
            flag_if(from.unit_input, MOERT_ROUTING_INPUT_NORM);
  r.device = setting_.device;
  r.layer_id = spec_.layer_id;
  r.max_tokens = setting_.max_tokens;
  r.hidden_size = model.hidden_size;
  r.num_experts = from.rows();
  r.top_k = from.top_k;
  r.activation_dtype = setting_.dtype;
  r.method = spec_.routing.method.c_str();
  r.scoring = spec_.routing.scoring.c_str();
  r.group_score = from.group_score.empty() ? nullptr : spec_.routing.group_score.c_str();
  r.num_groups = grouped ? from.num_groups : 0;
  r.top_groups = grouped ? from.top_groups : 0;
  r.routed_scale = from.scale_on_output ? 1.0 : from.routed_scale;
  r.renormalize_eps = from.renormalize_eps;
  fill_params(model);
}

// Only what differs from a rule without it: a router need not know what it need not do.
void LayerProblem::fill_params(const spec::Model& model) {
  const spec::Routing& from = spec_.routing;
  if (from.logit_scale != 1) param("logit_scale", from.logit_scale);
  if (from.logit_softcap != 0) param("logit_softcap", from.logit_softcap);
  if (from.renormalize_floor != 0) param("renormalize_floor", from.renormalize_floor);
  if (from.method == "sparsemixer") param("jitter_eps", from.jitter_eps);
  if (from.unit_input) {
    param("input_norm_eps", from.unit_input_eps);
    param("input_gain", 1 / std::sqrt(static_cast<double>(model.hidden_size)));
  }
  if (from.method == "simulated") {
    param("distribution", from.distribution);
    param("seed", std::to_string(from.seed));
  }
  for (const auto& [key, value] : param_texts_) params_.push_back({key.c_str(), value.c_str()});
  routing_.params = params_.data();
  routing_.n_params = static_cast<uint32_t>(params_.size());
}

void LayerProblem::param(const char* key, const std::string& value) {
  param_texts_.emplace_back(key, value);
}

// The shortest text that reads back as the same number, whatever the locale.
void LayerProblem::param(const char* key, double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  param(key, std::string(digits.data(), end.ptr));
}

void LayerProblem::fill_shared(const spec::Model& model) {
  moert_shared_problem_t& s = shared_;
  s.struct_size = sizeof s;
  s.flags = flag_if(spec_.shared->sigmoid_gate, MOERT_SHARED_SIGMOID_GATE) |
            flag_if(!spec_.gated, MOERT_SHARED_NON_GATED) | flag_if(spec_.bias, MOERT_SHARED_BIAS);
  s.device = setting_.device;
  s.layer_id = spec_.layer_id;
  s.max_tokens = setting_.max_tokens;
  s.hidden_size = model.hidden_size;
  s.intermediate_size = spec_.shared->intermediate_size;
  s.activation_dtype = setting_.dtype;
  s.output_dtype = MOERT_DTYPE_F32;
  s.weight_scheme = setting_.shared_scheme.c_str();
  s.act_scheme = setting_.shared_act_scheme.c_str();
  shared_activation_ = activation_of(spec_.shared->activation);
  s.activation = &shared_activation_;
  s.tp_size = 1;
}

}  // namespace moert::runtime
