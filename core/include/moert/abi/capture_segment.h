/* The shared memory of capture.shared_memory: captured rows on their way to another process.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. The file is <folder>/moert.<user id of the owner>.<name>, mode 0600; the folder is /dev/shm unless
 * told otherwise. It has its full size, and all that is constant in it is written, before it gets its name.
 * Numbers have the byte order of the machine.
 *
 *   moert_capture_segment_t                       at 0
 *   moert_capture_segment_layer_t [n_layers]      at layers_offset
 *   facts of moert_capture_spec: key NUL text NUL at facts_offset, facts_bytes long
 *   rows [capacity], row_bytes each: a ring       at rows_offset; row number n stands at n % capacity
 *
 * A row, each part aligned to its element, padded to a multiple of 8:
 *   i64 sequence; i64 position
 *   present: one bit per layer, the first in the lowest bit of the first byte
 *   ids of all layers, k each: unsigned, of 1, 2 or 4 bytes, the narrowest for the layer with most experts
 *   f32 weights of all layers, k each          if `what` has MOERT_CAPTURE_WEIGHTS
 *   f32 margins of all layers                  if `what` has MOERT_CAPTURE_MARGINS
 * Where a layer's bit is 0 its ids, weights and margin mean nothing.
 *
 * Of two rows of one sequence and position the later one counts. Rows [tail, head) wait for the reader:
 * the owner doesn't touch them, so they cannot be torn.
 *   owner   load-acquire tail; write rows while head - tail < capacity; store-release head
 *   reader  load-acquire head; copy rows from tail on; store-release tail
 * A reader that dies before it stored tail leaves the rows to the next one, who gets them once more.
 *
 * Who is there is told by write locks on single bytes of the file, of the kind that belongs to an open file
 * (F_OFD_SETLK): they end when the last process that has that open file ends or closes it, a child that was
 * forked without exec too, and F_OFD_GETLK asks without taking them.
 *   byte MOERT_CAPTURE_SEGMENT_OWNER_LOCK    by the owner, from before the name until after it is gone
 *   byte MOERT_CAPTURE_SEGMENT_READER_LOCK   by the one reader
 * A file whose owner's lock is free and whose `closed` is 0 was left by an owner that died; whoever holds
 * its owner's lock, and sees that the name still stands for this file, may remove it. */
#ifndef MOERT_ABI_CAPTURE_SEGMENT_H
#define MOERT_ABI_CAPTURE_SEGMENT_H

#include <moert/abi/capturer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_CAPTURE_SEGMENT_MAGIC "MOERTCAP" /* without its NUL */
#define MOERT_CAPTURE_SEGMENT_FOLDER "/dev/shm"

enum {
  MOERT_CAPTURE_SEGMENT_VERSION = 1,
  MOERT_CAPTURE_SEGMENT_BYTE_ORDER = 0x01020304,
  MOERT_CAPTURE_SEGMENT_OWNER_LOCK = 0,
  MOERT_CAPTURE_SEGMENT_READER_LOCK = 1
};

/* Frozen with the version. */
typedef struct moert_capture_segment_layer {
  int64_t layer_id; /* the model's own number; rising */
  int64_t num_experts;
  int64_t top_k;
} moert_capture_segment_layer_t;

/* Frozen with the version. The first 128 bytes don't change after the file got its name. */
typedef struct moert_capture_segment {
  char magic[8];
  uint32_t version;
  uint32_t byte_order;   /* MOERT_CAPTURE_SEGMENT_BYTE_ORDER             */
  uint32_t header_bytes; /* sizeof(moert_capture_segment_t)              */
  uint32_t layer_bytes;  /* sizeof(moert_capture_segment_layer_t)        */
  uint32_t what;         /* MOERT_CAPTURE_*                              */
  uint32_t n_layers;
  uint64_t total_bytes;  /* of the file                                  */
  uint64_t layers_offset;
  uint64_t rows_offset;
  uint64_t row_bytes;
  uint64_t capacity;     /* rows of the ring, at least 1                 */
  int64_t owner_pid;
  uint64_t facts_offset;
  uint64_t facts_bytes;
  uint8_t reserved0[32]; /* 0 */
  /* Written by the owner; atomic. */
  uint64_t head;         /* rows published since the start               */
  uint64_t lost;         /* rows that found no room (relaxed)            */
  uint64_t closed;       /* 1: nothing will come (release; after head)   */
  uint8_t reserved1[40];
  /* Written by the reader; atomic. */
  uint64_t tail;         /* rows taken since the start                   */
  int64_t reader_pid;    /* of the last one; for messages (relaxed)      */
  uint8_t reserved2[48];
} moert_capture_segment_t;

#ifdef __cplusplus
}
#endif
#endif
