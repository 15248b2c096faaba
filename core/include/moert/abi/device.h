/* moert.device/1: which devices there are, their memory, copies, streams and events.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. One feature per backend. Stateless: a device is its ordinal. Copies and fills are enqueued
 * on a stream; only the *_synchronize calls wait. [any-thread] unless noted.
 *
 * What no call could see, because it is data on the device (an id out of range), is the error of the
 * next stream_synchronize or event_synchronize of that device: MOERT_INVALID_ARGUMENT with the row,
 * once. For experts such an id counts as -1; for a router such a row has no token: ids -1, weights 0.
 * All other work is done, and the stream can be used as before. */
#ifndef MOERT_ABI_DEVICE_H
#define MOERT_ABI_DEVICE_H

#include <moert/abi/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_KIND_DEVICE "moert.device/1"

typedef struct moert_device_info {
  uint32_t struct_size;
  uint32_t flags; /* MOERT_DEVICE_* */
  moert_device_id_t id;
  uint64_t memory_bytes;
  uint64_t memory_free_bytes; /* 0: unknown */
  int32_t compute_units;
  int32_t warp_size;       /* 1 on a CPU                                  */
  uint64_t alignment;      /* alignment of what alloc gives, in bytes     */
  char name[64];           /* e.g. "NVIDIA H200"                          */
  char architecture[64];   /* e.g. "sm_90", "gfx942", "x86-64-v4"         */
  char driver_version[32]; /* empty where there is none                   */
} moert_device_info_t;

enum { MOERT_DEVICE_HOST_MEMORY = 1u << 0, MOERT_DEVICE_GRAPHS = 1u << 1 };

typedef struct moert_device {
  uint32_t struct_size;
  uint32_t kind; /* MOERT_DEVICE_KIND(...) of ids from this plugin */

  /* Number of devices; MOERT_UNAVAILABLE says why there are none (no driver, no device). */
  moert_code_t (*count)(const moert_host_t* host, int32_t* count, moert_error_t* error);
  moert_code_t (*info)(int32_t ordinal, moert_device_info_t* out, moert_error_t* error);

  /* Device memory. 0 bytes gives NULL. MOERT_RESOURCE_EXHAUSTED says how much was free. */
  moert_code_t (*alloc)(int32_t ordinal, uint64_t bytes, void** out, moert_error_t* error);
  void (*free)(int32_t ordinal, void* pointer);
  /* Host memory that this device copies from and to without staging. */
  moert_code_t (*alloc_host)(int32_t ordinal, uint64_t bytes, void** out, moert_error_t* error);
  void (*free_host)(int32_t ordinal, void* pointer);

  /* Streams. A CPU's stream has native == NULL and its work is done at once. */
  moert_code_t (*stream_create)(int32_t ordinal, moert_stream_t* out, moert_error_t* error);
  void (*stream_destroy)(moert_stream_t* stream);
  moert_code_t (*stream_synchronize)(const moert_stream_t* stream, moert_error_t* error);

  /* Copies between this device and the host, and within the device; ranges do not overlap. Host memory
   * that is not from alloc_host has been read, or written, when the call returns. */
  moert_code_t (*copy_to_device)(const moert_stream_t* stream, void* device, const void* host,
                                 uint64_t bytes, moert_error_t* error);
  moert_code_t (*copy_to_host)(const moert_stream_t* stream, void* host, const void* device,
                               uint64_t bytes, moert_error_t* error);
  moert_code_t (*copy)(const moert_stream_t* stream, void* to, const void* from, uint64_t bytes,
                       moert_error_t* error);
  moert_code_t (*fill)(const moert_stream_t* stream, void* device, uint8_t value, uint64_t bytes,
                       moert_error_t* error);

  /* Events: points in a stream's order. wait makes later work of `stream` wait for the event. */
  moert_code_t (*event_create)(int32_t ordinal, void** event, moert_error_t* error);
  void (*event_destroy)(int32_t ordinal, void* event);
  moert_code_t (*event_record)(const moert_stream_t* stream, void* event, moert_error_t* error);
  moert_code_t (*event_wait)(const moert_stream_t* stream, void* event, moert_error_t* error);
  moert_code_t (*event_synchronize)(int32_t ordinal, void* event, moert_error_t* error);
  /* Seconds between two recorded events of one device. */
  moert_code_t (*event_elapsed)(int32_t ordinal, void* start, void* stop, double* seconds,
                                moert_error_t* error);

  /* Graphs; NULL without MOERT_DEVICE_GRAPHS. Work enqueued between begin and end is recorded. */
  moert_code_t (*graph_begin)(const moert_stream_t* stream, moert_error_t* error);
  moert_code_t (*graph_end)(const moert_stream_t* stream, void** graph, moert_error_t* error);
  moert_code_t (*graph_launch)(const moert_stream_t* stream, void* graph, moert_error_t* error);
  void (*graph_destroy)(int32_t ordinal, void* graph);
} moert_device_t;

#ifdef __cplusplus
}
#endif
#endif
