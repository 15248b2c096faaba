// Shapes of a layer's tensors, and windows into them.
// SPDX-License-Identifier: Apache-2.0
#include "weights/layout.hpp"

#include <algorithm>

#include <moert/abi/moe_runner.h>
#include <moert/abi/quant_method.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>
#include <moert/error.hpp>

#include "weights/companions.hpp"
#include "weights/plan.hpp"
#include "weights/scale_window.hpp"

namespace moert::weights {
namespace {

using spec::Target;

Extent extent_of(const spec::Model& model, const spec::MoELayer& layer, Target target,
                 uint32_t part) {
  const bool shared = target == Target::shared;
  const int64_t h = shared || layer.latent_size == 0 ? model.hidden_size : layer.latent_size;
  const int64_t i = shared ? layer.shared->intermediate_size : layer.intermediate_size;
  return part == MOERT_PART_DOWN ? Extent{h, i} : Extent{i, h};
}

std::vector<std::vector<int64_t>> router_shapes(const spec::Model& model,
                                                const spec::MoELayer& layer,
                                                const spec::TensorRule& rule) {
  const int64_t e = layer.routing.rows(), h = model.hidden_size;
  switch (rule.parts[0]) {
    case MOERT_ROUTER_GATE_WEIGHT:
      if (rule.transposed) return {{h, e}};
      return {{e, h}};
    case MOERT_ROUTER_INPUT_SCALE: return {{h}, {1, h}};
    case MOERT_ROUTER_TOKEN_TABLE: return {{-1, layer.routing.top_k}};
    default: return {{e}, {1, e}};
  }
}

std::vector<std::vector<int64_t>> layer_shapes(const spec::Model& model,
                                               const spec::MoELayer& layer,
                                               const spec::TensorRule& rule) {
  const int64_t h = model.hidden_size, inner = layer.latent_size != 0 ? layer.latent_size : h;
  const auto matrix = [&rule](int64_t out, int64_t in) {
    return rule.transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in};
  };
  switch (rule.parts[0]) {
    case MOERT_PART_LATENT_DOWN: return {matrix(inner, h)};
    case MOERT_PART_LATENT_UP: return {matrix(h, inner)};
    case MOERT_PART_EXPERT_NORM: return {{inner}};
    default: return {{h}};
  }
}

bool is_vector(const Source& source) {
  if (source.target == Target::router)
    return source.part != MOERT_ROUTER_GATE_WEIGHT && source.part != MOERT_ROUTER_TOKEN_TABLE;
  return !is_matrix(source.target, source.part, source.role);
}

// Of the elements, where bytes hold two each, in one row or in groups of 32.
std::vector<int64_t> element_shape(const Source& source, const Format* format) {
  std::vector<int64_t> shape = source.tensor->shape;
  if (format == nullptr || format->storage != Format::nibbles ||
      source.tensor->dtype == MOERT_DTYPE_F4_E2M1)
    return shape;
  shape.back() *= 2;
  const size_t plain = source.rule->stacked && !source.rule->flat ? 3 : 2;
  if (shape.size() > plain) {
    const int64_t group = shape.back();
    shape.pop_back();
    shape.back() *= group;
  }
  return shape;
}

Window window_of(const Source& source, const Format* format) {
  const spec::TensorRule& rule = *source.rule;
  const std::vector<int64_t> shape = element_shape(source, format);
  const auto halves = static_cast<int64_t>(rule.parts.size());
  const auto half =
      std::find(rule.parts.begin(), rule.parts.end(), source.part) - rule.parts.begin();
  const int64_t step = rule.interleaved ? halves : 1;
  if (is_vector(source)) {
    const int64_t all = shape.back(), out = all / halves;
    return {{out},
            {step},
            (rule.stacked ? source.expert * all : 0) + half * (rule.interleaved ? 1 : out)};
  }
  const int64_t rows = rule.flat ? shape[0] / source.experts : shape[shape.size() - 2];
  const int64_t columns = shape.back();
  const int64_t all = rule.transposed ? columns : rows;
  const int64_t in = rule.transposed ? rows : columns;
  const int64_t out = all / halves;
  const int64_t stride_out = rule.transposed ? 1 : in, stride_in = rule.transposed ? all : 1;
  const int64_t skipped = half * (rule.interleaved ? 1 : out);
  return {{out, in},
          {step * stride_out, stride_in},
          (rule.stacked ? source.expert * rows * columns : 0) + skipped * stride_out};
}

}  // namespace

