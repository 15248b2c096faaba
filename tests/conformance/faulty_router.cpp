// Faults of routers: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "faulty.hpp"

#include <algorithm>
#include <cmath>
#include <moert/sdk/tensor.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace moert::faulty {

const moert_router_t* router;
moert_router_t own_router;

namespace {

using Route = moert_code_t(void*, const moert_router_args_t*, moert_error_t*);
using Create = moert_code_t(const moert_host_t*, const moert_routing_t*, const moert_kv_t*,
                            uint32_t, void**, moert_error_t*);

bool is(const char* word, std::string_view wanted) { return word != nullptr && wanted == word; }

// --- choosing -----------------------------------------------------------------------------------

moert_code_t forgets_replay(void* self, const moert_router_args_t* args, moert_error_t* e) {
  moert_router_args_t copy = *args;
  copy.forced_ids = nullptr;
  return router->route(self, &copy, e);
}

moert_code_t forgets_margins(void* self, const moert_router_args_t* args, moert_error_t* e) {
  moert_router_args_t copy = *args;
  copy.margins = nullptr;
  return router->route(self, &copy, e);
}

// Every logit but the first is a little higher: among equals, 0 no longer comes first.
moert_code_t ties_go_up(void* self, const moert_router_args_t* args, moert_error_t* e) {
  if (args->logits == nullptr) return router->route(self, args, e);
  const auto* first = static_cast<const float*>(args->logits->data);
  std::vector<float> logits(first, first + element_count(*args->logits));
  for (size_t i = 0; i < logits.size(); ++i)
    if (i % static_cast<size_t>(args->logits->shape[1]) != 0)
      logits[i] = std::nextafterf(logits[i], HUGE_VALF);
  moert_tensor_t changed = *args->logits;
  changed.data = logits.empty() ? nullptr : logits.data();
  moert_router_args_t copy = *args;
  copy.logits = &changed;
  return router->route(self, &copy, e);
}

moert_code_t nan_rows_repeat(void* self, const moert_router_args_t* args, moert_error_t* e) {
  const moert_code_t code = router->route(self, args, e);
  for (int64_t t = 0; code == MOERT_OK && t < args->ids->shape[0]; ++t)
    for (int64_t j = 0; j < args->ids->shape[1]; ++j)
      if (std::isnan(row_of<const float>(*args->logits, t)[0]))
        row_of<int32_t>(*args->ids, t)[j] = 0;
  return code;
}

// A row without a token is taken for one of token 0.
moert_code_t absent_is_token_0(void* self, const moert_router_args_t* args, moert_error_t* e) {
  if (args->token_ids == nullptr) return router->route(self, args, e);
  const auto* first = static_cast<const int64_t*>(args->token_ids->data);
  std::vector<int64_t> ids(first, first + element_count(*args->token_ids));
  for (int64_t& id : ids) id = id == -1 ? 0 : id;
  moert_tensor_t changed = *args->token_ids;
  changed.data = ids.empty() ? nullptr : ids.data();
  moert_router_args_t copy = *args;
  copy.token_ids = &changed;
  return router->route(self, &copy, e);
}

// Rows of the table come out by number, not in the table's order; their weights go with them.
moert_code_t sorts_the_table(void* self, const moert_router_args_t* args, moert_error_t* e) {
  const moert_code_t code = router->route(self, args, e);
  if (code != MOERT_OK || args->token_ids == nullptr) return code;
  for (int64_t t = 0; t < args->ids->shape[0]; ++t) {
    if (args->forced_ids != nullptr && row_of<const int32_t>(*args->forced_ids, t)[0] != -1)
      continue;
    auto* ids = row_of<int32_t>(*args->ids, t);
    auto* weights = row_of<float>(*args->weights, t);
    std::vector<std::pair<int32_t, float>> slots;
    for (int64_t j = 0; j < args->ids->shape[1]; ++j) slots.emplace_back(ids[j], weights[j]);
    std::sort(slots.begin(), slots.end());
    for (size_t j = 0; j < slots.size(); ++j) std::tie(ids[j], weights[j]) = slots[j];
  }
  return code;
}

// Nothing else shows it: the same choices come out.
moert_code_t waits_in_route(void* self, const moert_router_args_t* args, moert_error_t* e) {
  device->stream_synchronize(args->stream, nullptr);
  return router->route(self, args, e);
}

// --- sparsemixer --------------------------------------------------------------------------------

std::set<void*> sparsemixers;

moert_code_t notes_sparsemixers(const moert_host_t* host, const moert_routing_t* routing,
                                const moert_kv_t* options, uint32_t n, void** self,
                                moert_error_t* e) {
  const moert_code_t code = router->create(host, routing, options, n, self, e);
  sparsemixers.erase(*self);
  if (code == MOERT_OK && is(routing->method, "sparsemixer")) sparsemixers.insert(*self);
  return code;
}

// The second expert is weighed beside the first one: as if it had been the first to be chosen.
moert_code_t second_beside_the_first(void* self, const moert_router_args_t* args,
                                     moert_error_t* e) {
  const moert_code_t code = router->route(self, args, e);
  if (code != MOERT_OK || !sparsemixers.contains(self) || args->forced_ids != nullptr) return code;
  std::vector<int32_t> swapped, ids(static_cast<size_t>(element_count(*args->ids)));
  for (int64_t t = 0; t < args->ids->shape[0]; ++t)
    for (const int64_t j : {1, 0}) swapped.push_back(row_of<int32_t>(*args->ids, t)[j]);
  std::vector<float> weights(ids.size());
  const int64_t tokens = args->ids->shape[0];
  const TensorView forced(swapped.data(), MOERT_DTYPE_I32, {tokens, 2});
  const TensorView to_ids(ids.data(), MOERT_DTYPE_I32, {tokens, 2});
  const TensorView to_weights(weights.data(), MOERT_DTYPE_F32, {tokens, 2});
  moert_router_args_t again = *args;
  again.forced_ids = forced;
  again.ids = to_ids;
  again.weights = to_weights;
  again.margins = nullptr;
  if (tokens > 0) router->route(self, &again, e);
  for (int64_t t = 0; t < tokens; ++t)
    row_of<float>(*args->weights, t)[1] = weights[static_cast<size_t>(2 * t)];
  return code;
}

// --- another rule than the one asked for --------------------------------------------------------

template <class Change>
moert_code_t create_with(const moert_host_t* host, const moert_routing_t* routing,
                         const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e,
                         Change change) {
  moert_routing_t copy = *routing;
  change(copy);
  return router->create(host, &copy, options, n, self, e);
}

moert_code_t scales_twice(const moert_host_t* host, const moert_routing_t* routing,
                          const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e) {
  return create_with(host, routing, options, n, self, e,
                     [](moert_routing_t& r) { r.routed_scale *= r.routed_scale; });
}

moert_code_t softmax_topk_over_all(const moert_host_t* host, const moert_routing_t* routing,
                                   const moert_kv_t* options, uint32_t n, void** self,
                                   moert_error_t* e) {
  return create_with(host, routing, options, n, self, e, [](moert_routing_t& r) {
    if (is(r.scoring, "softmax_topk")) r.scoring = "softmax";
  });
}

moert_code_t biases_the_scores(const moert_host_t* host, const moert_routing_t* routing,
                               const moert_kv_t* options, uint32_t n, void** self,
                               moert_error_t* e) {
  return create_with(host, routing, options, n, self, e, [](moert_routing_t& r) {
    r.flags &= ~static_cast<uint32_t>(MOERT_ROUTING_BIAS_ON_LOGITS);
  });
}

moert_code_t chooses_from_all_groups(const moert_host_t* host, const moert_routing_t* routing,
                                     const moert_kv_t* options, uint32_t n, void** self,
                                     moert_error_t* e) {
  return create_with(host, routing, options, n, self, e, [](moert_routing_t& r) {
    if (is(r.method, "group_topk")) r.num_groups = r.top_groups = 1;
  });
}

std::string dropped;  // name of a parameter

moert_code_t drops_a_parameter(const moert_host_t* host, const moert_routing_t* routing,
                               const moert_kv_t* options, uint32_t n, void** self,
                               moert_error_t* e) {
  std::vector<moert_kv_t> rest;
  for (uint32_t i = 0; i < routing->n_params; ++i)
    if (!is(routing->params[i].key, dropped)) rest.push_back(routing->params[i]);
  return create_with(host, routing, options, n, self, e, [&](moert_routing_t& r) {
    r.params = rest.empty() ? nullptr : rest.data();
    r.n_params = static_cast<uint32_t>(rest.size());
  });
}

// --- loading ------------------------------------------------------------------------------------

moert_code_t rounds_the_bias(void* self, uint32_t which, const moert_tensor_t* tensor,
                             moert_error_t* e) {
  if (which != MOERT_ROUTER_SELECTION_BIAS || tensor == nullptr || tensor->rank != 1)
    return router->load(self, which, tensor, e);
  std::vector<float> values;
  for (int64_t i = 0; i < tensor->shape[0]; ++i)
    values.push_back(bf16_to_f32(f32_to_bf16(read_f32(*tensor, i))));
  moert_tensor_t changed = *tensor;
  changed.data = values.data();
  return router->load(self, which, &changed, e);
}

moert_code_t squares_expert_scales(void* self, uint32_t which, const moert_tensor_t* tensor,
                                   moert_error_t* e) {
  if (which != MOERT_ROUTER_EXPERT_SCALE || tensor == nullptr || tensor->rank != 1)
    return router->load(self, which, tensor, e);
  std::vector<float> values;
  for (int64_t i = 0; i < tensor->shape[0]; ++i)
    values.push_back(std::pow(read_f32(*tensor, i * tensor->strides[0]), 2.0f));
  const TensorView changed(values.data(), MOERT_DTYPE_F32, {tensor->shape[0]});
  return router->load(self, which, changed, e);
}

}  // namespace

