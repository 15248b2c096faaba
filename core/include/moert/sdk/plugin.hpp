// Everything a plugin needs: all base classes, and MOERT_PLUGIN.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/capturer.hpp>
#include <moert/sdk/device.hpp>
#include <moert/sdk/moe_runner.hpp>
#include <moert/sdk/pluggable_layer.hpp>
#include <moert/sdk/quant_method.hpp>
#include <moert/sdk/routed_experts.hpp>
#include <moert/sdk/router.hpp>
#include <moert/sdk/shared_experts.hpp>

namespace moert::detail {

template <class T>
inline constexpr moert_feature_t feature_of = {
    sizeof(moert_feature_t), T::kFeature.rank,   T::Kind::id,       T::kFeature.name,
    T::kFeature.caps,        T::kFeature.n_caps, T::kFeature.flags, &T::Kind::template table<T>};

template <class... T>
inline constexpr const moert_feature_t* features_of[] = {&feature_of<T>...};

#if defined(__clang__)
#define MOERT_COMPILER_TEXT "clang " __clang_version__
#else
#define MOERT_COMPILER_TEXT "gcc " __VERSION__
#endif

template <class... T>
constexpr moert_plugin_t plugin_of(const char* id, const char* name, const char* vendor,
                                   const char* version) {
  return {sizeof(moert_plugin_t),
          MOERT_ABI_MAJOR,
          MOERT_ABI_MINOR,
          0,
          id,
          name,
          vendor,
          version,
          MOERT_COMPILER_TEXT,
          features_of<T...>,
          sizeof...(T),
          0,
          nullptr,
          nullptr};
}

}  // namespace moert::detail

// MOERT_PLUGIN("org.example.fast", "fast", "Example", "1.0.0", FastExperts, FastRouter)
// Once per library, outside any namespace: defines the ELF note, the descriptor (constant data: no
// constructor runs when the library is opened) and the one exported symbol.
#define MOERT_PLUGIN(id, name, vendor, version, ...)                                  \
  MOERT_DEFINE_NOTE(id, version, 0u);                                                 \
  extern "C" MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(                \
      const moert_host_info_t* host) noexcept {                                       \
    static constexpr moert_plugin_t plugin =                                          \
        moert::detail::plugin_of<__VA_ARGS__>(id, name, vendor, version);             \
    return host != nullptr && host->abi_major == MOERT_ABI_MAJOR ? &plugin : nullptr; \
  }