Need need_of(const spec::MoELayer& layer, Target target, uint32_t part, uint32_t role) {
  const spec::Routing& routing = layer.routing;
  const auto if_set = [](bool set, const char* reason) {
    return set ? Need{} : Need{Need::unwanted, reason};
  };
  if (target == Target::router) {
    switch (part) {
      case MOERT_ROUTER_GATE_WEIGHT: return {};
      case MOERT_ROUTER_GATE_BIAS: return if_set(routing.gate_bias, "the model's gate has no bias");
      case MOERT_ROUTER_SELECTION_BIAS:
        return if_set(routing.selection_bias, "the model's routing has no selection bias");
      case MOERT_ROUTER_EXPERT_SCALE:
        return if_set(routing.expert_scale, "the model's experts have no scale");
      case MOERT_ROUTER_INPUT_SCALE:
        return if_set(routing.unit_input, "the model's router reads rows as they are");
      default:
        return if_set(routing.method == "hash", "the layer does not route by a table of tokens");
    }
  }
  if (target == Target::layer) {
    switch (part) {
      case MOERT_PART_EXPERT_NORM:
        return if_set(layer.expert_norm != "none", "the model's experts have no norm");
      case MOERT_PART_OUTPUT_BIAS:
        return if_set(layer.output_bias, "the model's layers have no output bias");
      default: return if_set(layer.latent_size != 0, "the model's experts have no latent width");
    }
  }
  if (target == Target::shared && !layer.shared)
    return {Need::unwanted, "the layer has no shared experts"};
  if (target == Target::shared && part == MOERT_PART_SIGMOID_GATE)
    return if_set(layer.shared->sigmoid_gate && role == MOERT_ROLE_WEIGHT,
                  "the model's shared experts have no such sigmoid gate");
  if (part == MOERT_PART_GATE && !layer.gated)
    return {Need::unwanted, "the model's experts have no gate"};
  if (role != MOERT_ROLE_BIAS) return {};
  if (!layer.bias) return {Need::unwanted, "the model's experts have no biases"};
  return {};
}

bool is_matrix(Target target, uint32_t part, uint32_t role) {
  if (target == Target::layer) return part < MOERT_PART_EXPERT_NORM;
  return target != Target::router && role == MOERT_ROLE_WEIGHT && part <= MOERT_PART_DOWN;
}

bool is_packed_dtype(uint32_t dtype) {
  return dtype == MOERT_DTYPE_U8 || dtype == MOERT_DTYPE_I8 || dtype == MOERT_DTYPE_I32;
}

void add_packed_shapes(uint32_t dtype, const spec::TensorRule& rule,
                       std::vector<std::vector<int64_t>>* shapes) {
  if (!is_packed_dtype(dtype) || rule.transposed || rule.parts[0] > MOERT_PART_DOWN) return;
  std::vector<int64_t> shape = shapes->front();
  const int64_t in = shape.back();
  if (dtype == MOERT_DTYPE_I32) {
    if (rule.stacked) return;
    const auto eighths = [](int64_t size) { return size / 8 + (size % 8 != 0 ? 1 : 0); };
    const int64_t out = shape.front();
    shapes->insert(shapes->end(), {{out, eighths(in)}, {eighths(in), out}, {in, eighths(out)}});
    return;
  }
  if (in % 2 != 0) return;
  shape.back() = in / 2;
  shapes->push_back(shape);
  if (in % 32 != 0) return;
  shape.back() = in / 32;
  shape.push_back(16);
  shapes->push_back(shape);
}

Extent weight_extent(const spec::Model& model, const spec::MoELayer& layer,
                     const spec::TensorRule& rule) {
  if (rule.target == Target::layer) {
    const int64_t inner = layer.latent_size != 0 ? layer.latent_size : model.hidden_size;
    return rule.parts[0] == MOERT_PART_LATENT_DOWN ? Extent{inner, model.hidden_size}
                                                   : Extent{model.hidden_size, inner};
  }
  Extent extent = extent_of(model, layer, rule.target, rule.parts[0]);
  extent.out *= static_cast<int64_t>(rule.parts.size());
  return extent;
}

std::vector<std::vector<int64_t>> expected_shapes(const spec::Model& model,
                                                  const spec::MoELayer& layer,
                                                  const spec::TensorRule& rule) {
  if (rule.target == Target::router) return router_shapes(model, layer, rule);
  if (rule.target == Target::layer) return layer_shapes(model, layer, rule);
  if (rule.parts[0] == MOERT_PART_SIGMOID_GATE)
    return {{1, model.hidden_size}, {model.hidden_size}};
  const Extent extent = extent_of(model, layer, rule.target, rule.parts[0]);
  const int64_t out = extent.out * static_cast<int64_t>(rule.parts.size());
  std::vector<int64_t> shape;
  const int64_t experts = layer.routing.num_experts;
  if (rule.flat)
    return {{experts * (rule.transposed ? extent.in : out), rule.transposed ? out : extent.in}};
  if (rule.stacked) shape.push_back(experts);
  if (rule.role == MOERT_ROLE_BIAS) {
    shape.push_back(out);
  } else {
    shape.push_back(rule.transposed ? extent.in : out);
    shape.push_back(rule.transposed ? out : extent.in);
  }
  return {shape};
}

