// Base class of implementations of moert.pluggable_layer/1. Contracts: abi/pluggable_layer.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/pluggable_layer.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

// Derive, and add kFeature, static supports(Host, moert_layer_spec_t) and a constructor
// (Host, moert_layer_spec_t, Options) that copies what it keeps.
class PluggableLayer {
 public:
  virtual ~PluggableLayer() = default;
  virtual void load(const char* name, const moert_tensor_t& tensor) = 0;
  virtual void finish() = 0;
  virtual uint64_t workspace(int64_t /*tokens*/) { return 0; }
  virtual void forward(const moert_layer_args_t& args) = 0;

  struct Kind {
    static constexpr const char* id = MOERT_KIND_PLUGGABLE_LAYER;
    template <class T>
    static const moert_pluggable_layer_t table;
  };
};

namespace detail {
template <class T>
struct PluggableLayerAdapter : Lifecycle<T, PluggableLayer, moert_layer_spec_t> {
  using Base = PluggableLayer;
  static moert_code_t load(void* self, const char* name, const moert_tensor_t* tensor,
                           moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.load(name, intake(tensor)); });
  }
  static moert_code_t finish(void* self, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.finish(); });
  }
  static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes,
                                moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { *bytes = it.workspace(tokens); });
  }
  static moert_code_t forward(void* self, const moert_layer_args_t* args,
                              moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.forward(intake(args)); });
  }
};
}  // namespace detail

template <class T>
constexpr moert_pluggable_layer_t PluggableLayer::Kind::table = {
    sizeof(moert_pluggable_layer_t),
    0,
    &detail::PluggableLayerAdapter<T>::supports,
    &detail::PluggableLayerAdapter<T>::create,
    &detail::PluggableLayerAdapter<T>::destroy,
    &detail::PluggableLayerAdapter<T>::load,
    &detail::PluggableLayerAdapter<T>::finish,
    &detail::PluggableLayerAdapter<T>::workspace,
    &detail::PluggableLayerAdapter<T>::forward,
};

}  // namespace moert
