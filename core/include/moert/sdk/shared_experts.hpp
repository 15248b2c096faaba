// Base class of implementations of moert.shared_experts/1. Contracts: abi/shared_experts.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/shared_experts.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

// Derive, and add kFeature, static supports(Host, moert_shared_problem_t) and a constructor
// (Host, moert_shared_problem_t, Options) that copies what it keeps.
class SharedExperts {
 public:
  virtual ~SharedExperts() = default;
  virtual void load(const moert_piece_t& piece) = 0;
  virtual void finish() = 0;
  virtual uint64_t workspace(int64_t /*tokens*/) { return 0; }
  virtual void forward(const moert_shared_args_t& args) = 0;

  struct Kind {
    static constexpr const char* id = MOERT_KIND_SHARED_EXPERTS;
    template <class T>
    static const moert_shared_experts_t table;
  };
};

namespace detail {
template <class T>
struct SharedExpertsAdapter : Lifecycle<T, SharedExperts, moert_shared_problem_t> {
  using Base = SharedExperts;
  static moert_code_t load(void* self, const moert_piece_t* piece, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.load(intake(piece)); });
  }
  static moert_code_t finish(void* self, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.finish(); });
  }
  static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes,
                                moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { *bytes = it.workspace(tokens); });
  }
  static moert_code_t forward(void* self, const moert_shared_args_t* args,
                              moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.forward(intake(args)); });
  }
};
}  // namespace detail

template <class T>
constexpr moert_shared_experts_t SharedExperts::Kind::table = {
    sizeof(moert_shared_experts_t),
    0,
    &detail::SharedExpertsAdapter<T>::supports,
    &detail::SharedExpertsAdapter<T>::create,
    &detail::SharedExpertsAdapter<T>::destroy,
    &detail::SharedExpertsAdapter<T>::load,
    &detail::SharedExpertsAdapter<T>::finish,
    &detail::SharedExpertsAdapter<T>::workspace,
    &detail::SharedExpertsAdapter<T>::forward,
};

}  // namespace moert
