/* Services that the host lends to a plugin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. All plugins of one Runtime share one table, valid from the entry of its init() to the
 * return of its deinit() (see moert_plugin.init in entry.h). Every function is [any-thread]. A plugin
 * compares `struct_size` before using an entry that its minimum host lacks. */
#ifndef MOERT_ABI_HOST_H
#define MOERT_ABI_HOST_H

#include <moert/abi/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MOERT_LOG_TRACE = 0,
  MOERT_LOG_DEBUG = 1,
  MOERT_LOG_INFO = 2,
  MOERT_LOG_WARN = 3,
  MOERT_LOG_ERROR = 4,
  MOERT_LOG_HOST_MISBEHAVING = 5, /* the plugin saw the host break a rule of these headers */
  MOERT_LOG_PLUGIN_MISBEHAVING = 6
};

typedef struct moert_host {
  uint32_t struct_size;
  uint32_t abi_minor; /* the host's; effective: the smaller one of host and plugin */
  void* ctx;          /* first argument of every function below              */

  /* Adds a line to the host's log. `message` is one line; the host marks it as a plugin's,
   * without saying whose: all plugins share this table. */
  void (*log)(void* ctx, int32_t level, const char* file, int32_t line, const char* message);

  /* Host memory. `align` is a power of two; 0 bytes gives NULL; NULL when memory is short. Contents
   * are undefined. What alloc gave goes back to free of the same table. */
  void* (*alloc)(void* ctx, uint64_t bytes, uint64_t align);
  void (*free)(void* ctx, void* pointer);

  /* Calls fn(arg, begin, end, worker) over disjoint ranges that cover [0, n), on the host's threads
   * and the caller's, and returns when all are done. `worker` is in [0, num_threads). Ranges are
   * multiples of `grain` but for the last one. Which worker gets which range is not defined, so a
   * result must not depend on it. Must not be called from inside fn. A plugin starts no threads of
   * its own unless its device's toolkit does; but a capturer may have one that only moves bytes to
   * where they belong, and that has ended when destroy returns. */
  void (*parallel_for)(void* ctx, int64_t n, int64_t grain,
                       void (*fn)(void* arg, int64_t begin, int64_t end, int32_t worker), void* arg);
  int32_t (*num_threads)(void* ctx); /* >= 1, constant */

  /* A further table by its id, e.g. "moert.host.trace/1", or NULL. Valid as long as this table. */
  const void* (*extension)(void* ctx, const char* id);
} moert_host_t;

#ifdef __cplusplus
}
#endif
#endif
