/* A complete plugin in C11. Definitions on the command line break one thing each.
 * SPDX-License-Identifier: Apache-2.0 */
#include <moert/abi/entry.h>
#include <moert/abi/pluggable_layer.h>

#ifndef ZOO_ID
#define ZOO_ID "org.zoo.c"
#endif
#ifndef ZOO_NAME
#define ZOO_NAME "zoo_c"
#endif
#ifndef ZOO_VENDOR
#define ZOO_VENDOR "The zoo"
#endif
#ifndef ZOO_VERSION
#define ZOO_VERSION "1.0.0"
#endif
#ifndef ZOO_MAJOR
#define ZOO_MAJOR MOERT_ABI_MAJOR
#endif
#ifndef ZOO_HOST_MINOR
#define ZOO_HOST_MINOR 0
#endif
#ifndef ZOO_SIZE
#define ZOO_SIZE sizeof(moert_plugin_t)
#endif
#ifndef ZOO_FEATURES
#define ZOO_FEATURES features
#endif
#ifndef ZOO_COUNT
#define ZOO_COUNT 1
#endif
#ifndef ZOO_FEATURE
#define ZOO_FEATURE &feature
#endif
#ifndef ZOO_FEATURE_NAME
#define ZOO_FEATURE_NAME "zoo_c.layer"
#endif
#ifndef ZOO_TABLE_SIZE
#define ZOO_TABLE_SIZE sizeof(moert_pluggable_layer_t)
#endif
#ifndef ZOO_FORWARD
#define ZOO_FORWARD forward
#endif
#ifndef ZOO_INIT
#define ZOO_INIT succeed
#endif

#ifndef ZOO_NO_NOTE
#ifndef ZOO_NOTE_ID
#define ZOO_NOTE_ID "org.zoo.c"
#endif
#ifndef ZOO_NOTE_VERSION
#define ZOO_NOTE_VERSION "1.0.0"
#endif
#ifndef ZOO_NOTE_HOST_MINOR
#define ZOO_NOTE_HOST_MINOR 0u
#endif
#ifdef ZOO_NOTE_MAJOR
#undef MOERT_ABI_MAJOR
#define MOERT_ABI_MAJOR ZOO_NOTE_MAJOR
#endif
MOERT_DEFINE_NOTE(ZOO_NOTE_ID, ZOO_NOTE_VERSION, ZOO_NOTE_HOST_MINOR);
#endif

#ifdef ZOO_CALLS
int ZOO_CALLS(void);
#endif

#ifndef ZOO_NO_ENTRY
static moert_code_t supports(const moert_host_t* host, const moert_layer_spec_t* spec,
                             moert_support_t* out, moert_error_t* error) {
  (void)host, (void)spec, (void)error;
  out->verdict = 1;
  return MOERT_OK;
}
static int object;
static moert_code_t create(const moert_host_t* host, const moert_layer_spec_t* spec,
                           const moert_kv_t* options, uint32_t n_options, void** self,
                           moert_error_t* error) {
  (void)host, (void)spec, (void)options, (void)n_options, (void)error;
  *self = &object;
  return MOERT_OK;
}
static void destroy(void* self) { (void)self; }
static moert_code_t load(void* self, const char* name, const moert_tensor_t* tensor,
                         moert_error_t* error) {
  (void)self, (void)name, (void)tensor, (void)error;
  return MOERT_OK;
}
static moert_code_t finish(void* self, moert_error_t* error) {
  (void)self, (void)error;
  return MOERT_OK;
}
static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error) {
  (void)self, (void)tokens, (void)error;
  *bytes = 0;
  return MOERT_OK;
}
moert_code_t forward(void* self, const moert_layer_args_t* args, moert_error_t* error);
moert_code_t forward(void* self, const moert_layer_args_t* args, moert_error_t* error) {
  (void)self, (void)args, (void)error;
#ifdef ZOO_CALLS
  return ZOO_CALLS();
#else
  return MOERT_OK;
#endif
}

static void say(char* to, const char* text) {
  while ((*to++ = *text++) != 0) {
  }
}
moert_code_t succeed(const moert_host_t* host, const moert_kv_t* options, uint32_t n_options,
                     moert_error_t* error);
moert_code_t succeed(const moert_host_t* host, const moert_kv_t* options, uint32_t n_options,
                     moert_error_t* error) {
  (void)options, (void)error;
  if (host == 0) return MOERT_INVALID_ARGUMENT;
  /* The test sees through this call that init ran, and with how many options. */
  host->log(host->ctx, MOERT_LOG_INFO, __FILE__, (int32_t)n_options, "init");
  return MOERT_OK;
}
moert_code_t fail(const moert_host_t* host, const moert_kv_t* options, uint32_t n_options,
                  moert_error_t* error);
moert_code_t fail(const moert_host_t* host, const moert_kv_t* options, uint32_t n_options,
                  moert_error_t* error) {
  (void)host, (void)options, (void)n_options;
  say(error->where, "zoo.init");
  say(error->message, "no driver\nfound");
  return error->code = MOERT_UNAVAILABLE;
}
static void deinit(void) {}

static const moert_pluggable_layer_t table = {
    ZOO_TABLE_SIZE, 0, supports, create, destroy, load, finish, workspace, ZOO_FORWARD};
static const moert_kv_t caps[] = {{"device", "cpu"}};
const moert_feature_t feature = {sizeof(moert_feature_t),
                                 MOERT_RANK_BEST,
                                 MOERT_KIND_PLUGGABLE_LAYER,
                                 ZOO_FEATURE_NAME,
                                 caps,
                                 1,
                                 0,
                                 &table};
const moert_feature_t* const features[] = {ZOO_FEATURE};
static const moert_plugin_t plugin = {
    ZOO_SIZE,    ZOO_MAJOR, MOERT_ABI_MINOR, ZOO_HOST_MINOR, ZOO_ID, ZOO_NAME, ZOO_VENDOR,
    ZOO_VERSION, 0,         ZOO_FEATURES,    ZOO_COUNT,      0,      ZOO_INIT, deinit};

MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host);
MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host) {
#ifdef ZOO_QUERY_NULL
  return host == 0 ? &plugin : 0;
#else
  return host != 0 ? &plugin : 0;
#endif
}
#else
extern const int nothing_here;
const int nothing_here = 0;
#endif
