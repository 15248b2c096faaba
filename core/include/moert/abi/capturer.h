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
  moert_device_id_t device;
  int64_t max_tokens; /* most rows of one step; a capturer may refuse longer ones */
  uint32_t n_layers;
  uint32_t reserved;          /* 0 */
  const int64_t* layer_ids;   /* the model's own numbers, rising */
  const int64_t* num_experts; /* logical                         */
  const int64_t* top_k;
} moert_capture_spec_t;

/* Identity of the rows of one step: which sequence, which position in it. */
typedef struct moert_capture_step {
  uint32_t struct_size;
  uint32_t flags; /* must be understood */
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

/* Rows of one layer for reading back; the caller allocates. present[r] is 0 where nothing was
 * recorded for that row: its ids and weights are then left untouched. */
typedef struct moert_capture_rows {
  uint32_t struct_size;
  uint32_t layer; /* index into layer_ids */
  int64_t first;  /* first row, in order of arrival */
  int64_t rows;   /* capacity of the arrays         */
  int32_t* ids;       /* [rows, k]             */
  float* weights;     /* [rows, k] or NULL     */
  float* margins;     /* [rows] or NULL        */
  uint8_t* present;   /* [rows]                */
  int64_t* sequences; /* [rows] or NULL        */
  int64_t* positions; /* [rows] or NULL        */
  int64_t written;    /* out: rows that exist from `first` on, at most `rows` */
} moert_capture_rows_t;

/* begin, record for each layer, end form a step; a layer that was not recorded is absent. */
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
  /* Removes rows of a sequence from `position` on (rejected speculation, an aborted request). */
  moert_code_t (*drop)(void* self, int64_t sequence, int64_t position, moert_error_t* error);
  /* Everything recorded so far is where it belongs (file synced, copies done). */
  moert_code_t (*flush)(void* self, moert_error_t* error);
  /* Reads rows back. MOERT_UNIMPLEMENTED where the rows went elsewhere. [one-thread] */
  moert_code_t (*read)(void* self, moert_capture_rows_t* rows, moert_error_t* error);
} moert_capturer_t;

#ifdef __cplusplus
}
#endif
#endif
