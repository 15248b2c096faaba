/* moert.pluggable_layer/1: any other layer, replaced by name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. For layers that have no kind of their own. The layer's class is a name ("gate_linear"); its
 * sizes are attributes; its tensors are named. */
#ifndef MOERT_ABI_PLUGGABLE_LAYER_H
#define MOERT_ABI_PLUGGABLE_LAYER_H

#include <moert/abi/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_PLUGGABLE_LAYER "moert.pluggable_layer/1"

typedef struct moert_layer_spec {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  moert_device_id_t device;
  const char* layer_class;      /* e.g. "gate_linear"                 */
  const char* instance;         /* e.g. "model.layers.3.mlp.gate"     */
  const moert_kv_t* attributes; /* all must be understood             */
  uint32_t n_attributes;
  uint32_t reserved; /* 0 */
  int64_t max_tokens;
} moert_layer_spec_t;

typedef struct moert_layer_args {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  const moert_stream_t* stream;
  const moert_tensor_t* const* inputs;
  const moert_tensor_t* const* outputs; /* written by the callee */
  uint32_t n_inputs;
  uint32_t n_outputs;
  void* workspace;
  uint64_t workspace_bytes;
} moert_layer_args_t;

/* Order of calls, threads and ownership as in routed_experts.h. */
typedef struct moert_pluggable_layer {
  uint32_t struct_size;
  uint32_t flags;
  moert_code_t (*supports)(const moert_host_t* host, const moert_layer_spec_t* spec,
                           moert_support_t* out, moert_error_t* error); /* [any-thread] */
  moert_code_t (*create)(const moert_host_t* host, const moert_layer_spec_t* spec,
                         const moert_kv_t* options, uint32_t n_options, void** self,
                         moert_error_t* error); /* [any-thread] */
  void (*destroy)(void* self);
  moert_code_t (*load)(void* self, const char* name, const moert_tensor_t* tensor,
                       moert_error_t* error);
  moert_code_t (*finish)(void* self, moert_error_t* error);
  moert_code_t (*workspace)(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error);
  moert_code_t (*forward)(void* self, const moert_layer_args_t* args, moert_error_t* error);
} moert_pluggable_layer_t;

#ifdef __cplusplus
}
#endif
#endif
