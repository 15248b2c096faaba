// One layer of experts, its weights encoded by a quant method, and forwards of it on the device or in host memory.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "gpu/expert_rig.hpp"

namespace moert::gpu {

EncodedWeight::EncodedWeight(const QuantObject& quant, const char* scheme,
                             const std::vector<float>& numbers, int64_t rows, int64_t cols,
                             float input_scale, bool quantises) {
  moert_quant_param_t params[6]{};
  uint32_t count = 0;
  must("parameters", [&](auto* e) {
    return quant.table().parameters(quant.self(), rows, cols, params, 6, &count, e);
  });
  for (uint32_t i = 0; i < count; ++i) {
    const moert_quant_param_t& p = params[i];
    int64_t n = 1;
    for (uint32_t d = 0; d < p.rank; ++d) n *= p.shape[d];
    bytes_[p.param].resize(dtype_bytes(p.dtype, n));
    views_[p.param] =
        std::make_unique<TensorView>(bytes_[p.param].data(), p.dtype, p.shape, p.rank, 0u);
    if (p.param == MOERT_PARAM_INPUT_SCALE)
      std::memcpy(bytes_[p.param].data(), &input_scale, sizeof input_scale);
  }
  const auto view = [&](uint32_t param) { return views_[param] ? views_[param]->get() : nullptr; };
  quant_.struct_size = sizeof quant_;
  quant_.flags = quantises ? uint32_t{MOERT_QUANT_ROWS} : 0u;
  quant_.scheme = scheme;
  quant_.layout = "canonical";
  quant_.scale = view(MOERT_PARAM_SCALE);
  quant_.scale2 = view(MOERT_PARAM_SCALE2);
  quant_.input_scale = view(MOERT_PARAM_INPUT_SCALE);
  views_[MOERT_PARAM_WEIGHT]->set_quant(&quant_);
  const TensorView source(static_cast<const void*>(numbers.data()), MOERT_DTYPE_F32, {rows, cols});
  must("encode", [&](auto* e) { return quant.table().encode(quant.self(), source, tensor(), e); });
}

float LayerWeights::input_scale(const LayerCase& c, int64_t expert, uint32_t part) {
  const float scale = 0.01f * static_cast<float>(1 + expert + (part == MOERT_PART_DOWN ? 3 : 0));
  return c.divides ? 1 / scale : scale;
}

LayerWeights::LayerWeights(const LayerCase& c, const QuantObject& quant, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
  for (int64_t expert = 0; expert < c.experts; ++expert)
    for (uint32_t part = 0; part < 3; ++part) {
      const int64_t rows = part == MOERT_PART_DOWN ? c.hidden : c.intermediate;
      const int64_t cols = part == MOERT_PART_DOWN ? c.intermediate : c.hidden;
      std::vector<float> numbers(static_cast<size_t>(rows * cols));
      for (float& x : numbers) x = uniform(random);
      weights.push_back(std::make_unique<EncodedWeight>(quant, c.scheme, numbers, rows, cols,
                                                        input_scale(c, expert, part),
                                                        std::string_view(c.word) != "none"));
    }
}

LayerBatch::LayerBatch(const LayerCase& c, int64_t count, uint64_t seed) : tokens(count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  const auto size = static_cast<size_t>(dtype_bytes(c.dtype, 1));
  hidden.resize(static_cast<size_t>(tokens * c.hidden) * size);
  for (int64_t i = 0; i < tokens * c.hidden; ++i) {
    const float x = normal(random);
    const uint16_t narrow = c.dtype == MOERT_DTYPE_BF16 ? f32_to_bf16(x) : f32_to_f16(x);
    std::memcpy(&hidden[static_cast<size_t>(i) * size],
                size == 2 ? static_cast<const void*>(&narrow) : &x, size);
  }
  for (int64_t slot = 0; slot < tokens * c.top_k; ++slot) {
    ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(c.experts + 1)) - 1);
    weights.push_back(0.25f + 0.5f * static_cast<float>(random() % 1000) / 1000);
  }
}

LayerBatch LayerBatch::row(const LayerCase& c, int64_t t) const {
  LayerBatch one = *this;
  const auto bytes = static_cast<std::ptrdiff_t>(dtype_bytes(c.dtype, c.hidden));
  one.tokens = 1;
  one.hidden.assign(hidden.begin() + t * bytes, hidden.begin() + (t + 1) * bytes);
  one.ids.assign(ids.begin() + t * c.top_k, ids.begin() + (t + 1) * c.top_k);
  one.weights.assign(weights.begin() + t * c.top_k, weights.begin() + (t + 1) * c.top_k);
  return one;
}

Layer::Layer(const LayerCase& c, const moert_routed_experts_t& of, const moert_device_t* device,
             uint32_t device_kind, int32_t ordinal)
    : table(of), c_(c), device_(device) {
  stream = {sizeof stream, 0, {device_kind, ordinal}, nullptr};
  if (device != nullptr)
    must("stream_create", [&](auto* e) { return device->stream_create(ordinal, &stream, e); });
  moert_activation_t activation{};
  activation.struct_size = sizeof activation;
  activation.name = "silu";
  moert_moe_problem_t p{};
  p.struct_size = sizeof p;
  p.flags = c.flags;
  p.device = stream.device;
  p.max_tokens = 1 << 20;
  p.hidden_size = c.hidden;
  p.intermediate_size = c.intermediate;
  p.num_experts = p.num_physical_experts = p.num_local_experts = c.experts;
  p.top_k = c.top_k;
  p.activation_dtype = c.dtype;
  p.output_dtype = MOERT_DTYPE_F32;
  p.weight_scheme = c.scheme;
  p.act_scheme = c.word;
  p.activation = &activation;
  p.ep_size = p.tp_size = 1;
  support.struct_size = sizeof support;
  must("supports", [&](auto* e) { return table.supports(&test_host(), &p, &support, e); });
  EXPECT_EQ(support.verdict, 1) << support.reason;
  const moert_kv_t gemm = {"gemm", c.gemm};
  const uint32_t options = c.gemm == nullptr ? 0 : 1;
  must("create", [&](auto* e) { return table.create(&test_host(), &p, &gemm, options, &self, e); });
}

