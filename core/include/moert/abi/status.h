/* Status codes and the error record: the only way in which a call across the border can fail.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT: revision 1 may still change until it is declared frozen (docs/abi.md).
 *
 * Rules for every function pointer in these headers, unless its comment says otherwise:
 *  - it returns a moert_code_t and takes an optional moert_error_t* as its last argument;
 *  - pointers are borrowed for the duration of the call and are never freed by the callee;
 *  - strings are NUL-terminated UTF-8;
 *  - it does not throw, abort, exit, print, change the locale, the working directory, signal masks,
 *    the floating-point environment or the current device.
 * Thread tags: [any-thread] may be called concurrently; [one-thread] calls on one object are made by
 * one thread at a time, not always the same one; [main-thread] calls are serialised by the host. */
#ifndef MOERT_ABI_STATUS_H
#define MOERT_ABI_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0 is success. Numbers follow the gRPC canonical codes. The set is append-only; a code that the
 * reader does not know counts as MOERT_INTERNAL. */
typedef int32_t moert_code_t;

enum {
  MOERT_OK = 0,
  MOERT_CANCELLED = 1,
  MOERT_UNKNOWN = 2,
  MOERT_INVALID_ARGUMENT = 3,    /* the caller broke a documented rule; nothing was written       */
  MOERT_DEADLINE_EXCEEDED = 4,
  MOERT_NOT_FOUND = 5,
  MOERT_ALREADY_EXISTS = 6,      /* e.g. the same piece of a weight was loaded twice              */
  MOERT_PERMISSION_DENIED = 7,
  MOERT_RESOURCE_EXHAUSTED = 8,  /* memory; the message says how much was needed for what         */
  MOERT_FAILED_PRECONDITION = 9, /* wrong order of calls, e.g. forward before finish              */
  MOERT_ABORTED = 10,
  MOERT_OUT_OF_RANGE = 11,
  MOERT_UNIMPLEMENTED = 12,      /* entry absent, or a must-understand flag is not understood     */
  MOERT_INTERNAL = 13,
  MOERT_UNAVAILABLE = 14,        /* no device, no driver; the message says which                  */
  MOERT_DATA_LOSS = 15           /* input bytes are damaged or contradict what was declared       */
};

/* Allocated by the caller, usually on its stack, so that no error ever has to be freed. The caller
 * sets struct_size and zeroes the rest; a callee that fails fills the fields, truncating texts and
 * always ending them with NUL. It must not touch bytes at or beyond struct_size. */
typedef struct moert_error {
  uint32_t struct_size;
  moert_code_t code;
  int64_t native_code; /* errno, or the device toolkit's own number; 0 if there is none */
  char where[64];      /* function or object, e.g. "cpu.ref.forward"                    */
  char message[440];   /* one sentence: what was found and what was expected            */
} moert_error_t;

/* A name and a value. Frozen: never grows, so arrays of it are safe. */
typedef struct moert_kv {
  const char* key;
  const char* value;
} moert_kv_t;

#ifdef __cplusplus
}
#endif
#endif
