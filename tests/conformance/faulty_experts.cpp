// Faults of routed experts: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <moert/sdk/tensor.hpp>
#include <vector>

#include "faulty.hpp"
#include "faulty_twins.hpp"

namespace moert::faulty {

const moert_routed_experts_t* experts;
moert_routed_experts_t own_experts;

namespace {

using Forward = moert_code_t(void*, const moert_experts_args_t*, moert_error_t*);

size_t row_bytes(const moert_tensor_t& t) {
  return static_cast<size_t>(dtype_bytes(t.dtype, t.shape[1]));
}
unsigned char* row(const moert_tensor_t& t, int64_t r) {
  return static_cast<unsigned char*>(t.data) + dtype_bytes(t.dtype, r * t.strides[0]);
}

moert_code_t padding_is_expert_0(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  if (args->ids == nullptr) return experts->forward(self, args, e);
  const auto* first = static_cast<const int32_t*>(args->ids->data);
  std::vector<int32_t> ids(first, first + element_count(*args->ids));
  for (int32_t& id : ids) id = id == -1 ? 0 : id;
  moert_tensor_t changed = *args->ids;
  changed.data = ids.empty() ? nullptr : ids.data();
  moert_experts_args_t copy = *args;
  copy.ids = &changed;
  return experts->forward(self, &copy, e);
}

moert_code_t weights_are_1(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  if (args->weights == nullptr) return experts->forward(self, args, e);
  std::vector<float> ones(static_cast<size_t>(element_count(*args->weights)), 1.0f);
  moert_tensor_t changed = *args->weights;
  changed.data = ones.empty() ? nullptr : ones.data();
  moert_experts_args_t copy = *args;
  copy.weights = &changed;
  return experts->forward(self, &copy, e);
}

moert_code_t one_byte_too_far(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  if (code == MOERT_OK && args->out->shape[0] > 0)
    row(*args->out, args->out->shape[0] - 1)[row_bytes(*args->out)] = 0;
  return code;
}

moert_code_t padded_rows_unwritten(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  for (int64_t t = 0; code == MOERT_OK && t < args->out->shape[0]; ++t) {
    bool any = false;
    for (int64_t j = 0; j < args->ids->shape[1]; ++j)
      any |= row_of<const int32_t>(*args->ids, t)[j] != -1;
    if (!any) std::memset(row(*args->out, t), 0xff, row_bytes(*args->out));
  }
  return code;
}

moert_code_t one_token_differs(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  if (code == MOERT_OK && args->out->shape[0] == 1) *row(*args->out, 0) ^= 1;
  return code;
}

moert_code_t nan_spreads(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  if (code != MOERT_OK) return code;
  bool nan = false;
  for (int64_t t = 0; t < args->hidden->shape[0]; ++t)
    nan |= std::isnan(read_f32(*args->hidden, t * args->hidden->strides[0]));
  for (int64_t t = 0; nan && t < args->out->shape[0]; ++t)
    std::memset(row(*args->out, t), 0xff, row_bytes(*args->out));
  return code;
}

moert_code_t writes_first(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  if (args->out != nullptr)
    for (int64_t t = 0; t < args->out->shape[0]; ++t)
      std::memset(row(*args->out, t), 0, row_bytes(*args->out));
  return experts->forward(self, args, e);
}

moert_code_t takes_pieces_twice(void* self, const moert_piece_t* piece, moert_error_t* e) {
  const moert_code_t code = experts->load(self, piece, e);
  return code == MOERT_ALREADY_EXISTS ? int32_t{MOERT_OK} : code;
}

moert_code_t says_nothing(void* self, const moert_piece_t* piece, moert_error_t* e) {
  const moert_code_t code = experts->load(self, piece, e);
  if (e != nullptr) e->message[0] = '\0';
  return code;
}

moert_code_t misses_nothing(void* self, moert_error_t*) {
  experts->finish(self, nullptr);
  return MOERT_OK;
}

moert_code_t bundles_expert_0(void* self, int64_t expert, void* bundle, uint64_t bytes,
                              const moert_stream_t* stream, moert_error_t* e) {
  return experts->read_expert(self, expert == 4 ? 0 : expert, bundle, bytes, stream, e);
}

// Another function, with the numbers that it takes.
template <class Change>
moert_code_t create_with(const moert_host_t* host, const moert_moe_problem_t* problem,
                         const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e,
                         Change change) {
  moert_activation_t activation = *problem->activation;
  change(activation);
  moert_moe_problem_t copy = *problem;
  copy.activation = &activation;
  return experts->create(host, &copy, options, n, self, e);
}

moert_code_t drops_the_limit(const moert_host_t* host, const moert_moe_problem_t* problem,
                             const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e) {
  return create_with(host, problem, options, n, self, e, [](moert_activation_t& a) {
    if (std::string_view(a.name) != "swiglustep") a.limit = 0;
  });
}

moert_code_t situ_is_silu(const moert_host_t* host, const moert_moe_problem_t* problem,
                          const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e) {
  return create_with(host, problem, options, n, self, e, [](moert_activation_t& a) {
    if (std::string_view(a.name) == "situ") a = {sizeof a, 0, "silu", 0, 0, 0};
  });
}

moert_code_t clamps_before_the_step(const moert_host_t* host, const moert_moe_problem_t* problem,
                                    const moert_kv_t* options, uint32_t n, void** self,
                                    moert_error_t* e) {
  return create_with(host, problem, options, n, self, e, [](moert_activation_t& a) {
    if (std::string_view(a.name) == "swiglustep") a.name = "silu";
  });
}

moert_code_t ignores_flags(const moert_host_t* host, const moert_moe_problem_t* problem,
                           moert_support_t* out, moert_error_t* e) {
  moert_moe_problem_t copy{};
  std::memcpy(&copy, problem, std::min<size_t>(problem->struct_size, sizeof copy));
  copy.struct_size = sizeof copy;
  copy.flags &= 0xffffu;
  return experts->supports(host, &copy, out, e);
}

// Nothing else shows it: the same numbers come out.
moert_code_t waits_in_forward(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  device->stream_synchronize(args->stream, nullptr);
  return experts->forward(self, args, e);
}

}  // namespace

bool spoil_experts(std::string_view fault) {
  const std::pair<std::string_view, Forward*> forwards[] = {
      {"padding_is_expert_0", padding_is_expert_0},
      {"weights_are_1", weights_are_1},
      {"one_byte_too_far", one_byte_too_far},
      {"padded_rows_unwritten", padded_rows_unwritten},
      {"one_token_differs", one_token_differs},
      {"nan_spreads", nan_spreads},
      {"writes_first", writes_first},
      {"waits_in_forward", waits_in_forward}};
  for (const auto& [name, forward] : forwards) {
    if (fault != name) continue;
    own_experts.forward = forward;
    return true;
  }
  if (fault == "records_other_bits")
    Twins<experts>::put(own_experts);
  else if (fault == "takes_pieces_twice")
    own_experts.load = takes_pieces_twice;
  else if (fault == "says_nothing")
    own_experts.load = says_nothing;
  else if (fault == "misses_nothing")
    own_experts.finish = misses_nothing;
  else if (fault == "bundles_expert_0")
    own_experts.read_expert = bundles_expert_0;
  else if (fault == "drops_the_limit")
    own_experts.create = drops_the_limit;
  else if (fault == "situ_is_silu")
    own_experts.create = situ_is_silu;
  else if (fault == "clamps_before_the_step")
    own_experts.create = clamps_before_the_step;
  else if (fault == "ignores_flags")
    own_experts.supports = ignores_flags;
  else
    return false;
  return true;
}

}  // namespace moert::faulty