Layer::~Layer() {
  if (self != nullptr) table.destroy(self);
  if (device_ != nullptr) device_->stream_destroy(&stream);
}

moert_code_t Layer::load(const LayerWeights& weights, const QuantObject& quant, int64_t expert,
                         uint32_t part, moert_error_t* error) {
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  piece.expert = expert;
  piece.part = part;
  piece.role = MOERT_ROLE_WEIGHT;
  piece.tensor = weights.weights[static_cast<size_t>(expert * 3) + part]->tensor();
  piece.quant = &quant.table();
  piece.quant_self = quant.self();
  return table.load(self, &piece, error);
}

void Layer::load_all(const LayerWeights& weights, const QuantObject& quant) {
  for (int64_t expert = 0; expert < c_.experts; ++expert)
    for (uint32_t part = c_.gated() ? 0 : 1; part < 3; ++part)
      must("load", [&](auto* e) { return load(weights, quant, expert, part, e); });
}

void Layer::finish() {
  must("finish", [&](auto* e) { return table.finish(self, e); });
}

// A batch where the implementation reads it. On the device, or in host memory as it is.
struct Layer::Buffers {
  Buffers(const moert_device_t* on, int32_t of) : device(on), ordinal(of) {}
  ~Buffers() {
    for (void* p : pointers)
      if (device != nullptr)
        device->free(ordinal, p);
      else
        std::free(p);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  void* take(uint64_t bytes, const void* from, const moert_stream_t* on) {
    void* p = nullptr;
    if (device == nullptr) {
      p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
      if (from != nullptr) std::memcpy(p, from, bytes);
    } else {
      must("alloc", [&](auto* e) { return device->alloc(ordinal, bytes, &p, e); });
      if (from != nullptr)
        must("copy", [&](auto* e) { return device->copy_to_device(on, p, from, bytes, e); });
    }
    pointers.push_back(p);
    return p;
  }
  const moert_device_t* device;
  int32_t ordinal;
  std::vector<void*> pointers;
  std::vector<TensorView> views;
  moert_experts_args_t args{};
  void* out = nullptr;
};

std::unique_ptr<Layer::Buffers> Layer::upload(const LayerBatch& batch) {
  auto made = std::make_unique<Buffers>(device_, stream.device.ordinal);
  const auto put = [&](const auto& from) {
    return made->take(from.size() * sizeof(from[0]), from.data(), &stream);
  };
  void* hidden = put(batch.hidden);
  void* ids = put(batch.ids);
  void* weights = put(batch.weights);
  made->out = made->take(static_cast<uint64_t>(batch.tokens * c_.hidden) * 4, nullptr, &stream);
  made->views = {TensorView(hidden, c_.dtype, {batch.tokens, c_.hidden}),
                 TensorView(ids, MOERT_DTYPE_I32, {batch.tokens, c_.top_k}),
                 TensorView(weights, MOERT_DTYPE_F32, {batch.tokens, c_.top_k}),
                 TensorView(made->out, MOERT_DTYPE_F32, {batch.tokens, c_.hidden})};
  for (TensorView& view : made->views) view.set_device(stream.device);
  moert_experts_args_t& args = made->args;
  args.struct_size = sizeof args;
  args.stream = &stream;
  args.hidden = made->views[0];
  args.ids = made->views[1];
  args.weights = made->views[2];
  args.out = made->views[3];
  must("workspace",
       [&](auto* e) { return table.workspace(self, batch.tokens, &args.workspace_bytes, e); });
  args.workspace = made->take(args.workspace_bytes, nullptr, &stream);
  return made;
}

std::vector<float> Layer::download(const Buffers& buffers, int64_t tokens) {
  std::vector<float> out(static_cast<size_t>(tokens * c_.hidden));
  if (device_ == nullptr) {
    std::memcpy(out.data(), buffers.out, out.size() * 4);
    return out;
  }
  must("copy", [&](auto* e) {
    return device_->copy_to_host(&stream, out.data(), buffers.out, out.size() * 4, e);
  });
  TestError error;
  const moert_code_t code = device_->stream_synchronize(&stream, &error.record);
  fault = code == MOERT_OK ? "" : error.record.message;
  EXPECT_EQ(code, expects_fault ? MOERT_INVALID_ARGUMENT : MOERT_OK) << fault;
  return out;
}

std::vector<float> Layer::forward(const LayerBatch& batch) {
  const auto buffers = upload(batch);
  must("forward", [&](auto* e) { return table.forward(self, &buffers->args, e); });
  return download(*buffers, batch.tokens);
}

std::vector<float> Layer::forward_by_graph(const LayerBatch& batch) {
  const auto buffers = upload(batch);
  void* graph = nullptr;
  must("graph_begin", [&](auto* e) { return device_->graph_begin(&stream, e); });
  must("forward", [&](auto* e) { return table.forward(self, &buffers->args, e); });
  must("graph_end", [&](auto* e) { return device_->graph_end(&stream, &graph, e); });
  for (int run = 0; run < 2; ++run)
    must("graph_launch", [&](auto* e) { return device_->graph_launch(&stream, graph, e); });
  std::vector<float> out = download(*buffers, batch.tokens);
  device_->graph_destroy(stream.device.ordinal, graph);
  return out;
}

}  // namespace moert::gpu
