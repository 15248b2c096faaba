/* moert.router/1: scores the experts and picks k of them for every token.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. Rules that hold for every rule of routing: ids are logical; in a row they are distinct and
 * valid, whatever the logits (NaN and Inf included); ties go to the lower id; slots stand in falling
 * order of the selection score; the selection bias stays f32 and never enters the weights; a row's
 * result depends on that row alone. Without a bias the logits themselves order the experts, so that
 * scores that saturate make no ties. Weights are finite whatever the logits: NaN ranks last and weighs
 * 0, entries of +Inf share a softmax's mass, and a sum of 0 to renormalise by gives weights of 0. */
#ifndef MOERT_ABI_ROUTER_H
#define MOERT_ABI_ROUTER_H

#include <moert/abi/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_ROUTER "moert.router/1"

/* moert_routing.flags; all must be understood. */
enum {
  MOERT_ROUTING_RENORMALIZE = 1u << 0,    /* weights are divided by their sum                      */
  MOERT_ROUTING_SELECTION_BIAS = 1u << 1, /* choose by score + bias, weigh by score                */
  MOERT_ROUTING_GROUPED = 1u << 2,        /* num_groups, top_groups, group_score apply             */
  MOERT_ROUTING_GATE_BIAS = 1u << 3,      /* logits = hidden x gate^T + gate bias                  */
  MOERT_ROUTING_NEEDS_HIDDEN = 1u << 4,   /* route reads hidden rows                               */
  MOERT_ROUTING_NEEDS_TOKEN_IDS = 1u << 5, /* route reads token ids                                */
  MOERT_ROUTING_EXPERT_SCALE = 1u << 6,   /* weights are multiplied by the expert's scale at last  */
  MOERT_ROUTING_INPUT_NORM = 1u << 7,     /* logits reads the RMS-normed row x input scale         */
  MOERT_ROUTING_BIAS_ON_LOGITS = 1u << 8  /* with SELECTION_BIAS: choose by logit + bias           */
};

/* The rule. Open sets are names; numbers that a rule does not use are 0. Formulas: docs/numerics.md.
 *   method       topk, hash (ids by token table), sparsemixer, group_topk (k / num_groups of each
 *                group), simulated (made up, for benchmarks)
 *   scoring      softmax, softmax_topk (over the chosen alone), sigmoid, sqrtsoftplus
 *   group_score  max, top2_sum; NULL unless groups are chosen
 *   params       decimal numbers as text: logit_scale, logit_softcap, renormalize_floor;
 *                input_norm_eps and input_gain with INPUT_NORM; jitter_eps of sparsemixer; seed of
 *                simulated, and its distribution: uniform, normal or zipf                         */
typedef struct moert_routing {
  uint32_t struct_size;
  uint32_t flags;
  moert_device_id_t device;
  int64_t layer_id;
  int64_t max_tokens;
  int64_t hidden_size;
  int64_t num_experts;
  int64_t top_k;
  uint32_t activation_dtype;
  uint32_t reserved;        /* 0 */
  const char* method;
  const char* scoring;
  const char* group_score;
  int64_t num_groups;
  int64_t top_groups;
  double routed_scale;      /* multiplies the weights after renormalisation; 1 where the runner
                               applies it to the output                                           */
  double renormalize_eps;   /* added to the sum                                                   */
  const moert_kv_t* params; /* all must be understood                                             */
  uint32_t n_params;
  uint32_t reserved2;       /* 0 */
} moert_routing_t;

/* Tensors that a router may own. */
enum {
  MOERT_ROUTER_GATE_WEIGHT = 0,    /* [E, H], any float dtype      */
  MOERT_ROUTER_GATE_BIAS = 1,      /* [E]                          */
  MOERT_ROUTER_SELECTION_BIAS = 2, /* [E]; kept as f32 bit for bit */
  MOERT_ROUTER_EXPERT_SCALE = 3,   /* [E]                          */
  MOERT_ROUTER_INPUT_SCALE = 4,    /* [H]                          */
  MOERT_ROUTER_TOKEN_TABLE = 5     /* I32 [vocabulary, k]          */
};

typedef struct moert_router_args {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  const moert_stream_t* stream;
  const moert_tensor_t* hidden;    /* [T, H]; NULL for route unless NEEDS_HIDDEN                   */
  const moert_tensor_t* token_ids; /* I64 [T]; NULL unless NEEDS_TOKEN_IDS; -1: a row without token,
                                      whose ids become -1                                          */
  const moert_tensor_t* logits;    /* F32 [T, E]: written by logits, read by route                 */
  const moert_tensor_t* ids;       /* I32 [T, k]: written by route                                 */
  const moert_tensor_t* weights;   /* F32 [T, k]: written by route                                 */
  const moert_tensor_t* margins;   /* F32 [T] or NULL: selection score of slot k minus the best one
                                      that was left out, of the kept groups; +Inf if none was left
                                      out, negative where forced ids are not the best              */
  const moert_tensor_t* forced_ids; /* I32 [T, k] or NULL: replay. Rows of -1 route as usual; others
                                       are taken as they are, weights recomputed by the same rule;
                                       wrong ones on a device: device.h                            */
  void* workspace;
  uint64_t workspace_bytes;
} moert_router_args_t;

typedef struct moert_router {
  uint32_t struct_size;
  uint32_t flags;

  /* As in routed_experts.h; `routing` and `options` are copied by create. */
  moert_code_t (*supports)(const moert_host_t* host, const moert_routing_t* routing,
                           moert_support_t* out, moert_error_t* error); /* [any-thread] */
  moert_code_t (*create)(const moert_host_t* host, const moert_routing_t* routing,
                         const moert_kv_t* options, uint32_t n_options, void** self,
                         moert_error_t* error); /* [any-thread] */
  void (*destroy)(void* self);

  /* Copies one tensor; `which` is MOERT_ROUTER_*. Each arrives once. [one-thread] */
  moert_code_t (*load)(void* self, uint32_t which, const moert_tensor_t* tensor,
                       moert_error_t* error);
  moert_code_t (*finish)(void* self, moert_error_t* error);
  moert_code_t (*workspace)(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error);

  /* logits = hidden x gate^T (+ gate bias), accumulated in f32 or better. Stream-ordered. */
  moert_code_t (*logits)(void* self, const moert_router_args_t* args, moert_error_t* error);
  /* Picks ids and weights. Stream-ordered, graph-safe if promised. [one-thread] */
  moert_code_t (*route)(void* self, const moert_router_args_t* args, moert_error_t* error);
} moert_router_t;

#ifdef __cplusplus
}
#endif
#endif
