// moert.moe_runner/1 on a GPU: composes a router, routed experts and shared experts.
// SPDX-License-Identifier: Apache-2.0
#include "runner.hpp"

#include <moert/sdk/tensor.hpp>

#include <vector>

#include "../dense/numbers.hpp"
#include "../prepare.hpp"
#include "../runtime.hpp"
#include "../tensors.hpp"
#include "call_part.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kLayerFlags = MOERT_LAYER_ZERO_EXPERTS | MOERT_LAYER_LATENT |
                                 MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT |
                                 MOERT_LAYER_OUTPUT_BIAS | MOERT_LAYER_SHARED_SCALE;

bool has(const moert_moe_layer_t& layer, uint32_t flag) { return (layer.flags & flag) != 0; }

std::string rows_refusal(const moert_moe_layer_t& layer) {
  if (layer.hidden_size != 0 && layer.hidden_size != layer.experts->hidden_size &&
      !has(layer, MOERT_LAYER_LATENT))
    return "experts of width " + std::to_string(layer.experts->hidden_size) +
           " in a layer of width " + std::to_string(layer.hidden_size) + " without a latent width";
  if (has(layer, MOERT_LAYER_NORM_IN) && has(layer, MOERT_LAYER_NORM_OUT))
    return "norms of what experts read and of what they give, only one of them";
  if (!is_row_float(layer.experts->activation_dtype))
    return "hidden rows of type " + std::string(dtype_name(layer.experts->activation_dtype)) +
           ", only f32, bf16, f16";
  return {};
}

// Why this layer is not served here; empty if it is.
std::string refusal(const moert_moe_layer_t& layer) {
  if ((layer.flags & ~kLayerFlags) != 0)
    return "layer flag bits " + std::to_string(layer.flags & ~kLayerFlags) + " are not known here";
  if (layer.experts == nullptr || layer.routing == nullptr) return "the layer is incomplete";
  if (std::string reason = device_refusal(layer.experts->device); !reason.empty()) return reason;
  if (std::string reason = rows_refusal(layer); !reason.empty()) return reason;
  const bool more = layer.routing->num_experts > layer.experts->num_experts;
  if (more != has(layer, MOERT_LAYER_ZERO_EXPERTS))
    return "the router has " + std::to_string(layer.routing->num_experts) + " experts, the layer " +
           std::to_string(layer.experts->num_experts) +
           (more ? " and no zero experts" : " and zero experts");
  return {};
}

moert_moe_layer_t accepted(const moert_moe_layer_t& layer) {
  if (const std::string reason = refusal(layer); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return layer;
}

}  // namespace

Support GpuRunner::supports(const Host&, const moert_moe_layer_t& layer) {
  if (const std::string reason = refusal(layer); !reason.empty()) return Support::no(reason);
  return Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_CONCURRENT_LOAD |
                      MOERT_SUPPORT_GRAPH_SAFE);
}

GpuRunner::GpuRunner(const Host&, const moert_moe_layer_t& layer, const moert_moe_parts_t* parts,
                     const Options& options)
    : device_(accepted(layer).experts->device),
      space_(layer),
      layer_id_(layer.experts->layer_id),
      hidden_size_(space_.hidden_size()),
      top_k_(layer.experts->top_k),
      num_experts_(layer.experts->num_experts),
      num_ids_(layer.routing->num_experts),
      dtype_(layer.experts->activation_dtype),
      rounds_later_(layer.shared != nullptr || layer.output_scale != 1.0 || layer.flags != 0),
      output_scale_(layer.output_scale),
      shared_scale_(has(layer, MOERT_LAYER_SHARED_SCALE) ? layer.shared_scale : 1.0),
      activation_(layer.experts->activation->name),
      scheme_(layer.experts->weight_scheme),
      warp_(remembered_facts(device_.ordinal).warp),
      map_(device_.ordinal, num_experts_, num_ids_, layer.experts->num_local_experts),
      counts_(device_.ordinal, static_cast<uint64_t>(num_ids_) * sizeof(uint64_t),
              "counts of experts") {
  options.allow({});
  if (parts == nullptr || parts->router == nullptr || parts->experts == nullptr)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a modular runner needs a router and routed experts");
  if ((layer.shared != nullptr) != (parts->shared != nullptr))
    throw PluginError(MOERT_INVALID_ARGUMENT, "shared experts: the layer and the parts disagree");
  prepare_device(device_.ordinal);
  counts_.fill(0);
  parts_ = intake(parts);
}

GpuRunner::~GpuRunner() {
  if (parts_.shared != nullptr) parts_.shared->destroy(parts_.shared_self);
  if (parts_.experts != nullptr) parts_.experts->destroy(parts_.experts_self);
  if (parts_.router != nullptr) parts_.router->destroy(parts_.router_self);
}

void GpuRunner::load_expert(const moert_piece_t& piece) {
  call_part("load", parts_.experts->load, parts_.experts_self, &piece);
}

void GpuRunner::load_router(uint32_t which, const moert_tensor_t& tensor) {
  call_part("load", parts_.router->load, parts_.router_self, which, &tensor);
}

void GpuRunner::load_shared(const moert_piece_t& piece) {
  if (parts_.shared == nullptr)
    throw PluginError(MOERT_FAILED_PRECONDITION, "the layer has no shared experts");
  call_part("load", parts_.shared->load, parts_.shared_self, &piece);
}

void GpuRunner::load_layer(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  space_.load(piece);
}

void GpuRunner::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  space_.expect_complete();
  call_part("finish", parts_.router->finish, parts_.router_self);
  call_part("finish", parts_.experts->finish, parts_.experts_self);
  if (parts_.shared != nullptr) call_part("finish", parts_.shared->finish, parts_.shared_self);
  finished_ = true;
}

// Kernels may still be reading the map, or counting.
void GpuRunner::wait_for_forwards() const {
  const CurrentDevice current(device_.ordinal);
  synchronize_device();
}

void GpuRunner::set_expert_map(const moert_tensor_t& map) {
  wait_for_forwards();
  map_.set(map);
}

void GpuRunner::expert_map(const moert_tensor_t& map) const { map_.get(map); }

void GpuRunner::load_statistics(const moert_tensor_t& counts, bool reset) {
  const auto out = column<int64_t>(matrix(&counts, "counts", {MOERT_DTYPE_I64}, 1, num_ids_, kCpu));
  wait_for_forwards();
  std::vector<uint64_t> found(static_cast<size_t>(num_ids_));
  counts_.read(found.data());
  for (int64_t e = 0; e < num_ids_; ++e)
    out.data[e * out.row_stride] = static_cast<int64_t>(found[static_cast<size_t>(e)]);
  if (reset) counts_.fill(0);
}

uint64_t GpuRunner::bundle_bytes() {
  uint64_t bytes = 0;
  call_part("bundle_bytes", parts_.experts->bundle_bytes, parts_.experts_self, &bytes);
  return bytes;
}

void GpuRunner::read_expert(int64_t expert, void* bundle, uint64_t bytes,
                            const moert_stream_t* stream) {
  call_part("read_expert", parts_.experts->read_expert, parts_.experts_self, expert, bundle, bytes,
            stream);
}

void GpuRunner::write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                             const moert_stream_t* stream) {
  call_part("write_expert", parts_.experts->write_expert, parts_.experts_self, expert, bundle,
            bytes, stream);
}

}  // namespace moert::gpu
