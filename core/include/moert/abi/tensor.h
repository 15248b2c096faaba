/* Tensors: borrowed views of memory that somebody else owns.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. Layout is declared, never guessed from a shape. */
#ifndef MOERT_ABI_TENSOR_H
#define MOERT_ABI_TENSOR_H

#include <moert/abi/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. Append-only; a reader refuses numbers it does not know. */
enum {
  MOERT_DTYPE_INVALID = 0,
  MOERT_DTYPE_F64 = 1,
  MOERT_DTYPE_F32 = 2,
  MOERT_DTYPE_F16 = 3,
  MOERT_DTYPE_BF16 = 4,
  MOERT_DTYPE_F8_E4M3FN = 5,
  MOERT_DTYPE_F8_E4M3FNUZ = 6,
  MOERT_DTYPE_F8_E5M2 = 7,
  MOERT_DTYPE_F8_E8M0 = 8, /* exponent only: 2^(byte-127), 0xFF is NaN                           */
  MOERT_DTYPE_F4_E2M1 = 9, /* two to a byte, low nibble first; shapes and strides count elements */
  MOERT_DTYPE_I64 = 10,
  MOERT_DTYPE_I32 = 11,
  MOERT_DTYPE_I16 = 12,
  MOERT_DTYPE_I8 = 13,
  MOERT_DTYPE_U64 = 14,
  MOERT_DTYPE_U32 = 15,
  MOERT_DTYPE_U16 = 16,
  MOERT_DTYPE_U8 = 17,
  MOERT_DTYPE_BOOL = 18 /* one byte, 0 or 1 */
};

/* A device as the host numbers it: `kind` is the FourCC of the device plugin's kind name ("cpu ",
 * "cuda", "hip "), `ordinal` counts from 0 within that plugin. Frozen: never grows. */
typedef struct moert_device_id {
  uint32_t kind;
  int32_t ordinal;
} moert_device_id_t;

#define MOERT_DEVICE_KIND(a, b, c, d) \
  ((uint32_t)(a) | ((uint32_t)(b) << 8) | ((uint32_t)(c) << 16) | ((uint32_t)(d) << 24))
#define MOERT_DEVICE_CPU MOERT_DEVICE_KIND('c', 'p', 'u', ' ')

/* moert_tensor.flags. Bits of the upper half must be understood: a callee that sees one it does not
 * know answers MOERT_UNIMPLEMENTED. */
enum {
  MOERT_TENSOR_READ_ONLY = 1u << 0,
  MOERT_TENSOR_HIGH_NIBBLE_FIRST = 1u << 16 /* packed 4-bit data in the other order */
};

struct moert_quant_view;

/* A view is valid for the call it is passed to, with its shape, strides and quant records. `data` is
 * on `device`. A plugin that must keep the contents copies them. */
typedef struct moert_tensor {
  uint32_t struct_size;
  uint32_t flags;
  void* data;             /* first element; NULL is allowed if and only if there are no elements  */
  const int64_t* shape;   /* [rank], each >= 0                                                    */
  const int64_t* strides; /* [rank], in elements, each >= 0; NULL only if rank is 0               */
  uint32_t dtype;
  uint32_t rank;          /* 0 is a scalar of one element                                         */
  uint64_t bytes;         /* memory from `data` on that belongs to the view, in bytes             */
  moert_device_id_t device;
  const struct moert_quant_view* quant; /* NULL: the elements are plain numbers                   */
} moert_tensor_t;

/* moert_quant_view.flags */
enum {
  /* Rows are quantised before the weight multiplies them: by its quant method's quantize_activations,
   * each row on its own. Whoever cannot refuses the problem, whose act_scheme says it. */
  MOERT_QUANT_ROWS = 1u << 0
};

/* How to read elements that are not plain numbers. Companions that a scheme does not have are NULL;
 * one that the scheme requires and that is NULL is an error, never a default. */
typedef struct moert_quant_view {
  uint32_t struct_size;
  uint32_t flags;
  const char* scheme; /* weight format, e.g. "bf16", "fp8_e4m3fn.block128x128.f32", "mxfp4.g32.e8m0" */
  const char* layout; /* "canonical", or "<plugin id>:<token>" for a private packing that only that
                         plugin may read                                                           */
  const moert_tensor_t* scale;
  const moert_tensor_t* scale2;      /* second-level (global) scale                               */
  const moert_tensor_t* zero_point;
  const moert_tensor_t* group_index; /* row order of act-order schemes                            */
  const moert_tensor_t* input_scale; /* static activation scale                                   */
} moert_quant_view_t;

#ifdef __cplusplus
}
#endif
#endif
