// The files of a run: rows that go in, numbers to compare with, results that come out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "capture/capture_info.hpp"
#include "runtime/forward_context.hpp"
#include "spec/run.hpp"
#include "weights/safetensors.hpp"

namespace moert::runtime {

// "layers.3.output"
std::string layer_name(int64_t layer_id, const char* what);

// A tensor of an input or golden file, with the shape that it must have; -1 stands for any size. Throws
// Error(input).
const weights::TensorInfo& need(const weights::Checkpoint& file, const std::string& name,
                                const std::vector<int64_t>& shape);
std::vector<float> read_floats(const weights::Checkpoint& file, const weights::TensorInfo& info);
// i32 or i64 numbers, -1 for none; `what` they are of, for messages: "expert", "token".
std::vector<int32_t> read_ids(const weights::Checkpoint& file, const weights::TensorInfo& info,
                              const std::string& what);

// Layers with equally many rows; their rows are the same tokens.
struct RowGroup {
  std::vector<capture::RowKey> keys;
  std::vector<size_t> layers;  // indices
};

// What goes into each layer.
struct Inputs {
  Inputs(const spec::Run& run, const spec::Model& model);

  weights::Checkpoint file;
  std::vector<const weights::TensorInfo*> hidden;  // per MoE layer
  std::vector<std::vector<int64_t>> token_ids;     // per MoE layer; empty where it needs none
  std::vector<RowGroup> groups;                    // longest first
  int64_t max_tokens = 0;
  uint32_t dtype = 0;

 private:
  std::vector<int64_t> read_token_ids(const spec::MoELayer& layer, int64_t tokens) const;
  void group_layers();
  std::vector<capture::RowKey> read_keys(int64_t tokens, int64_t group) const;
};

// Results that will be written; the writer borrows, so they live until then.
struct Outputs {
  struct Layer {
    std::vector<std::byte> output;
    Routing routing;
  };
  std::vector<Layer> layers;

  void write(const Model& model, const std::filesystem::path& path) const;
};

}  // namespace moert::runtime
