// Small checkpoints made on the spot, and a layer of them run through the real plugins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include <moert/error.hpp>

#include "config/config.hpp"
#include "runtime/forward_context.hpp"
#include "runtime/model.hpp"
#include "runtime/session.hpp"
#include "weights/safetensors.hpp"

namespace moert::bugs {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The plugins of this build; one session for the whole program.
inline runtime::Session& session() {
  static runtime::Session it{[] {
    runtime::SessionOptions options;
    options.threads = 2;
    return options;
  }()};
  return it;
}

inline const config::Families& families() {
  static const config::Families it =
      config::Families::load({fs::path(MOERT_SOURCE_DIR) / "configs/families"});
  return it;
}

// Named after the running test, and a number.
inline fs::path fresh_folder() {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  static int count = 0;
  std::string name =
      std::string("moert_") + test->test_suite_name() + test->name() + std::to_string(count++);
  std::replace(name.begin(), name.end(), '/', '_');
  fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// A checkpoint folder under construction. Weights are f32, seeded by their names.
class Tiny {
 public:
  Json config;
  std::map<std::string, Tensor> tensors;

  void random(const std::string& name, std::vector<int64_t> shape, float scale = 0.5f) {
    std::mt19937 generator(static_cast<uint32_t>(std::hash<std::string>{}(name)));
    std::normal_distribution<float> normal(0, scale);
    Tensor tensor{std::move(shape), {}};
    size_t n = 1;
    for (const int64_t d : tensor.shape) n *= static_cast<size_t>(d);
    tensor.values.resize(n);
    for (float& v : tensor.values) v = normal(generator);
    tensors[name] = std::move(tensor);
  }
  void set(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    tensors[name] = {std::move(shape), std::move(values)};
  }

  // Writes config.json and model.safetensors to a fresh folder.
  fs::path save() const {
    const fs::path folder = fresh_folder();
    write_text_file(folder / "config.json", config.dump(1));
    weights::SafetensorsWriter writer;
    for (const auto& [tensor_name, tensor] : tensors)
      writer.add(tensor_name, MOERT_DTYPE_F32, tensor.shape, tensor.values.data());
    writer.write(folder / "model.safetensors");
    return folder;
  }
};

struct Sizes {
  int64_t experts = 4, top_k = 2, hidden = 6, intermediate = 5, layers = 1;
};

inline void add_mlp(Tiny& tiny, const std::string& prefix, int64_t hidden, int64_t intermediate) {
  tiny.random(prefix + "gate_proj.weight", {intermediate, hidden});
  tiny.random(prefix + "up_proj.weight", {intermediate, hidden});
  tiny.random(prefix + "down_proj.weight", {hidden, intermediate});
}

inline void add_experts(Tiny& tiny, int64_t layer, const Sizes& s) {
  const std::string mlp = "model.layers." + std::to_string(layer) + ".mlp.";
  tiny.random(mlp + "gate.weight", {s.experts, s.hidden});
  for (int64_t e = 0; e < s.experts; ++e)
    add_mlp(tiny, mlp + "experts." + std::to_string(e) + ".", s.hidden, s.intermediate);
}

// Softmax, weights not renormalised.
inline Tiny olmoe(const Sizes& s = {}) {
  Tiny tiny;
  tiny.config = {{"model_type", "olmoe"},
                 {"hidden_size", s.hidden},
                 {"intermediate_size", s.intermediate},
                 {"num_hidden_layers", s.layers},
                 {"num_experts", s.experts},
                 {"num_experts_per_tok", s.top_k},
                 {"norm_topk_prob", false},
                 {"hidden_act", "silu"},
                 {"torch_dtype", "float32"}};
  for (int64_t layer = 0; layer < s.layers; ++layer) add_experts(tiny, layer, s);
  return tiny;
}

// Sigmoid, selection bias, groups, no shared experts; every layer has experts.
inline Tiny deepseek(const Sizes& s, int64_t groups, int64_t top_groups) {
  Tiny tiny;
  tiny.config = {{"model_type", "deepseek_v3"},
                 {"hidden_size", s.hidden},
                 {"intermediate_size", 11},
                 {"moe_intermediate_size", s.intermediate},
                 {"num_hidden_layers", s.layers},
                 {"n_routed_experts", s.experts},
                 {"num_experts_per_tok", s.top_k},
                 {"n_group", groups},
                 {"topk_group", top_groups},
                 {"first_k_dense_replace", 0},
                 {"moe_layer_freq", 1},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"},
                 {"norm_topk_prob", false},
                 {"routed_scaling_factor", 1.0},
                 {"hidden_act", "silu"},
                 {"torch_dtype", "float32"}};
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    add_experts(tiny, layer, s);
    tiny.set("model.layers." + std::to_string(layer) + ".mlp.gate.e_score_correction_bias",
             {s.experts}, std::vector<float>(static_cast<size_t>(s.experts), 0.0f));
  }
  return tiny;
}

// A loaded model and what one of its layers made of some rows.
class Loaded {
 public:
  explicit Loaded(const fs::path& folder, int64_t max_tokens = 64,
                  const std::function<void(spec::Model&)>& change = {}) {
    spec::Model spec = families().resolve(folder);
    if (change) change(spec);
    runtime::ModelSettings settings;
    settings.device = "cpu";
    settings.max_tokens = max_tokens;
    settings.dtype = MOERT_DTYPE_F32;
    spec::Tensors rules = families().tensors(spec);
    model_ =
        std::make_unique<runtime::Model>(session(), std::move(spec), std::move(rules), settings);
    model_->load();
    context_ = std::make_unique<runtime::ForwardContext>(*model_, max_tokens);
  }
  explicit Loaded(const Tiny& tiny, int64_t max_tokens = 64) : Loaded(tiny.save(), max_tokens) {}

  const spec::Model& spec() const { return model_->spec(); }
  const runtime::Model& model() const { return *model_; }
  runtime::ForwardContext& context() { return *context_; }

  std::vector<float> forward(const std::vector<float>& hidden, size_t layer = 0) {
    const int64_t width = model_->spec().hidden_size;
    const auto tokens = static_cast<int64_t>(hidden.size()) / width;
    std::vector<float> out(hidden.size(), -99);
    context_->set_hidden(hidden.data(), tokens);
    context_->forward(layer);
    context_->read_output(out.data());
    context_->read_routing(layer, routing, true);
    return out;
  }
  runtime::Routing routing;  // of the last forward

 private:
  std::unique_ptr<runtime::Model> model_;
  std::unique_ptr<runtime::ForwardContext> context_;
};

inline std::vector<float> random_rows(int64_t tokens, int64_t width, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<size_t>(tokens * width));
  for (float& v : rows) v = normal(generator);
  return rows;
}

// The Error that `body` throws; fails the test if it throws none.
inline Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(Fault::check, "no error", "", "");
}

inline void expect_text(const Error& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in:\n"
                                                                       << error.what();
}

}  // namespace moert::bugs
