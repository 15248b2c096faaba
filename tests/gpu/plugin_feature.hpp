// A feature of another plugin, opened as a library: what a test holds its numbers against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <moert/sdk/adapter.hpp>
#include <string_view>

namespace moert::gpu {

// Host services that every plugin may use here: memory, and work on the caller's thread.
inline const moert_host_t& test_host() {
  static const moert_host_t host = {
      sizeof(moert_host_t),
      MOERT_ABI_MINOR,
      nullptr,
      [](void*, int32_t, const char*, int32_t, const char*) {},
      [](void*, uint64_t bytes, uint64_t align) {
        return bytes == 0 ? nullptr
                          : std::aligned_alloc(align, (bytes + align - 1) / align * align);
      },
      [](void*, void* pointer) { std::free(pointer); },
      [](void*, int64_t n, int64_t, void (*fn)(void*, int64_t, int64_t, int32_t), void* arg) {
        if (n > 0) fn(arg, 0, n, 0);
      },
      [](void*) { return int32_t{1}; },
      [](void*, const char*) { return static_cast<const void*>(nullptr); }};
  return host;
}

// The table of a feature by kind and name, or NULL. Libraries stay open.
template <class Table>
const Table* feature_table(const char* library, std::string_view kind, std::string_view name) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return nullptr;
  const auto query = reinterpret_cast<moert_plugin_query_fn>(dlsym(opened, MOERT_ENTRY_SYMBOL));
  const moert_host_info_t info = {sizeof info, MOERT_ABI_MAJOR, MOERT_ABI_MINOR, 0, "test"};
  const moert_plugin_t* plugin = query == nullptr ? nullptr : query(&info);
  for (uint32_t i = 0; plugin != nullptr && i < plugin->n_features; ++i)
    if (kind == plugin->features[i]->kind && name == plugin->features[i]->name)
      return static_cast<const Table*>(plugin->features[i]->table);
  return nullptr;
}

struct TestError {
  TestError() { record.struct_size = sizeof record; }
  moert_error_t record{};
};

// `call(moert_error_t*)` must be OK.
template <class Call>
void must(const char* what, Call call) {
  TestError error;
  ASSERT_EQ(call(&error.record), MOERT_OK) << what << ": " << error.record.message;
}

}  // namespace moert::gpu
