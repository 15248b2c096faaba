// A layer's spec as the records that plugins are asked with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <moert/abi/moe_runner.h>

#include "spec/model.hpp"

namespace moert::runtime {

// How a layer will be run, beyond what the model says.
struct LayerSetting {
  moert_device_id_t device{};
  int64_t max_tokens = 0;
  uint32_t dtype = 0;  // of hidden rows in and out, MOERT_DTYPE_*
  std::string scheme;  // of the expert weights
  std::string shared_scheme;
  std::string layer_scheme;                                     // of the layer's own matrices
  std::string act_scheme = "none", shared_act_scheme = "none";  // how rows are quantised
  std::string device_word{};                                    // Device::word
};

// Owns the records and every text and sub-record that they point to; immovable.
class LayerProblem {
 public:
  LayerProblem(const spec::Model& model, const spec::MoELayer& layer, const LayerSetting& setting);
  LayerProblem(const LayerProblem&) = delete;
  LayerProblem& operator=(const LayerProblem&) = delete;

  const moert_moe_problem_t& experts() const { return experts_; }
  const moert_routing_t& routing() const { return routing_; }
  const moert_shared_problem_t* shared() const { return has_shared_ ? &shared_ : nullptr; }
  const moert_moe_layer_t& layer() const { return layer_; }

 private:
  void fill_layer(const spec::Model& model);
  void fill_params(const spec::Model& model);
  void fill_experts(const spec::Model& model);
  void fill_routing(const spec::Model& model);
  void fill_shared(const spec::Model& model);

  spec::MoELayer spec_;
  LayerSetting setting_;
  bool has_shared_ = false;
  void param(const char* key, const std::string& value);
  void param(const char* key, double value);
  static moert_activation_t activation_of(const spec::Activation& from);

  moert_activation_t activation_{}, shared_activation_{};
  std::vector<std::pair<std::string, std::string>> param_texts_;
  std::vector<moert_kv_t> params_;
  moert_moe_problem_t experts_{};
  moert_routing_t routing_{};
  moert_shared_problem_t shared_{};
  moert_moe_layer_t layer_{};
};

}  // namespace moert::runtime
