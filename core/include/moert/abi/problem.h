/* The question "can you serve this layer?" and its answer; shared by the layer kinds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. */
#ifndef MOERT_ABI_PROBLEM_H
#define MOERT_ABI_PROBLEM_H

#include <moert/abi/host.h>

#ifdef __cplusplus
extern "C" {
#endif

struct moert_quant_method;

/* moert_moe_problem.flags. All must be understood: a callee that sees a bit it does not know answers
 * verdict 0 with a reason that names the bit. */
enum {
  MOERT_PROBLEM_NON_GATED = 1u << 0,       /* no gate half: y = down(act(up(x)))                  */
  MOERT_PROBLEM_BIAS = 1u << 1,            /* gate, up and down have biases                       */
  MOERT_PROBLEM_WEIGHT_ON_INPUT = 1u << 2, /* the routing weight multiplies x, not the output     */
  MOERT_PROBLEM_LORA = 1u << 3,            /* adapters may be attached (lora_max_rank, _slots)    */
  MOERT_PROBLEM_BUNDLES = 1u << 4,         /* experts will be read and written one at a time      */
  MOERT_PROBLEM_GRAPH = 1u << 5            /* forward must be capturable in a device graph        */
};

/* A function applied between the two projections, by name: "silu", "gelu", "gelu_tanh", "relu",
 * "relu2", "swigluoai", "swiglustep", "situ" (formulas: docs/numerics.md). Parameters that the name
 * does not use are 0. */
typedef struct moert_activation {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  const char* name;
  double alpha;
  double beta;
  double limit; /* clamp; 0 is no clamp */
} moert_activation_t;

/* One layer's experts. Sizes are in elements. "physical" experts are copies in memory: logical ones
 * plus redundant ones; "local" are those held by this rank. Ids given to forward are local. */
typedef struct moert_moe_problem {
  uint32_t struct_size;
  uint32_t flags; /* MOERT_PROBLEM_* */
  moert_device_id_t device;
  int64_t layer_id;     /* the model's own number                                 */
  int64_t max_tokens;   /* most rows of one forward                               */
  int64_t hidden_size;  /* H: width of the rows that experts read and write       */
  int64_t intermediate_size; /* I of one expert on this rank                      */
  int64_t num_experts;       /* E, logical                                        */
  int64_t num_physical_experts;
  int64_t num_local_experts;
  int64_t top_k;
  uint32_t activation_dtype; /* of hidden rows, MOERT_DTYPE_*                     */
  uint32_t output_dtype;
  const char* weight_scheme; /* e.g. "bf16"; "mixed" where experts differ         */
  const char* act_scheme;    /* how rows are quantised: "none", the quant method's word such as
                                "token", or "mixed" where parts differ            */
  const moert_activation_t* activation;
  int32_t ep_rank, ep_size; /* expert parallelism: 0, 1 when off                  */
  int32_t tp_rank, tp_size; /* tensor parallelism of one expert: 0, 1 when off    */
  int64_t lora_max_rank;
  int64_t lora_slots;
} moert_moe_problem_t;

/* moert_support.flags: what the implementation promises for this problem.
 *
 * GRAPH_SAFE: any forward (of a router: logits, route) after finish, also the first one, may stand
 * between graph_begin and graph_end of its stream (device.h). It allocates nothing and waits for
 * nothing; what it enqueues follows from the host's records, never from data on the device. A launch
 * is a forward of its time: it reads and writes what then lies in the recorded buffers, workspace
 * included, obeys the expert map and the weights that the object then has, and is counted. Addresses
 * of the object's own memory stay valid until destroy; object and buffers outlive the last launch. A
 * runner with parts promises it of its own work: ask the parts as well. */
enum {
  MOERT_SUPPORT_DETERMINISTIC = 1u << 0,   /* same input, same bits, whatever the batch and threads */
  MOERT_SUPPORT_GRAPH_SAFE = 1u << 1,      /* see above                                             */
  MOERT_SUPPORT_CONCURRENT_LOAD = 1u << 2, /* load may run on several threads, one expert each      */
  MOERT_SUPPORT_MONOLITHIC = 1u << 3,      /* routes inside; forward reports the ids it chose       */
  MOERT_SUPPORT_HIDES_ROUTING = 1u << 4    /* a runner that neither reports ids nor takes forced
                                              ones: not used where routing is captured or replayed  */
};

/* Answer. The caller sets struct_size and zeroes the rest. `reason` is mandatory when verdict is 0:
 * one phrase that names what is not supported and what would be. With a verdict of 1 it may say how the
 * problem is served; `explain` shows both. */
typedef struct moert_support {
  uint32_t struct_size;
  int32_t verdict; /* 0 no, 1 yes                                                  */
  int32_t score;   /* 0..1000, orders candidates of one rank                       */
  uint32_t flags;  /* MOERT_SUPPORT_*                                              */
  uint64_t workspace_bytes;  /* needed by forward at max_tokens                    */
  uint64_t persistent_bytes; /* packed weights and tables                          */
  char layout[64];           /* layout that load wants, "canonical" if empty       */
  char reason[160];
} moert_support_t;

/* An explicit place in a device's order of work. `native` is the device toolkit's handle (NULL on
 * the CPU, where work is done when the call returns). */
typedef struct moert_stream {
  uint32_t struct_size;
  uint32_t flags;
  moert_device_id_t device;
  void* native;
} moert_stream_t;

/* Which half or projection of an expert a tensor feeds. */
enum { MOERT_PART_GATE = 0, MOERT_PART_UP = 1, MOERT_PART_DOWN = 2 };
/* Canonical shapes: gate and up [I, H], down [H, I] (out, in); biases [I], [I], [H]. */
enum { MOERT_ROLE_WEIGHT = 0, MOERT_ROLE_BIAS = 1, MOERT_ROLE_LORA_A = 2, MOERT_ROLE_LORA_B = 3 };

/* One tensor on its way into a layer: host memory, borrowed for the call, strides as in the file
 * (a transposed or interleaved source is a strided view). Companions travel in tensor->quant. */
typedef struct moert_piece {
  uint32_t struct_size;
  uint32_t flags; /* must be understood          */
  int64_t expert; /* local index; 0 where the layer has no experts */
  uint32_t part;  /* MOERT_PART_*                */
  uint32_t role;  /* MOERT_ROLE_*                */
  int64_t slot;   /* adapter slot of LoRA roles  */
  const moert_tensor_t* tensor;
  /* Decodes `tensor`, and checks its companions; quantises rows. Bound to tensor->quant->scheme. Lives
   * as long as the object that is loaded. */
  const struct moert_quant_method* quant;
  void* quant_self;
} moert_piece_t;

#ifdef __cplusplus
}
#endif
#endif
