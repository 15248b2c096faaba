// A plugin file, opened, and the features that it offers.
// SPDX-License-Identifier: Apache-2.0
#include "plugin.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <moert/sdk/error.hpp>

namespace moert::conformance {
namespace {

const moert_plugin_t* open_plugin(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).string();
  // Never closed: features are used until the end of the program.
  void* library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(path + ": " + dlerror());
  void* symbol = dlsym(library, MOERT_ENTRY_SYMBOL);
  if (symbol == nullptr) throw std::runtime_error(path + ": no symbol " MOERT_ENTRY_SYMBOL);
  const auto query = reinterpret_cast<moert_plugin_query_fn>(symbol);
  const moert_host_info_t host = {sizeof(moert_host_info_t), MOERT_ABI_MAJOR, MOERT_ABI_MINOR, 0,
                                  "conformance"};
  const moert_plugin_t* plugin = query(&host);
  if (plugin == nullptr)
    throw std::runtime_error(path + ": the plugin cannot serve ABI " +
                             std::to_string(MOERT_ABI_MAJOR) + "." +
                             std::to_string(MOERT_ABI_MINOR));
  return plugin;
}

std::string kind_word(const char* kind) {
  const std::string text(kind);
  const size_t dot = text.rfind('.');
  const size_t first = dot == std::string::npos ? 0 : dot + 1;
  return text.substr(first, text.find('/') - first);
}

}  // namespace

std::string Feature::cap(std::string_view key) const {
  for (uint32_t i = 0; i < record->n_caps; ++i)
    if (key == record->caps[i].key) return record->caps[i].value;
  return {};
}

std::vector<Feature> open_plugins(const std::vector<std::string>& paths) {
  std::vector<Feature> features;
  for (const std::string& path : paths) {
    const moert_plugin_t* plugin = open_plugin(path);
    for (uint32_t i = 0; i < plugin->n_features; ++i)
      features.push_back(
          {plugin->features[i], nullptr, kind_word(plugin->features[i]->kind), plugin});
  }
  for (Feature& feature : features)
    for (const Feature& other : features)
      if (std::string_view(other.record->kind) == MOERT_KIND_DEVICE &&
          other.cap("device") == feature.cap("device"))
        feature.device = static_cast<const moert_device_t*>(other.record->table);
  return features;
}

}  // namespace moert::conformance
