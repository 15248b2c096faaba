// Base class of implementations of moert.router/1. Contracts: abi/router.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

// Derive, and add kFeature, static supports(Host, moert_routing_t) and a constructor
// (Host, moert_routing_t, Options) that copies what it keeps.
class Router {
 public:
  virtual ~Router() = default;
  virtual void load(uint32_t which, const moert_tensor_t& tensor) = 0;
  virtual void finish() = 0;
  virtual uint64_t workspace(int64_t /*tokens*/) { return 0; }
  virtual void logits(const moert_router_args_t& args) = 0;
  virtual void route(const moert_router_args_t& args) = 0;

  struct Kind {
    static constexpr const char* id = MOERT_KIND_ROUTER;
    template <class T>
    static const moert_router_t table;
  };
};

namespace detail {
template <class T>
struct RouterAdapter : Lifecycle<T, Router, moert_routing_t> {
  using Base = Router;
  static moert_code_t load(void* self, uint32_t which, const moert_tensor_t* tensor,
                           moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.load(which, intake(tensor)); });
  }
  static moert_code_t finish(void* self, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.finish(); });
  }
  static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes,
                                moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { *bytes = it.workspace(tokens); });
  }
  static moert_code_t logits(void* self, const moert_router_args_t* args,
                             moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.logits(intake(args)); });
  }
  static moert_code_t route(void* self, const moert_router_args_t* args,
                            moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.route(intake(args)); });
  }
};
}  // namespace detail

template <class T>
constexpr moert_router_t Router::Kind::table = {
    sizeof(moert_router_t),
    0,
    &detail::RouterAdapter<T>::supports,
    &detail::RouterAdapter<T>::create,
    &detail::RouterAdapter<T>::destroy,
    &detail::RouterAdapter<T>::load,
    &detail::RouterAdapter<T>::finish,
    &detail::RouterAdapter<T>::workspace,
    &detail::RouterAdapter<T>::logits,
    &detail::RouterAdapter<T>::route,
};

}  // namespace moert
