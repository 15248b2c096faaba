// A model ready to run: its layers' runners with their weights, or only the choice of candidates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.hpp"
#include "runtime/fused_moe.hpp"
#include "runtime/piece_loading.hpp"
#include "runtime/session.hpp"
#include "spec/family.hpp"
#include "spec/model.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {

struct ModelSettings {
  std::string device = "auto";
  ChoiceSettings choice;
  std::string quant = "from-checkpoint";  // or the scheme that the checkpoint must have
  std::string simulate;  // made-up routing: "uniform", "normal", "zipf"; empty: none
  int64_t seed = 0;      // of it
  int64_t max_tokens = 1;
  uint32_t dtype = 0;  // of hidden rows, MOERT_DTYPE_*; 0: the experts' own float type, else bf16
};

// Throws Error(refused) with the reasons for which a model is described but not run.
void require_supported(const spec::Model& model);

// Outlived by its session. One thread at a time.
class Model {
 public:
  // Reads the checkpoint's headers, accounts for every tensor and asks the candidates. Throws
  // Error(input) if the checkpoint does not fit the model, Error(usage) if `quant` contradicts it,
  // Error(device). Nobody accepting is not an error yet: see choices().
  Model(Session& session, spec::Model spec, spec::Tensors rules, const ModelSettings& settings);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  const spec::Model& spec() const { return spec_; }
  const weights::Checkpoint& checkpoint() const { return checkpoint_; }
  const weights::Plan& plan() const { return plan_; }
  const Device& device() const { return device_; }
  const std::vector<LayerChoice>& choices() const { return choices_; }
  uint32_t dtype() const { return dtype_; }
  // The distribution of made-up routing; empty where the model's own rules choose.
  std::string simulated() const;

  // Builds every layer and streams its weights in; experts by all threads of the session's pool, each at
  // most one, where the candidates allow it. Throws Error(refused) with the table where nobody
  // accepts; Error(input) that names the tensor.
  void load(const Progress& progress = {});
  bool loaded() const { return !runners_.empty() || spec_.layers.empty(); }

  size_t num_layers() const { return spec_.layers.size(); }
  const spec::MoELayer& layer(size_t index) const { return spec_.layers.at(index); }
  const Runner& runner(size_t index) const { return runners_.at(index); }
  // Token numbers that every table of a layer that routes by them knows; 0: no layer does.
  int64_t vocabulary() const;
  // Index of the model's own layer number, or -1.
  int64_t index_of(int64_t layer_id) const;

 private:
  void load_layer(size_t index, LoadProgress& progress);
  void choose(size_t index, const ModelSettings& settings);

  Session& session_;
  spec::Model spec_;
  spec::Tensors rules_;
  weights::Checkpoint checkpoint_;
  weights::Plan plan_;
  Device device_;
  uint32_t dtype_ = 0;
  std::vector<LayerChoice> choices_;
  std::vector<Quant> quants_;  // outlive the runners, which quantise rows by them
  std::vector<Runner> runners_;
};

}  // namespace moert::runtime
