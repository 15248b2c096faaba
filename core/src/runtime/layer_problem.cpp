// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer_problem.hpp"

namespace moert::runtime {

namespace {

uint32_t flag_if(bool condition, uint32_t flag) { return condition ? flag : 0; }

}  // namespace

LayerProblem::LayerProblem(const spec::Model& model, const spec::MoELayer& layer,
                           const LayerSetting& setting)
    : spec_(layer), setting_(setting), has_shared_(layer.shared.has_value()) {
  activation_ = {sizeof activation_,
                 0,
                 spec_.activation.name.c_str(),
                 spec_.activation.alpha,
                 spec_.activation.beta,
                 spec_.activation.limit};
  layer_.output_scale = spec_.routing.scale_on_output ? spec_.routing.routed_scale : 1.0;
  fill_experts(model);
  fill_routing(model);
  if (has_shared_) fill_shared(model);
  layer_.struct_size = sizeof layer_;
  layer_.experts = &experts_;
  layer_.routing = &routing_;
  layer_.shared = shared();
  layer_.weight_scheme = setting_.scheme.c_str();
}

void LayerProblem::fill_experts(const spec::Model& model) {
  moert_moe_problem_t& p = experts_;
  p.struct_size = sizeof p;
  p.flags =
      flag_if(!spec_.gated, MOERT_PROBLEM_NON_GATED) | flag_if(spec_.bias, MOERT_PROBLEM_BIAS);
  p.device = setting_.device;
  p.layer_id = spec_.layer_id;
  p.max_tokens = setting_.max_tokens;
  p.hidden_size = model.hidden_size;
  p.intermediate_size = spec_.intermediate_size;
  p.num_experts = p.num_physical_experts = p.num_local_experts = spec_.routing.num_experts;
  p.top_k = spec_.routing.top_k;
  p.activation_dtype = setting_.dtype;
  // Where something is still to be added or multiplied, the experts give f32 and the sum is rounded
  // once.
  const bool more_to_do = has_shared_ || layer_.output_scale != 1.0;
  p.output_dtype = more_to_do ? static_cast<uint32_t>(MOERT_DTYPE_F32) : setting_.dtype;
  p.weight_scheme = setting_.scheme.c_str();
  p.act_scheme = "none";
  p.activation = &activation_;
  p.ep_size = 1;
  p.tp_size = 1;
}

void LayerProblem::fill_routing(const spec::Model& model) {
  const spec::Routing& from = spec_.routing;
  moert_routing_t& r = routing_;
  r.struct_size = sizeof r;
  const bool grouped = !from.group_score.empty();
  r.flags = flag_if(from.renormalize, MOERT_ROUTING_RENORMALIZE) |
            flag_if(from.selection_bias, MOERT_ROUTING_SELECTION_BIAS) |
            flag_if(grouped, MOERT_ROUTING_GROUPED) |
            flag_if(from.gate_bias, MOERT_ROUTING_GATE_BIAS);
  r.device = setting_.device;
  r.layer_id = spec_.layer_id;
  r.max_tokens = setting_.max_tokens;
  r.hidden_size = model.hidden_size;
  r.num_experts = from.num_experts;
  r.top_k = from.top_k;
  r.activation_dtype = setting_.dtype;
  r.method = spec_.routing.method.c_str();
  r.scoring = spec_.routing.scoring.c_str();
  r.group_score = grouped ? spec_.routing.group_score.c_str() : nullptr;
  r.num_groups = grouped ? from.num_groups : 0;
  r.top_groups = grouped ? from.top_groups : 0;
  r.routed_scale = from.scale_on_output ? 1.0 : from.routed_scale;
  r.renormalize_eps = from.renormalize_eps;
}

void LayerProblem::fill_shared(const spec::Model& model) {
  moert_shared_problem_t& s = shared_;
  s.struct_size = sizeof s;
  s.flags = flag_if(spec_.shared->sigmoid_gate, MOERT_SHARED_SIGMOID_GATE) |
            flag_if(!spec_.gated, MOERT_SHARED_NON_GATED);
  s.device = setting_.device;
  s.layer_id = spec_.layer_id;
  s.max_tokens = setting_.max_tokens;
  s.hidden_size = model.hidden_size;
  s.intermediate_size = spec_.shared->intermediate_size;
  s.activation_dtype = setting_.dtype;
  s.output_dtype = MOERT_DTYPE_F32;
  s.weight_scheme = setting_.shared_scheme.c_str();
  s.activation = &activation_;
  s.tp_size = 1;
}

}  // namespace moert::runtime
