/* moert.moe_runner/1: a whole MoE layer, hidden rows in, hidden rows out. (MoERunnerInterface)
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. The core's default runner composes the parts below and is itself reached through this
 * table. A monolithic runner routes inside its kernel, loads the weights itself and still reports the
 * ids and weights it chose, so capture, replay and load counts never depend on how a layer is
 * computed. Order of one forward: logits, shared experts, route, logical -> local, latent input,
 * experts, combine, latent output, routed scale (once), output bias, add shared, zero experts (routed
 * scale x weight x hidden). */
#ifndef MOERT_ABI_MOE_RUNNER_H
#define MOERT_ABI_MOE_RUNNER_H

#include <moert/abi/routed_experts.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_MOE_RUNNER "moert.moe_runner/1"

/* moert_moe_layer.flags; all must be understood. */
enum {
  MOERT_LAYER_ZERO_EXPERTS = 1u << 0,    /* ids from experts->num_experts to routing->num_experts
                                            add weight x hidden, the layer's own input             */
  MOERT_LAYER_LATENT = 1u << 1,          /* experts work in experts->hidden_size, not hidden_size  */
  MOERT_LAYER_NORM_IN = 1u << 2,         /* RMS norm of the rows that experts read, x its weight   */
  MOERT_LAYER_NORM_OUT = 1u << 3,        /* the same of the rows that they give, combined          */
  MOERT_LAYER_OUTPUT_BIAS = 1u << 4,     /* a bias is added to the routed output                   */
  MOERT_LAYER_SHARED_SCALE = 1u << 5     /* shared_scale applies                                   */
};

/* The layer as a whole. */
typedef struct moert_moe_layer {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  const moert_moe_problem_t* experts;
  const moert_routing_t* routing;
  const moert_shared_problem_t* shared; /* NULL: none                                             */
  double output_scale;       /* routed output is multiplied by this before shared is added;
                                1 where routing->routed_scale did it                              */
  const char* weight_scheme; /* as in the problem                                                 */
  double shared_scale;       /* the shared output is multiplied by this; 0 without SHARED_SCALE   */
  double norm_eps;           /* of NORM_IN, NORM_OUT                                              */
  int64_t hidden_size;       /* of the layer's rows; 0 reads as experts->hidden_size              */
} moert_moe_layer_t;

/* Values of piece.part for load_layer. */
enum {
  MOERT_PART_LATENT_DOWN = 4, /* [experts->hidden_size, hidden_size] */
  MOERT_PART_LATENT_UP = 5,   /* [hidden_size, experts->hidden_size] */
  MOERT_PART_EXPERT_NORM = 6, /* [experts->hidden_size]              */
  MOERT_PART_OUTPUT_BIAS = 7  /* [hidden_size]                       */
};

/* Parts for a modular runner, created but not loaded. The runner owns them from a successful create
 * on and destroys them through their tables. All NULL for a monolithic runner. */
typedef struct moert_moe_parts {
  uint32_t struct_size;
  uint32_t flags;
  const moert_router_t* router;
  void* router_self;
  const moert_routed_experts_t* experts;
  void* experts_self;
  const moert_shared_experts_t* shared; /* NULL: none */
  void* shared_self;
} moert_moe_parts_t;

/* Facts about a runner; texts live as long as the runner. */
typedef struct moert_runner_info {
  uint32_t struct_size;
  uint32_t is_monolithic;
  int64_t layer_id;
  const char* activation;
  const char* quant_method;     /* scheme of the routed experts' weights */
  const char* expert_placement; /* "linear", "round_robin", "custom"     */
  uint32_t has_shared_experts;
  uint32_t reserved; /* 0 */
} moert_runner_info_t;

