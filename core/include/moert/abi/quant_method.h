/* moert.quant_method/1: what the bytes of a weight format mean.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. Host code, no device: the core and every backend can ask it. The packed layout of a kernel
 * is not its business; "canonical" is the layout in which checkpoints hold the format. It may be asked
 * inside a loop of the host's threads, so it never calls parallel_for. */
#ifndef MOERT_ABI_QUANT_METHOD_H
#define MOERT_ABI_QUANT_METHOD_H

#include <moert/abi/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_QUANT_METHOD "moert.quant_method/1"

/* Companions of a weight. */
enum {
  MOERT_PARAM_WEIGHT = 0,
  MOERT_PARAM_SCALE = 1,
  MOERT_PARAM_SCALE2 = 2,
  MOERT_PARAM_ZERO_POINT = 3,
  MOERT_PARAM_GROUP_INDEX = 4,
  MOERT_PARAM_INPUT_SCALE = 5
};

/* One tensor that a weight of [rows, cols] elements consists of in a checkpoint. Filled by the
 * callee; frozen at this size so that arrays of it are safe. */
typedef struct moert_quant_param {
  uint32_t param;    /* MOERT_PARAM_*                                     */
  uint32_t required; /* 1: absence is an error                            */
  uint32_t dtype;    /* as stored; MOERT_DTYPE_INVALID: several are taken */
  uint32_t rank;
  int64_t shape[4];
} moert_quant_param_t;

typedef struct moert_quant_method {
  uint32_t struct_size;
  uint32_t flags;

  /* Is `scheme` one of mine? No creation, no file access. [any-thread] */
  moert_code_t (*supports)(const moert_host_t* host, const char* scheme, moert_support_t* out,
                           moert_error_t* error);

  /* An object bound to one scheme and its options. The caller destroys it. [any-thread] */
  moert_code_t (*create)(const moert_host_t* host, const char* scheme, const moert_kv_t* options,
                         uint32_t n_options, void** self, moert_error_t* error);
  void (*destroy)(void* self);

  /* All methods below only read `self`: [any-thread] on one object. */

  /* The tensors of a weight of [rows, cols], sizes as round_sizes gives them, as they are stored:
   * where a format packs several codes to a word, or stores the transpose, the weight's dtype and
   * shape are not those of its elements. Writes at most `capacity` records and sets *count to the
   * number there are. rows, cols >= 0. */
  moert_code_t (*parameters)(void* self, int64_t rows, int64_t cols, moert_quant_param_t* out,
                             uint32_t capacity, uint32_t* count, moert_error_t* error);

  /* Rounds H and I up to what the format needs, in place. Each half (gate, up) is rounded and padded
   * on its own, with codes that decode to zero. */
  moert_code_t (*round_sizes)(void* self, int64_t* hidden_size, int64_t* intermediate_size,
                              moert_error_t* error);

  /* `weight` is a view of the stored tensor here and below: rows and cols follow from its shape as
   * `parameters` gives it. Checks dtype, shape and companions without decoding.
   * MOERT_DATA_LOSS names what was found and what was expected. */
  moert_code_t (*check)(void* self, const moert_tensor_t* weight, moert_error_t* error);

  /* Writes rows [row, row + rows) of the elements as f32, row-major, `out_stride` elements apart.
   * `weight` is on the host; any strides. Exact where the format's numbers fit f32. */
  moert_code_t (*decode)(void* self, const moert_tensor_t* weight, int64_t row, int64_t rows,
                         float* out, int64_t out_stride, moert_error_t* error);

  /* Encodes f32 `source` [rows, cols] into `weight`, whose tensor and companions the caller
   * allocated by `parameters`. Round to nearest even, saturating. May be NULL. */
  moert_code_t (*encode)(void* self, const moert_tensor_t* source, const moert_tensor_t* weight,
                         moert_error_t* error);

  /* Replaces rows of f32 activations [tokens, cols] by what remains of them after the scheme's own
   * activation quantisation. `input_scale` may be NULL. NULL entry: activations are left alone. */
  moert_code_t (*quantize_activations)(void* self, float* rows, int64_t tokens, int64_t cols,
                                       const moert_tensor_t* input_scale, moert_error_t* error);
} moert_quant_method_t;

#ifdef __cplusplus
}
#endif
#endif
