/* moert.routed_experts/1: owns the packed weights of a layer's experts and computes them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. Order of calls: supports, create, load..., finish (once), then forward and the rest,
 * destroy. `hidden` rows are [T, H]; for slot j of token t with id e = ids[t, j]:
 *   out[t] = sum over j of weights[t, j] * down_e(act(gate_e(hidden[t])) * up_e(hidden[t]))
 * combined in slot order. id -1 contributes nothing; a row whose ids are all -1 is zero. Other ids
 * that are no local expert are MOERT_INVALID_ARGUMENT in host memory; on a device they count as -1,
 * and its next *_synchronize says so (device.h). */
#ifndef MOERT_ABI_ROUTED_EXPERTS_H
#define MOERT_ABI_ROUTED_EXPERTS_H

#include <moert/abi/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_ROUTED_EXPERTS "moert.routed_experts/1"

/* Adapters of one forward: token t uses slot token_slots[t], -1 is none. */
typedef struct moert_lora_args {
  uint32_t struct_size;
  uint32_t flags;
  const moert_tensor_t* token_slots; /* I32 [T] */
} moert_lora_args_t;

/* Everything is on the problem's device, borrowed until the work enqueued on `stream` is done. */
typedef struct moert_experts_args {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  const moert_stream_t* stream;
  const moert_tensor_t* hidden;  /* [T, H] activation_dtype, rows contiguous; T may be 0           */
  const moert_tensor_t* ids;     /* I32 [T, k], local expert in [0, num_local_experts) or -1       */
  const moert_tensor_t* weights; /* F32 [T, k]                                                     */
  const moert_tensor_t* out;     /* [T, H] output_dtype; every element is written; never aliases
                                    an input                                                       */
  void* workspace;               /* 64-byte aligned (256 on a device), contents undefined           */
  uint64_t workspace_bytes;
  const moert_lora_args_t* lora; /* NULL: none */
} moert_experts_args_t;

typedef struct moert_routed_experts {
  uint32_t struct_size;
  uint32_t flags;

  /* Verdict for a problem. Creates no context, reads no file. [any-thread] */
  moert_code_t (*supports)(const moert_host_t* host, const moert_moe_problem_t* problem,
                           moert_support_t* out, moert_error_t* error);

  /* Reserves memory for the packed weights. `problem` and `options` are copied. The caller destroys
   * *self, with no call in progress. [any-thread] */
  moert_code_t (*create)(const moert_host_t* host, const moert_moe_problem_t* problem,
                         const moert_kv_t* options, uint32_t n_options, void** self,
                         moert_error_t* error);
  void (*destroy)(void* self);

  /* Packs one tensor of one expert in place. Each (expert, part, role) arrives exactly once before
   * finish; a second arrival is MOERT_ALREADY_EXISTS. [one-thread], or one thread per expert with
   * MOERT_SUPPORT_CONCURRENT_LOAD, from the entry of the first to the return of the last; these
   * threads are the host's own, so such a load never calls parallel_for. The source is not kept. */
  moert_code_t (*load)(void* self, const moert_piece_t* piece, moert_error_t* error);

  /* All pieces are there (else MOERT_FAILED_PRECONDITION naming the first missing one). Called
   * exactly once; afterwards load is allowed only for LoRA roles. [one-thread] */
  moert_code_t (*finish)(void* self, moert_error_t* error);

  /* Workspace of a forward with `tokens` rows; does not fall as tokens grows. [any-thread] */
  moert_code_t (*workspace)(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error);

  /* Enqueues the computation. Allocates nothing on the device, synchronises nothing. Rows do not
   * affect each other; NaN and Inf stay in their rows. [one-thread] */
  moert_code_t (*forward)(void* self, const moert_experts_args_t* args, moert_error_t* error);

  /* One expert's packed weights with all their companions as one run of bytes, for moving experts
   * between ranks, copies or host memory. The format is private to this implementation and version.
   * bundle_bytes is the same for every expert. Stream-ordered; `bundle` is on the problem's device.
   * May be NULL unless MOERT_PROBLEM_BUNDLES was accepted. [one-thread] */
  moert_code_t (*bundle_bytes)(void* self, uint64_t* bytes, moert_error_t* error);
  moert_code_t (*read_expert)(void* self, int64_t expert, void* bundle, uint64_t bytes,
                              const moert_stream_t* stream, moert_error_t* error);
  moert_code_t (*write_expert)(void* self, int64_t expert, const void* bundle, uint64_t bytes,
                               const moert_stream_t* stream, moert_error_t* error);
} moert_routed_experts_t;

#ifdef __cplusplus
}
#endif
#endif