typedef struct moert_runner_args {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  const moert_stream_t* stream;
  const moert_tensor_t* hidden;    /* [T, H]                                                       */
  const moert_tensor_t* logits;    /* F32 [T, E]; the runner computes them into it, unless
                                      has_logits is 1: then it reads them                          */
  uint32_t has_logits;
  uint32_t reserved;
  const moert_tensor_t* token_ids;  /* I64 [T] or NULL                                             */
  const moert_tensor_t* forced_ids; /* I32 [T, k] or NULL: replay, as in router.h                  */
  const moert_tensor_t* ids;        /* I32 [T, k]: written, logical ids; -1 where valid is 0       */
  const moert_tensor_t* weights;    /* F32 [T, k]: written                                         */
  const moert_tensor_t* margins;    /* F32 [T] or NULL: written                                    */
  const moert_tensor_t* valid;      /* U8 [T] or NULL: 0 marks a padded row; of it neither forced_ids
                                      nor token_ids are looked at, and its output is 0           */
  const moert_tensor_t* out;        /* [T, H]: written                                             */
  void* workspace;
  uint64_t workspace_bytes;
} moert_runner_args_t;

typedef struct moert_moe_runner {
  uint32_t struct_size;
  uint32_t flags;
  moert_code_t (*supports)(const moert_host_t* host, const moert_moe_layer_t* layer,
                           moert_support_t* out, moert_error_t* error); /* [any-thread] */
  moert_code_t (*create)(const moert_host_t* host, const moert_moe_layer_t* layer,
                         const moert_moe_parts_t* parts, const moert_kv_t* options,
                         uint32_t n_options, void** self, moert_error_t* error); /* [any-thread] */
  void (*destroy)(void* self);

  /* Weights; `piece->expert` is local. Each piece once, then finish once. [one-thread], but for
   * load_expert: if the runner answered MOERT_SUPPORT_CONCURRENT_LOAD, and so did the routed experts that
   * it was given, it may be called as routed_experts.h says of load. A runner with parts answers it if it
   * adds nothing that forbids it. */
  moert_code_t (*load_expert)(void* self, const moert_piece_t* piece, moert_error_t* error);
  moert_code_t (*load_router)(void* self, uint32_t which, const moert_tensor_t* tensor,
                              moert_error_t* error);
  moert_code_t (*load_shared)(void* self, const moert_piece_t* piece, moert_error_t* error);
  moert_code_t (*finish)(void* self, moert_error_t* error);

  moert_code_t (*info)(void* self, moert_runner_info_t* out, moert_error_t* error);
  moert_code_t (*workspace)(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error);
  moert_code_t (*forward)(void* self, const moert_runner_args_t* args, moert_error_t* error);

  /* Logical -> local placement. `map` is I32 [E, R]: the local copies of each logical expert, -1 where
   * there is none (R = 1 without redundancy). Token t uses copy number (t mod copies). An expert without
   * a local copy contributes 0 here. A graph obeys the map of its launch. Default: identity. [one-thread] */
  moert_code_t (*set_expert_map)(void* self, const moert_tensor_t* map, moert_error_t* error);
  /* Reads the map back into I32 [E, R]. */
  moert_code_t (*expert_map)(void* self, const moert_tensor_t* map, moert_error_t* error);
  /* Tokens that went to each logical expert since the last reset: I64 [E] on the host, with zero
   * experts [routing->num_experts]. Padded rows do not count. `reset` 1 sets the counters to 0 after reading. May synchronise. */
  moert_code_t (*load_statistics)(void* self, const moert_tensor_t* counts, uint32_t reset,
                                  moert_error_t* error);
  /* One expert as a bundle, passed through to the experts (routed_experts.h); NULL if unsupported. */
  moert_code_t (*bundle_bytes)(void* self, uint64_t* bytes, moert_error_t* error);
  moert_code_t (*read_expert)(void* self, int64_t expert, void* bundle, uint64_t bytes,
                              const moert_stream_t* stream, moert_error_t* error);
  moert_code_t (*write_expert)(void* self, int64_t expert, const void* bundle, uint64_t bytes,
                               const moert_stream_t* stream, moert_error_t* error);
  /* A tensor of the layer itself, before finish. */
  moert_code_t (*load_layer)(void* self, const moert_piece_t* piece, moert_error_t* error);
} moert_moe_runner_t;

#ifdef __cplusplus
}
#endif
#endif
