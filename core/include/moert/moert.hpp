// The runtime for programs that embed it: open plugins, load a checkpoint's MoE layers, run them, see
// where the tokens went.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <moert/error.hpp>

#define MOERT_API __attribute__((visibility("default")))

namespace moert {

// Every function throws moert::Error. Objects are used by one thread at a time; different objects may
// be used by different threads.

struct RuntimeOptions {
  std::vector<std::string> plugin_path;  // folders or files, searched before the installed ones
  std::vector<std::string> plugins;      // short names allowed; empty: all
  std::vector<std::string> families;     // folders of family files; empty: the installed ones
  int32_t threads = 0;                   // 0: as many as processors
  std::string log = "warn";              // level or areas, as --log
};

struct ModelOptions {
  std::string device = "auto";                // "cpu", "cuda:0" ...
  std::vector<std::string> prefer;            // plugins by short name, best first
  std::map<std::string, std::string> layers;  // pins: "routed_experts" -> "cpu.ref"
  bool fallback_next = false;                 // may a preferred plugin's refusal be passed over?
  int64_t max_tokens = 512;                   // most rows of one forward
  std::string dtype;  // of rows in and out: "f32", "bf16", "f16"; empty: the model's
};

struct LayerInfo {
  int64_t layer_id;  // the model's own number
  int64_t hidden_size, intermediate_size, num_experts, top_k;
  int64_t zero_experts;  // ids from num_experts on, whose experts return their input
  bool needs_token_ids;  // routes by the tokens' numbers: see ForwardOptions
  std::string scheme;    // weight format
  std::map<std::string, std::string> candidates;  // what serves it: "routed_experts" -> "cpu.ref"
};

// Decisions of one forward, row-major [tokens, top_k]; ids are the model's own (logical) experts, -1 in
// padded rows.
struct RoutingResult {
  int64_t tokens = 0, top_k = 0;
  std::vector<int32_t> ids;
  std::vector<float> weights;
  std::vector<float> margins;  // [tokens]: score of the last chosen minus the best left out
};

struct ForwardOptions {
  const int32_t* forced_ids = nullptr;  // [tokens, top_k] host: replay; a row of -1 routes as usual
  const uint8_t* valid = nullptr;       // [tokens] host: 0 marks a padded row
  const int64_t* token_ids = nullptr;   // [tokens] host: numbers in the model's vocabulary
};

class Model;

// The opened plugins. Outlives its models. Libraries stay mapped until the process ends.
class MOERT_API Runtime {
 public:
  explicit Runtime(const RuntimeOptions& options = {});
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();

  // A checkpoint folder, or a Model YAML file.
  Model load(const std::string& path, const ModelOptions& options = {});

 private:
  friend class Model;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A model's MoE layers with their weights.
class MOERT_API Model {
 public:
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const std::vector<LayerInfo>& layers() const;
  // Rows `hidden` [tokens, hidden_size] through one layer into `out`, both on the host, dense, of the
  // model's dtype. 0 tokens is fine.
  void forward(int64_t layer_id, const void* hidden, int64_t tokens, void* out,
               RoutingResult* routing = nullptr, const ForwardOptions& options = {});
  // Tokens that went to each expert of a layer since it was loaded or last reset.
  std::vector<int64_t> load_statistics(int64_t layer_id, bool reset = false);
  // The decision tables of all layers.
  std::string explain() const;

 private:
  friend class Runtime;
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moert
