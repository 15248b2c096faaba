/* What a plugin is: one exported function, one descriptor, one ELF note.
 * SPDX-License-Identifier: Apache-2.0
 *
 * DRAFT. Growth: structs begin with struct_size and only ever grow at their end; the reader takes
 * bytes beyond the writer's size as zero. The ABI major is part of the symbol's name. Within a major
 * the effective minor is the smaller one of host and plugin; there is no test for equality. */
#ifndef MOERT_ABI_ENTRY_H
#define MOERT_ABI_ENTRY_H

#include <moert/abi/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOERT_ABI_MAJOR 1u
#define MOERT_ABI_MINOR 0u
#define MOERT_ENTRY_SYMBOL "moert_plugin_query_v1"

/* One implementation of one kind. `kind` is "<namespace>.<name>/<revision>"; a kind that the host
 * does not know is reported and skipped. `name` is unique within the kind and begins with the
 * plugin's short name: "cpu.ref". `caps` are facts that need no device, for listing and filtering:
 * "device", "schemes", "activations", "licence"... `table` is the kind's table of functions. */
typedef struct moert_feature {
  uint32_t struct_size;
  int32_t rank; /* MOERT_RANK_*; third-party plugins are clamped to MOERT_RANK_GOOD */
  const char* kind;
  const char* name;
  const moert_kv_t* caps;
  uint32_t n_caps;
  uint32_t flags; /* MOERT_FEATURE_* */
  const void* table;
} moert_feature_t;

enum { MOERT_RANK_REFERENCE = 0, MOERT_RANK_LOW = 64, MOERT_RANK_GOOD = 128, MOERT_RANK_BEST = 256 };
enum { MOERT_FEATURE_PIN_ONLY = 1u << 0 /* never chosen unless it is named */ };

/* Constant data of the plugin, valid as long as the library is mapped. */
typedef struct moert_plugin {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;      /* the minor that the plugin was built for          */
  uint32_t min_host_minor; /* the oldest host that it can live with            */
  const char* id;          /* reverse domain name, e.g. "org.example.fast_moe" */
  const char* name;        /* short name, e.g. "fast"; [a-z0-9_]+              */
  const char* vendor;
  const char* version;     /* semantic version "1.2.3" */
  const char* build_info;  /* compiler, toolkit; may be NULL */
  const moert_feature_t* const* features; /* array of pointers, so that a feature can grow */
  uint32_t n_features;
  uint32_t flags;
  /* Each Runtime of a process calls init once before it uses any table and, if that returned OK,
   * deinit once at its orderly shutdown. [main-thread]. All share the mapped library, so init may
   * come again before deinit: a plugin counts, and gives up what it holds at the last deinit.
   * `host` is valid until the matching deinit, that of the same Runtime. Runtimes end in any order
   * and deinit does not say whose it is, so an object keeps the table that create gave it, not this
   * one. init that fails leaves nothing behind; its plugin's features are then not registered in
   * that Runtime. Either may be NULL. */
  moert_code_t (*init)(const moert_host_t* host, const moert_kv_t* options, uint32_t n_options,
                       moert_error_t* error);
  void (*deinit)(void);
} moert_plugin_t;

typedef struct moert_host_info {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t flags;
  const char* core_version;
} moert_host_info_t;

/* The one exported symbol. Pure: no allocation, no device call, no thread, no output; may be called
 * any number of times. NULL: cannot serve this host. [any-thread] */
typedef const moert_plugin_t* (*moert_plugin_query_fn)(const moert_host_info_t* host);

/* ELF note, section ".note.moert", owner "MOERT", type 1. The host judges a file by it before the
 * file is mapped, so it repeats what decides whether mapping is safe. Little endian, fixed size:
 * a later revision appends and raises desc_size. Texts are NUL-padded. */
#define MOERT_NOTE_OWNER "MOERT"
#define MOERT_NOTE_TYPE 1u

typedef struct moert_note_desc {
  uint32_t desc_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t min_host_minor;
  uint32_t sanitizer; /* MOERT_SANITIZER_*: must match the host's */
  uint32_t isa;       /* MOERT_ISA_* bits that code outside run-time dispatch needs */
  char id[64];
  char version[24];
} moert_note_desc_t;

enum { MOERT_SANITIZER_NONE = 0, MOERT_SANITIZER_ADDRESS = 1, MOERT_SANITIZER_THREAD = 2 };
enum { MOERT_ISA_AVX2_FMA = 1u << 0, MOERT_ISA_AVX512 = 1u << 1 /* F, BW, VL, DQ */ };

#if defined(__SANITIZE_ADDRESS__)
#define MOERT_BUILD_SANITIZER MOERT_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define MOERT_BUILD_SANITIZER MOERT_SANITIZER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOERT_BUILD_SANITIZER MOERT_SANITIZER_ADDRESS
#endif
#endif
#ifndef MOERT_BUILD_SANITIZER
#define MOERT_BUILD_SANITIZER MOERT_SANITIZER_NONE
#endif

#if defined(__AVX512F__)
#define MOERT_BUILD_ISA (MOERT_ISA_AVX2_FMA | MOERT_ISA_AVX512)
#elif defined(__AVX2__)
#define MOERT_BUILD_ISA MOERT_ISA_AVX2_FMA
#else
#define MOERT_BUILD_ISA 0u
#endif

/* Defines the note. Once per library, in the file that defines the entry function. */
#define MOERT_DEFINE_NOTE(plugin_id, plugin_version, oldest_host_minor)                           \
  static const struct {                                                                           \
    uint32_t name_size, desc_size, type;                                                          \
    char owner[8];                                                                                \
    moert_note_desc_t desc;                                                                       \
  } moert_plugin_note __attribute__((section(".note.moert"), used, aligned(4))) = {               \
      6u, (uint32_t)sizeof(moert_note_desc_t), MOERT_NOTE_TYPE, MOERT_NOTE_OWNER,                 \
      {(uint32_t)sizeof(moert_note_desc_t), MOERT_ABI_MAJOR, MOERT_ABI_MINOR, oldest_host_minor,  \
       MOERT_BUILD_SANITIZER, MOERT_BUILD_ISA, plugin_id, plugin_version}}

#define MOERT_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
}
#endif
#endif
