// Its init function throws.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include <moert/abi/entry.h>

MOERT_DEFINE_NOTE("org.zoo.init_throws", "1.0.0", 0u);

namespace {

constexpr moert_feature_t kFeature = {
    sizeof(moert_feature_t), 0, "zoo.unknown/1", "init_throws.x", nullptr, 0, 0, nullptr};
constexpr const moert_feature_t* kFeatures[] = {&kFeature};

moert_code_t start(const moert_host_t*, const moert_kv_t*, uint32_t, moert_error_t*) {
  throw std::runtime_error("thrown by init");
}

constexpr moert_plugin_t kPlugin = {sizeof(moert_plugin_t),
                                    MOERT_ABI_MAJOR,
                                    MOERT_ABI_MINOR,
                                    0,
                                    "org.zoo.init_throws",
                                    "init_throws",
                                    "The zoo",
                                    "1.0.0",
                                    nullptr,
                                    kFeatures,
                                    1,
                                    0,
                                    start,
                                    nullptr};

}  // namespace

extern "C" MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t*) {
  return &kPlugin;
}