std::string part_text(Target target, int64_t expert, uint32_t part, uint32_t role) {
  if (target == Target::router) {
    constexpr const char* kNames[] = {"gate",         "gate bias",   "selection bias",
                                      "expert scale", "input scale", "token table"};
    return std::string("router, ") + kNames[part];
  }
  constexpr const char* kNames[] = {"gate",        "up",        "down",        "sigmoid gate",
                                    "latent down", "latent up", "expert norm", "output bias"};
  if (target == Target::layer) return kNames[part];
  return (target == Target::shared ? std::string("shared experts, ")
                                   : "expert " + std::to_string(expert) + ", ") +
         kNames[part] + (role == MOERT_ROLE_BIAS ? ", bias" : "");
}

namespace {

moert::TensorView view_of(const Checkpoint& checkpoint, const TensorInfo& tensor,
                          const Window& window, uint32_t dtype, uint32_t flags = 0) {
  const moert::TensorView all = checkpoint.view(tensor);
  const int bits = dtype_bits(dtype);
  int64_t extent = 1;  // elements from the first to the last one
  for (size_t d = 0; d < window.shape.size(); ++d)
    extent += (window.shape[d] - 1) * window.strides[d];
  if (window.first * bits % 8 != 0)
    throw Error(Fault::input, "the part does not begin at a whole byte", checkpoint.place(tensor),
                "store each expert's part in a tensor of its own");
  auto* data = static_cast<std::byte*>(all.get()->data) + window.first * bits / 8;
  moert::TensorView view(data, dtype, window.shape.data(),
                         static_cast<uint32_t>(window.shape.size()),
                         MOERT_TENSOR_READ_ONLY | flags);
  const uint64_t bytes = dtype_bytes(dtype, extent);
  for (uint32_t d = 0; d < window.shape.size(); ++d) view.set_stride(d, window.strides[d], bytes);
  return view;
}

// One expert's [out, in], its halves together.
Extent extent_in_file(const Source& source, const Format& format) {
  const std::vector<int64_t> shape = element_shape(source, &format);
  const size_t last = shape.size() - 1;
  Extent extent = {shape[last - 1], shape[last]};
  if (source.rule->flat) extent.out /= source.experts;
  if (source.rule->transposed) std::swap(extent.out, extent.in);
  return extent;
}

}  // namespace

moert::TensorView source_view(const Checkpoint& checkpoint, const Source& source,
                              const Format* format) {
  const bool whole = (source.target == Target::router && source.part == MOERT_ROUTER_TOKEN_TABLE) ||
                     (format != nullptr && format->storage == Format::whole);
  if (whole) return checkpoint.view(*source.tensor);
  return view_of(
      checkpoint, *source.tensor, window_of(source, format),
      format != nullptr ? format->dtype : source.tensor->dtype,
      format != nullptr && format->high_first ? uint32_t{MOERT_TENSOR_HIGH_NIBBLE_FIRST} : 0u);
}

moert::TensorView companion_view(const Checkpoint& checkpoint, const Source& source,
                                 const Format& format, const Companion& companion) {
  const bool is_scale = companion.param == MOERT_PARAM_SCALE;
  const bool is_number =
      companion.param == MOERT_PARAM_SCALE2 || companion.param == MOERT_PARAM_INPUT_SCALE;
  if (format.storage == Format::whole || (!is_scale && !is_number))
    return checkpoint.view(*companion.tensor);
  const Extent extent = extent_in_file(source, format);
  const spec::TensorRule& rule = *source.rule;
  const auto half =
      std::find(rule.parts.begin(), rule.parts.end(), source.part) - rule.parts.begin();
  const ScaleGrid grid = {&rule, extent.out, extent.in, source.experts,
                          is_scale ? format.block : BlockSize{}};
  Window window;
  std::string problem;
  if (!scale_window(companion.tensor->shape, grid, rule.stacked ? source.expert : 0, half, &window,
                    &problem))
    throw Error(Fault::input, "the " + std::string(param_text(companion.param)) + " " + problem,
                checkpoint.place(*companion.tensor),
                "the file is damaged, or belongs to another model");
  return view_of(checkpoint, *companion.tensor, window,
                 is_scale ? format.scale_dtype : companion.tensor->dtype);
}

}  // namespace moert::weights
