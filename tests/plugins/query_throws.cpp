// Its entry function throws.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include <moert/abi/entry.h>

MOERT_DEFINE_NOTE("org.zoo.query_throws", "1.0.0", 0u);

extern "C" MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t*) {
  throw std::runtime_error("thrown by the entry function");
}
