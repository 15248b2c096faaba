// One layer of experts, its weights encoded by a quant method, and forwards of it on the device or in host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/device.h>
#include <moert/abi/routed_experts.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/quant_plugin.hpp"

namespace moert::gpu {

struct LayerCase {
  const char* label = "";
  const char* scheme = "bf16";
  const char* word = "none";  // act_scheme
  uint32_t dtype = MOERT_DTYPE_BF16;
  uint32_t flags = 0;  // MOERT_PROBLEM_*
  int64_t hidden = 64, intermediate = 96, experts = 4, top_k = 2;
  bool divides = false;
  double tolerance = 0.02;     // of a row's difference, relative to the row
  const char* gemm = nullptr;  // option of that name

  bool gated() const { return (flags & MOERT_PROBLEM_NON_GATED) == 0; }
};

// A weight as its format keeps it.
class EncodedWeight {
 public:
  // `quant` outlives it. `input_scale` is stored where the format has one.
  EncodedWeight(const QuantObject& quant, const char* scheme, const std::vector<float>& numbers,
                int64_t rows, int64_t cols, float input_scale, bool quantises);
  const moert_tensor_t* tensor() const { return views_[MOERT_PARAM_WEIGHT]->get(); }

 private:
  std::vector<unsigned char> bytes_[6];
  std::unique_ptr<TensorView> views_[6];
  moert_quant_view_t quant_{};
};

struct LayerWeights {
  // Experts' input scales are a power of two and a half times (1 + expert).
  LayerWeights(const LayerCase& c, const QuantObject& quant, uint64_t seed);
  static float input_scale(const LayerCase& c, int64_t expert, uint32_t part);
  std::vector<std::unique_ptr<EncodedWeight>> weights;  // [experts, parts]
};

struct LayerBatch {
  LayerBatch(const LayerCase& c, int64_t tokens, uint64_t seed);
  LayerBatch row(const LayerCase& c, int64_t t) const;
  int64_t tokens;
  std::vector<unsigned char> hidden;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

// An implementation bound to a case; `device` NULL: in host memory.
class Layer {
 public:
  Layer(const LayerCase& c, const moert_routed_experts_t& table, const moert_device_t* device,
        uint32_t device_kind, int32_t ordinal = 0);
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  moert_code_t load(const LayerWeights& weights, const QuantObject& quant, int64_t expert,
                    uint32_t part, moert_error_t* error);
  void load_all(const LayerWeights& weights, const QuantObject& quant);
  void finish();
  // f32 [tokens, hidden]; waits for it.
  std::vector<float> forward(const LayerBatch& batch);
  std::vector<float> forward_by_graph(const LayerBatch& batch);
  // What the last forward's synchronisation said; it must say nothing unless that is set.
  bool expects_fault = false;
  std::string fault;

  const moert_routed_experts_t& table;
  void* self = nullptr;
  moert_stream_t stream{};
  moert_support_t support{};

 private:
  struct Buffers;
  std::unique_ptr<Buffers> upload(const LayerBatch& batch);
  std::vector<float> download(const Buffers& buffers, int64_t tokens);
  const LayerCase& c_;
  const moert_device_t* device_;
};

}  // namespace moert::gpu
