// Faults of runners, and runners that have none but are unlike those of this project: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <moert/sdk/error.hpp>
#include <moert/sdk/tensor.hpp>
#include <set>
#include <utility>
#include <vector>

#include "faulty.hpp"

namespace moert::faulty {

const moert_moe_runner_t* runner;
moert_moe_runner_t own_runner;

namespace {

using Forward = moert_code_t(void*, const moert_runner_args_t*, moert_error_t*);
using Create = moert_code_t(const moert_host_t*, const moert_moe_layer_t*, const moert_moe_parts_t*,
                            const moert_kv_t*, uint32_t, void**, moert_error_t*);

// --- forward ------------------------------------------------------------------------------------

moert_code_t routes_padded_rows(void* self, const moert_runner_args_t* args, moert_error_t* e) {
  moert_runner_args_t copy = *args;
  copy.valid = nullptr;
  return runner->forward(self, &copy, e);
}

moert_code_t routes_forced_rows(void* self, const moert_runner_args_t* args, moert_error_t* e) {
  moert_runner_args_t copy = *args;
  copy.forced_ids = nullptr;
  return runner->forward(self, &copy, e);
}

moert_code_t computes_given_logits(void* self, const moert_runner_args_t* args, moert_error_t* e) {
  moert_runner_args_t copy = *args;
  copy.has_logits = 0;
  return runner->forward(self, &copy, e);
}

moert_code_t refuses_no_tokens(void* self, const moert_runner_args_t* args, moert_error_t* e) {
  if (args->hidden->shape[0] == 0) return MOERT_INVALID_ARGUMENT;
  return runner->forward(self, args, e);
}

// Before it looks at what is valid.
moert_code_t checks_padded_tokens(void* self, const moert_runner_args_t* args, moert_error_t* e) {
  std::vector<int64_t> tokens;
  if (args->token_ids != nullptr) tokens.resize(static_cast<size_t>(args->token_ids->shape[0]));
  if (!tokens.empty()) {
    const moert_code_t code = device->copy_to_host(
        args->stream, tokens.data(), args->token_ids->data, tokens.size() * sizeof tokens[0], e);
    if (code != MOERT_OK) return code;
  }
  for (const int64_t token : tokens)
    if (token < -1 || token > INT32_MAX) return MOERT_INVALID_ARGUMENT;
  return runner->forward(self, args, e);
}

moert_code_t leaves_out_the_last_row(void* self, const moert_runner_args_t* args,
                                     moert_error_t* e) {
  const moert_code_t code = runner->forward(self, args, e);
  const moert_tensor_t& out = *args->out;
  if (code != MOERT_OK || out.shape[0] == 0) return code;
  auto* row =
      static_cast<char*>(out.data) + dtype_bytes(out.dtype, (out.shape[0] - 1) * out.strides[0]);
  return device->fill(args->stream, row, 0, dtype_bytes(out.dtype, out.shape[1]), e);
}

moert_code_t hides_its_ids(void* self, const moert_runner_args_t* args, moert_error_t* e) {
  const moert_code_t code = runner->forward(self, args, e);
  const moert_tensor_t& ids = *args->ids;
  if (code != MOERT_OK || ids.shape[0] == 0) return code;
  return device->fill(args->stream, ids.data, 0xff,
                      dtype_bytes(ids.dtype, ids.shape[0] * ids.shape[1]), e);
}

// --- beside it ----------------------------------------------------------------------------------

moert_code_t declines_every_layer(const moert_host_t* host, const moert_moe_layer_t* layer,
                                  moert_support_t* out, moert_error_t* e) {
  const moert_code_t code = runner->supports(host, layer, out, e);
  out->verdict = 0;
  detail::copy_text(out->reason, sizeof out->reason, "not today");
  return code;
}

moert_code_t forgets_the_map(void*, const moert_tensor_t*, moert_error_t*) { return MOERT_OK; }

// Of each local expert it knows the one that it is a copy of.
moert_code_t keeps_the_inverse(void* self, const moert_tensor_t* map, moert_error_t* e) {
  std::set<int32_t> placed;
  for (int64_t i = 0; i < element_count(*map); ++i) {
    const int32_t id = static_cast<const int32_t*>(map->data)[i];
    if (id >= 0 && !placed.insert(id).second) return MOERT_INVALID_ARGUMENT;
  }
  return runner->set_expert_map(self, map, e);
}

// A graph has the map of the time when it was recorded; what is not recorded obeys the last one.
struct Map {
  std::vector<int32_t> ids;
  int64_t experts = 0, copies = 0;
};
Map map_now, map_recorded;
void* recorded;  // the runner

moert_code_t notes_the_map(void* self, const moert_tensor_t* map, moert_error_t* e) {
  const moert_code_t code = runner->set_expert_map(self, map, e);
  if (code != MOERT_OK) return code;
  const auto* first = static_cast<const int32_t*>(map->data);
  map_now = {{first, first + element_count(*map)}, map->shape[0], map->shape[1]};
  return code;
}
moert_code_t notes_the_recording(void* self, const moert_runner_args_t* args, moert_error_t* e) {
  if (recording) recorded = self, map_recorded = map_now;
  return runner->forward(self, args, e);
}
void forgets_the_recording(void* self) {
  map_now = {};
  recorded = nullptr;
  runner->destroy(self);
}

moert_code_t use(const Map& map, moert_error_t* e) {
  std::vector<int32_t> ids = map.ids;
  for (int64_t id = 0; map.copies == 0 && id < map_now.experts; ++id)
    ids.push_back(static_cast<int32_t>(id));
  const TensorView view(ids.data(), MOERT_DTYPE_I32,
                        {map_now.experts, std::max<int64_t>(map.copies, 1)});
  return runner->set_expert_map(recorded, view, e);
}

moert_code_t never_resets(void* self, const moert_tensor_t* counts, uint32_t, moert_error_t* e) {
  return runner->load_statistics(self, counts, 0, e);
}

moert_code_t scales_output_twice(const moert_host_t* host, const moert_moe_layer_t* layer,
                                 const moert_moe_parts_t* parts, const moert_kv_t* options,
                                 uint32_t n, void** self, moert_error_t* e) {
  moert_moe_layer_t copy = *layer;
  copy.output_scale *= copy.output_scale;
  return runner->create(host, &copy, parts, options, n, self, e);
}

moert_code_t shares_at_full_scale(const moert_host_t* host, const moert_moe_layer_t* layer,
                                  const moert_moe_parts_t* parts, const moert_kv_t* options,
                                  uint32_t n, void** self, moert_error_t* e) {
  moert_moe_layer_t copy = *layer;
  copy.flags &= ~uint32_t{MOERT_LAYER_SHARED_SCALE};
  copy.shared_scale = 0;
  return runner->create(host, &copy, parts, options, n, self, e);
}

// --- a runner without parts ---------------------------------------------------------------------

moert_code_t supports_whole(const moert_host_t* host, const moert_moe_layer_t* layer,
                            moert_support_t* out, moert_error_t* e) {
  const moert_code_t code = runner->supports(host, layer, out, e);
  out->flags |= MOERT_SUPPORT_MONOLITHIC;
  return code;
}
moert_code_t supports_hidden(const moert_host_t* host, const moert_moe_layer_t* layer,
                             moert_support_t* out, moert_error_t* e) {
  const moert_code_t code = supports_whole(host, layer, out, e);
  out->flags |= MOERT_SUPPORT_HIDES_ROUTING;
  return code;
}

template <class Table, class Spec>
moert_code_t make_part(const moert_host_t* host, const char* kind, const Spec* spec,
                       const Table*& table, void*& self, moert_error_t* e) {
  const auto* found = static_cast<const Table*>(table_of(kind));
  const moert_code_t code = found->create(host, spec, nullptr, 0, &self, e);
  if (code == MOERT_OK) table = found;
  return code;
}

void destroy_parts(const moert_moe_parts_t& parts) {
  if (parts.shared != nullptr) parts.shared->destroy(parts.shared_self);
  if (parts.experts != nullptr) parts.experts->destroy(parts.experts_self);
  if (parts.router != nullptr) parts.router->destroy(parts.router_self);
}

// What it is composed of is its own affair: it makes that itself.
moert_code_t creates_whole(const moert_host_t* host, const moert_moe_layer_t* layer,
                           const moert_moe_parts_t* given, const moert_kv_t* options, uint32_t n,
                           void** self, moert_error_t* e) {
  if (given != nullptr && (given->router != nullptr || given->experts != nullptr))
    return MOERT_INVALID_ARGUMENT;
  moert_moe_parts_t parts{};
  parts.struct_size = sizeof parts;
  moert_code_t code =
      make_part(host, MOERT_KIND_ROUTER, layer->routing, parts.router, parts.router_self, e);
  if (code == MOERT_OK)
    code = make_part(host, MOERT_KIND_ROUTED_EXPERTS, layer->experts, parts.experts,
                     parts.experts_self, e);
  if (code == MOERT_OK && layer->shared != nullptr)
    code = make_part(host, MOERT_KIND_SHARED_EXPERTS, layer->shared, parts.shared,
                     parts.shared_self, e);
  if (code == MOERT_OK) code = runner->create(host, layer, &parts, options, n, self, e);
  if (code != MOERT_OK) destroy_parts(parts);
  return code;
}

moert_code_t tells_that_it_is_whole(void* self, moert_runner_info_t* out, moert_error_t* e) {
  const moert_code_t code = runner->info(self, out, e);
  out->is_monolithic = 1;
  return code;
}

bool make_whole(std::string_view name) {
  if (name == "whole_and_open")
    own_runner.supports = supports_whole;
  else if (name == "whole_leaves_out_the_last_row")
    own_runner.supports = supports_whole, own_runner.forward = leaves_out_the_last_row;
  else if (name == "whole_and_hidden")
    own_runner.supports = supports_hidden, own_runner.forward = hides_its_ids;
  else
    return false;
  own_runner.create = creates_whole;
  own_runner.info = tells_that_it_is_whole;
  return true;
}

}  // namespace

moert_code_t launches_with_the_map_recorded(const moert_stream_t* stream, void* graph,
                                            moert_error_t* e) {
  if (recorded == nullptr || map_now.experts == 0) return device->graph_launch(stream, graph, e);
  moert_code_t code = use(map_recorded, e);
  if (code == MOERT_OK) code = device->graph_launch(stream, graph, e);
  if (code == MOERT_OK) code = device->stream_synchronize(stream, e);
  return code == MOERT_OK ? use(map_now, e) : code;
}

bool spoil_runner(std::string_view fault) {
  constexpr std::pair<std::string_view, Forward*> kForwards[] = {
      {"routes_padded_rows", routes_padded_rows},
      {"routes_forced_rows", routes_forced_rows},
      {"computes_given_logits", computes_given_logits},
      {"refuses_no_tokens", refuses_no_tokens},
      {"checks_padded_tokens", checks_padded_tokens},
      {"leaves_out_the_last_row", leaves_out_the_last_row}};
  constexpr std::pair<std::string_view, Create*> kCreates[] = {
      {"scales_output_twice", scales_output_twice}, {"shares_at_full_scale", shares_at_full_scale}};
  for (const auto& [name, forward] : kForwards)
    if (fault == name) return own_runner.forward = forward, true;
  for (const auto& [name, create] : kCreates)
    if (fault == name) return own_runner.create = create, true;
  if (fault == "declines_every_layer")
    own_runner.supports = declines_every_layer;
  else if (fault == "forgets_the_map")
    own_runner.set_expert_map = forgets_the_map;
  else if (fault == "bakes_the_map")
    own_runner.set_expert_map = notes_the_map, own_runner.forward = notes_the_recording,
    own_runner.destroy = forgets_the_recording;
  else if (fault == "keeps_the_inverse")
    own_runner.set_expert_map = keeps_the_inverse;
  else if (fault == "never_resets")
    own_runner.load_statistics = never_resets;
  else
    return make_whole(fault);
  return true;
}

}  // namespace moert::faulty
