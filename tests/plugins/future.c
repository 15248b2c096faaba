/* A plugin of a later minor: larger records with poison in their tails, kinds that nobody knows yet, and
 * flag bits without a meaning.
 * SPDX-License-Identifier: Apache-2.0 */
#include <moert/abi/entry.h>
#include <moert/abi/pluggable_layer.h>

/* The note is larger too, so it is written out. */
static const struct {
  uint32_t name_size, desc_size, type;
  char owner[8];
  moert_note_desc_t desc;
  unsigned char poison[16];
} note __attribute__((section(".note.moert"), used, aligned(4))) = {
    6u,
    (uint32_t)sizeof(moert_note_desc_t) + 16u,
    MOERT_NOTE_TYPE,
    MOERT_NOTE_OWNER,
    {(uint32_t)sizeof(moert_note_desc_t) + 16u, MOERT_ABI_MAJOR, 9u, 0u, MOERT_BUILD_SANITIZER, 0u,
     "org.zoo.future", "9.0.0"},
    {0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF, 0xEF,
     0xEF}};

static moert_code_t supports(const moert_host_t* host, const moert_layer_spec_t* spec,
                             moert_support_t* out, moert_error_t* error) {
  (void)host, (void)spec, (void)error;
  out->verdict = 1;
  return MOERT_OK;
}
static moert_code_t create(const moert_host_t* host, const moert_layer_spec_t* spec,
                           const moert_kv_t* options, uint32_t n_options, void** self,
                           moert_error_t* error) {
  (void)host, (void)spec, (void)options, (void)n_options, (void)self, (void)error;
  return MOERT_UNIMPLEMENTED;
}
static void destroy(void* self) { (void)self; }
static moert_code_t load(void* self, const char* name, const moert_tensor_t* tensor,
                         moert_error_t* error) {
  (void)self, (void)name, (void)tensor, (void)error;
  return MOERT_UNIMPLEMENTED;
}
static moert_code_t finish(void* self, moert_error_t* error) {
  (void)self, (void)error;
  return MOERT_UNIMPLEMENTED;
}
static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error) {
  (void)self, (void)tokens, (void)bytes, (void)error;
  return MOERT_UNIMPLEMENTED;
}
static moert_code_t forward(void* self, const moert_layer_args_t* args, moert_error_t* error) {
  (void)self, (void)args, (void)error;
  return MOERT_UNIMPLEMENTED;
}

#define POISON {0xEFEFEFEFEFEFEFEFu, 0xEFEFEFEFEFEFEFEFu, 0xEFEFEFEFEFEFEFEFu, 0xEFEFEFEFEFEFEFEFu}

static const struct {
  moert_pluggable_layer_t known;
  uint64_t poison[4];
} table = {{sizeof(moert_pluggable_layer_t) + 32, 0x80000000u, supports, create, destroy, load,
            finish, workspace, forward},
           POISON};

struct future_feature {
  moert_feature_t known;
  uint64_t poison[4];
};
#define FEATURE(kind, name, table) \
  {{sizeof(struct future_feature), 1000, kind, name, 0, 0, 0x40000000u, table}, POISON}
static const struct future_feature layer =
    FEATURE(MOERT_KIND_PLUGGABLE_LAYER, "future.layer", &table.known);
static const struct future_feature teleport = FEATURE("moert.teleport/1", "future.teleport", 0);
static const struct future_feature router = FEATURE("moert.router/2", "future.router", 0);
static const moert_feature_t* const features[] = {&teleport.known, &layer.known, &router.known};

static const struct {
  moert_plugin_t known;
  uint64_t poison[4];
} plugin = {{sizeof(moert_plugin_t) + 32, MOERT_ABI_MAJOR, 9, 0, "org.zoo.future", "future",
             "The zoo", "9.0.0", 0, features, 3, 0x80000001u, 0, 0},
            POISON};

MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host);
MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host) {
  (void)host;
  return &plugin.known;
}