bool spoil_router(std::string_view fault) {
  constexpr std::pair<std::string_view, Route*> kRoutes[] = {
      {"forgets_replay", forgets_replay},
      {"forgets_margins", forgets_margins},
      {"ties_go_up", ties_go_up},
      {"nan_rows_repeat", nan_rows_repeat},
      {"absent_is_token_0", absent_is_token_0},
      {"sorts_the_table", sorts_the_table},
      {"second_beside_the_first", second_beside_the_first},
      {"waits_in_route", waits_in_route}};
  constexpr std::pair<std::string_view, Create*> kCreates[] = {
      {"scales_twice", scales_twice},
      {"softmax_topk_over_all", softmax_topk_over_all},
      {"biases_the_scores", biases_the_scores},
      {"chooses_from_all_groups", chooses_from_all_groups},
      {"second_beside_the_first", notes_sparsemixers}};
  bool found = false;
  for (const auto& [name, route] : kRoutes)
    if (fault == name) own_router.route = route, found = true;
  for (const auto& [name, create] : kCreates)
    if (fault == name) own_router.create = create, found = true;
  constexpr std::string_view kDrops = "drops_param_";
  if (fault.starts_with(kDrops)) {
    dropped = fault.substr(kDrops.size());
    own_router.create = drops_a_parameter;
    return true;
  }
  if (fault == "rounds_the_bias") own_router.load = rounds_the_bias, found = true;
  if (fault == "squares_expert_scales") own_router.load = squares_expert_scales, found = true;
  return found;
}

}  // namespace moert::faulty
