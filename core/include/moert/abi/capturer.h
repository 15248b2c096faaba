/* moert.capturer/1: where routing decisions go.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. A capturer is an object; several may be attached at once. It sees logical ids, before any
 * placement map, for every kind of runner. Sizes come from the resolved model, never from one
 * spelling of a config key. Padded rows are not tokens and are never recorded. */
#ifndef MOERT_ABI_CAPTURER_H
#define MOERT_ABI_CAPTURER_H

#include <moert/abi/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_CAPTURER "moert.capturer/1"

enum { MOERT_CAPTURE_IDS = 1u << 0, MOERT_CAPTURE_WEIGHTS = 1u << 1, MOERT_CAPTURE_MARGINS = 1u << 2 };

/* What will be captured. Arrays have n_layers entries; only MoE layers are listed. */
typedef struct moert_capture_spec {
  uint32_t struct_size;
  uint32_t what; /* MOERT_CAPTURE_*, IDS always; unknown bits must be refused */
  moert_device_id_t device; /* where recorded rows are: the model's device if the capability `device`
                               lists it, else the host's; so are the steps' streams           */
  int64_t max_tokens; /* most rows of one step; a capturer may refuse longer ones */
  uint32_t n_layers;
  uint32_t reserved;          /* 0 */
  const int64_t* layer_ids;   /* the model's own numbers, rising */
  const int64_t* num_experts; /* logical                         */
  const int64_t* top_k;
  /* What a capture says besides, as keys and texts: model, family, model_digest, router_digest,
   * hidden_layers, simulated (only where routing is made up), source. A capturer that hands rows to
   * somebody else hands these on; others may ignore them. */
  const moert_kv_t* facts;
  uint32_t n_facts;
  uint32_t reserved2; /* 0 */
} moert_capture_spec_t;

enum {
  MOERT_CAPTURE_STEP_COMMIT = 1u << 0 /* the rows of this step are final: end commits them */
};

/* Identity of the rows of one step: which sequence, which position in it. No pair stands twice in a
 * step; a pair of an earlier step may come again (a request that was put off and computed again). */
typedef struct moert_capture_step {
  uint32_t struct_size;
  uint32_t flags; /* MOERT_CAPTURE_STEP_*, must be understood */
  int64_t tokens; /* T >= 0 */
  const moert_stream_t* stream;
  const int64_t* sequences; /* [T] host memory */
  const int64_t* positions; /* [T]             */
} moert_capture_step_t;

/* One layer's decisions of the current step; the tensors' first T rows are tokens. */
typedef struct moert_capture_record {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
  uint32_t layer; /* index into layer_ids */
  uint32_t reserved;
  const moert_tensor_t* ids;     /* I32 [>= T, k]; nothing is recorded for a row of -1 alone:
                                    it had no token                                        */
  const moert_tensor_t* weights; /* F32 [>= T, k] or NULL */
  const moert_tensor_t* margins; /* F32 [>= T] or NULL    */
} moert_capture_record_t;

/* Committed rows of one layer for reading back; the caller allocates. Rows have an order of the
 * capturer's own, the same for every layer, that grows at its end; of two rows of one sequence and
 * position the one recorded later comes later, and it alone counts. present[r] is 0 where nothing was
 * recorded for that row: its ids, weights and margin are then left untouched. */
typedef struct moert_capture_rows {
  uint32_t struct_size;
  uint32_t layer; /* index into layer_ids */
  int64_t first;  /* first row                      */
  int64_t rows;   /* capacity of the arrays         */
  int32_t* ids;       /* [rows, k] or NULL     */
  float* weights;     /* [rows, k] or NULL     */
  float* margins;     /* [rows] or NULL        */
  uint8_t* present;   /* [rows] or NULL        */
  int64_t* sequences; /* [rows] or NULL        */
  int64_t* positions; /* [rows] or NULL        */
  int64_t written;    /* out: rows that exist from `first` on, at most `rows` */
} moert_capture_rows_t;

/* What a capturer holds, and what it could not keep. */
typedef struct moert_capture_counts {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  int64_t rows;      /* committed, those that read gives or that were handed on; never falls  */
  int64_t pending;   /* recorded, neither committed nor dropped                               */
  int64_t absent;    /* rows of `rows` that are kept without decisions because memory was short */
  int64_t lost;      /* rows of which not even sequence and position could be kept            */
  uint64_t bytes;    /* host memory that it holds for rows                                    */
} moert_capture_counts_t;

/* begin, record for each layer, and end (or abort) form a step; a layer that was not recorded is absent. Rows of a
 * step are pending until they are committed, and may be dropped as long as they are: what was committed
 * may have been handed on. The core calls commit and drop between steps. Options are the capturer's
 * own; an unknown one is an error. */
typedef struct moert_capturer {
  uint32_t struct_size;
  uint32_t flags;
  moert_code_t (*supports)(const moert_host_t* host, const moert_capture_spec_t* spec,
                           moert_support_t* out, moert_error_t* error); /* [any-thread] */
  moert_code_t (*create)(const moert_host_t* host, const moert_capture_spec_t* spec,
                         const moert_kv_t* options, uint32_t n_options, void** self,
                         moert_error_t* error); /* [any-thread] */
  void (*destroy)(void* self);
  moert_code_t (*begin)(void* self, const moert_capture_step_t* step, moert_error_t* error);
  /* Stream-ordered, graph-safe: no allocation on the device, no synchronisation. [one-thread] */
  moert_code_t (*record)(void* self, const moert_capture_record_t* record, moert_error_t* error);
  moert_code_t (*end)(void* self, moert_error_t* error);
  /* Instead of end: nothing of the step is kept. */
  moert_code_t (*abort)(void* self, moert_error_t* error);
  /* Removes the pending rows of a sequence from `position` on (rejected speculation, an aborted
   * request). Committed rows stay. */
  moert_code_t (*drop)(void* self, int64_t sequence, int64_t position, moert_error_t* error);
  /* The pending rows of a sequence below `position` are final. INT64_MAX: all of them. */
  moert_code_t (*commit)(void* self, int64_t sequence, int64_t position, moert_error_t* error);
  /* Everything committed so far is where it belongs (written, copies done). */
  moert_code_t (*flush)(void* self, moert_error_t* error);
  /* Reads committed rows back. MOERT_UNIMPLEMENTED where they went elsewhere. [one-thread] */
  moert_code_t (*read)(void* self, moert_capture_rows_t* rows, moert_error_t* error);
  moert_code_t (*counts)(void* self, moert_capture_counts_t* out, moert_error_t* error);
} moert_capturer_t;

#ifdef __cplusplus
}
#endif
#endif
