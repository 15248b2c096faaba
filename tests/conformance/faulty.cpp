// A plugin that is another one with a fault: shows that the suite finds the fault.
// SPDX-License-Identifier: Apache-2.0
//
// MOERT_FAULTY_TARGET names the file of the other plugin, MOERT_FAULT the fault. Only the features that
// have the fault are offered, the first of their kind, or with MOERT_FAULTY_WHOLE=1 the others beside them, as they are:
// those that they are composed of, or that run on them.
#include <dlfcn.h>
#include <moert/abi/entry.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "faulty.hpp"

namespace moert::faulty {
namespace {

template <class Table>
const void* spoil(const moert_feature_t& feature, const Table*& theirs, Table& own,
                  bool (*put)(std::string_view), std::string_view fault) {
  theirs = static_cast<const Table*>(feature.table);
  own = *theirs;
  return put(fault) ? &own : nullptr;
}

const void* spoiled(const moert_feature_t& feature, std::string_view fault) {
  const std::string_view kind = feature.kind;
  if (kind == MOERT_KIND_ROUTED_EXPERTS)
    return spoil(feature, experts, own_experts, spoil_experts, fault);
  if (kind == MOERT_KIND_SHARED_EXPERTS)
    return spoil(feature, shared, own_shared, spoil_shared, fault);
  if (kind == MOERT_KIND_ROUTER) return spoil(feature, router, own_router, spoil_router, fault);
  if (kind == MOERT_KIND_QUANT_METHOD) return spoil(feature, quant, own_quant, spoil_quant, fault);
  if (kind == MOERT_KIND_CAPTURER)
    return spoil(feature, capturer, own_capturer, spoil_capturer, fault);
  if (kind == MOERT_KIND_MOE_RUNNER) return spoil(feature, runner, own_runner, spoil_runner, fault);
  if (kind == MOERT_KIND_DEVICE) return spoil(feature, device, own_device, spoil_device, fault);
  return nullptr;
}

const moert_plugin_t* open_target() {
  const char* path = std::getenv("MOERT_FAULTY_TARGET");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, MOERT_ENTRY_SYMBOL);
  if (symbol == nullptr) return nullptr;
  const moert_host_info_t host = {sizeof host, MOERT_ABI_MAJOR, MOERT_ABI_MINOR, 0, "faulty"};
  return reinterpret_cast<moert_plugin_query_fn>(symbol)(&host);
}

const moert_plugin_t* target() {
  static const moert_plugin_t* const opened = open_target();
  return opened;
}

const moert_plugin_t* build() {
  static std::map<std::string_view, moert_feature_t> with_fault;  // by kind
  static std::vector<const moert_feature_t*> features;
  static moert_plugin_t plugin;
  const moert_plugin_t* other = target();
  const char* fault = std::getenv("MOERT_FAULT");
  if (other == nullptr || fault == nullptr) return nullptr;
  const bool whole = std::getenv("MOERT_FAULTY_WHOLE") != nullptr;
  device = static_cast<const moert_device_t*>(table_of(MOERT_KIND_DEVICE));
  for (uint32_t i = 0; i < other->n_features; ++i) {
    const moert_feature_t& feature = *other->features[i];
    const void* table = with_fault.contains(feature.kind) ? nullptr : spoiled(feature, fault);
    if (table != nullptr) {
      moert_feature_t& copy = with_fault[feature.kind] = feature;
      copy.table = table;
      features.push_back(&copy);
    } else if (whole) {
      features.push_back(&feature);
    }
  }
  if (with_fault.empty()) return nullptr;
  plugin = *other;
  plugin.features = features.data();
  plugin.n_features = static_cast<uint32_t>(features.size());
  return &plugin;
}

}  // namespace

const void* table_of(std::string_view kind) {
  const moert_plugin_t* other = target();
  for (uint32_t i = 0; other != nullptr && i < other->n_features; ++i)
    if (other->features[i]->kind == kind) return other->features[i]->table;
  return nullptr;
}

}  // namespace moert::faulty

MOERT_DEFINE_NOTE("org.moert.faulty", "0.1.0", 0u);
extern "C" MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t*) {
  static const moert_plugin_t* const plugin = moert::faulty::build();
  return plugin;
}
