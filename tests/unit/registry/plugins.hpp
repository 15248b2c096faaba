// Plugins made of plain data, for tests of the registry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <moert/abi/entry.h>
#include <moert/abi/quant_method.h>
#include <moert/abi/router.h>

namespace moert::registry::test {

// Functions of any signature that answer OK and do nothing.
template <class F>
struct Nothing;
template <class... A>
struct Nothing<moert_code_t (*)(A...)> {
  static moert_code_t call(A...) { return MOERT_OK; }
};
template <class... A>
struct Nothing<void (*)(A...)> {
  static void call(A...) {}
};

// A table of functions as memory: struct_size, flags, then pointers. Sets every entry.
template <class F>
void set(F& entry) {
  entry = &Nothing<F>::call;
}

inline moert_router_t router_table() {
  moert_router_t t{};
  t.struct_size = sizeof t;
  set(t.supports), set(t.create), set(t.destroy), set(t.load), set(t.finish), set(t.workspace);
  set(t.logits), set(t.route);
  return t;
}

inline moert_quant_method_t quant_table() {
  moert_quant_method_t t{};
  t.struct_size = sizeof t;
  set(t.supports), set(t.create), set(t.destroy), set(t.parameters), set(t.round_sizes);
  set(t.check), set(t.decode);
  return t;  // encode and quantize_activations are left out
}

// A plugin with features that a test may break. Keep it in place: the records point into it.
class Plugin {
 public:
  explicit Plugin(std::string name, std::string version = "1.0.0")
      : name_(std::move(name)), id_("org.test." + name_), version_(std::move(version)) {}
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  moert_feature_t& feature(const char* kind, const char* name, const void* table,
                           int32_t rank = MOERT_RANK_GOOD) {
    features_.push_back(std::make_unique<moert_feature_t>(
        moert_feature_t{sizeof(moert_feature_t), rank, kind, name, nullptr, 0, 0, table}));
    return *features_.back();
  }
  const moert_plugin_t& get() {
    pointers_.clear();
    for (const auto& feature : features_) pointers_.push_back(feature.get());
    plugin_ = {};
    plugin_.struct_size = sizeof plugin_;
    plugin_.abi_major = MOERT_ABI_MAJOR;
    plugin_.id = id_.c_str();
    plugin_.name = name_.c_str();
    plugin_.vendor = "Test";
    plugin_.version = version_.c_str();
    plugin_.features = pointers_.data();
    plugin_.n_features = static_cast<uint32_t>(pointers_.size());
    return plugin_;
  }

 private:
  std::string name_, id_, version_;
  std::vector<std::unique_ptr<moert_feature_t>> features_;
  std::vector<const moert_feature_t*> pointers_;
  moert_plugin_t plugin_{};
};

}  // namespace moert::registry::test
