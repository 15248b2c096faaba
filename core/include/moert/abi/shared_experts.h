/* moert.shared_experts/1: the dense expert(s) that every token takes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. Several shared experts of one layer are one dense MLP of their summed width.
 *   y = down(act(gate(x)) * up(x)), times sigmoid(x . g) where the layer has a sigmoid gate g. */
#ifndef MOERT_ABI_SHARED_EXPERTS_H
#define MOERT_ABI_SHARED_EXPERTS_H

#include <moert/abi/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_SHARED_EXPERTS "moert.shared_experts/1"

/* moert_shared_problem.flags; all must be understood. */
enum {
  MOERT_SHARED_SIGMOID_GATE = 1u << 0,
  MOERT_SHARED_NON_GATED = 1u << 1,
  MOERT_SHARED_BIAS = 1u << 2
};

typedef struct moert_shared_problem {
  uint32_t struct_size;
  uint32_t flags;
  moert_device_id_t device;
  int64_t layer_id;
  int64_t max_tokens;
  int64_t hidden_size;
  int64_t intermediate_size; /* of all shared experts together, on this rank */
  uint32_t activation_dtype;
  uint32_t output_dtype;
  const char* weight_scheme;
  const moert_activation_t* activation;
  int32_t tp_rank, tp_size;
  const char* act_scheme; /* as in moert_moe_problem */
} moert_shared_problem_t;

/* Value of piece.part beside MOERT_PART_*: the sigmoid gate, [H] or [1, H]. */
enum { MOERT_PART_SIGMOID_GATE = 3 };

typedef struct moert_shared_args {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  const moert_stream_t* stream;
  const moert_tensor_t* hidden; /* [T, H]                                            */
  const moert_tensor_t* out;    /* [T, H] output_dtype; written, not added to        */
  void* workspace;
  uint64_t workspace_bytes;
} moert_shared_args_t;

/* Order of calls, threads and ownership as in routed_experts.h. */
typedef struct moert_shared_experts {
  uint32_t struct_size;
  uint32_t flags;
  moert_code_t (*supports)(const moert_host_t* host, const moert_shared_problem_t* problem,
                           moert_support_t* out, moert_error_t* error); /* [any-thread] */
  moert_code_t (*create)(const moert_host_t* host, const moert_shared_problem_t* problem,
                         const moert_kv_t* options, uint32_t n_options, void** self,
                         moert_error_t* error); /* [any-thread] */
  void (*destroy)(void* self);
  moert_code_t (*load)(void* self, const moert_piece_t* piece, moert_error_t* error);
  moert_code_t (*finish)(void* self, moert_error_t* error);
  moert_code_t (*workspace)(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error);
  moert_code_t (*forward)(void* self, const moert_shared_args_t* args, moert_error_t* error);
} moert_shared_experts_t;

#ifdef __cplusplus
}
#endif
#endif
