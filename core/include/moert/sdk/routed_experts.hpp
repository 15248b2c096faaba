// Base class of implementations of moert.routed_experts/1. Contracts: abi/routed_experts.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/routed_experts.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

// Derive, and add:
//   static constexpr FeatureInfo kFeature = {"fast.experts"};
//   static Support supports(const Host&, const moert_moe_problem_t&);
//   YourExperts(const Host&, const moert_moe_problem_t&, const Options&);   // copies what it keeps
class RoutedExperts {
 public:
  virtual ~RoutedExperts() = default;
  virtual void load(const moert_piece_t& piece) = 0;
  virtual void finish() = 0;
  virtual uint64_t workspace(int64_t /*tokens*/) { return 0; }
  virtual void forward(const moert_experts_args_t& args) = 0;

  // One expert as a bundle; override all three or none.
  virtual uint64_t bundle_bytes() { throw PluginError(MOERT_UNIMPLEMENTED, "no bundles"); }
  virtual void read_expert(int64_t /*expert*/, void* /*bundle*/, uint64_t /*bytes*/,
                           const moert_stream_t*) {
    throw PluginError(MOERT_UNIMPLEMENTED, "no bundles");
  }
  virtual void write_expert(int64_t /*expert*/, const void* /*bundle*/, uint64_t /*bytes*/,
                            const moert_stream_t*) {
    throw PluginError(MOERT_UNIMPLEMENTED, "no bundles");
  }

  struct Kind {
    static constexpr const char* id = MOERT_KIND_ROUTED_EXPERTS;
    template <class T>
    static const moert_routed_experts_t table;
  };
};

namespace detail {
template <class T>
struct RoutedExpertsAdapter : Lifecycle<T, RoutedExperts, moert_moe_problem_t> {
  using Base = RoutedExperts;
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
  static moert_code_t forward(void* self, const moert_experts_args_t* args,
                              moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.forward(intake(args)); });
  }
  static moert_code_t bundle_bytes(void* self, uint64_t* bytes, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { *bytes = it.bundle_bytes(); });
  }
  static moert_code_t read_expert(void* self, int64_t expert, void* bundle, uint64_t bytes,
                                  const moert_stream_t* stream, moert_error_t* error) noexcept {
    return call<T, Base>(self, error,
                         [&](Base& it) { it.read_expert(expert, bundle, bytes, stream); });
  }
  static moert_code_t write_expert(void* self, int64_t expert, const void* bundle, uint64_t bytes,
                                   const moert_stream_t* stream, moert_error_t* error) noexcept {
    return call<T, Base>(self, error,
                         [&](Base& it) { it.write_expert(expert, bundle, bytes, stream); });
  }
};
}  // namespace detail

template <class T>
constexpr moert_routed_experts_t RoutedExperts::Kind::table = {
    sizeof(moert_routed_experts_t),
    0,
    &detail::RoutedExpertsAdapter<T>::supports,
    &detail::RoutedExpertsAdapter<T>::create,
    &detail::RoutedExpertsAdapter<T>::destroy,
    &detail::RoutedExpertsAdapter<T>::load,
    &detail::RoutedExpertsAdapter<T>::finish,
    &detail::RoutedExpertsAdapter<T>::workspace,
    &detail::RoutedExpertsAdapter<T>::forward,
    &detail::RoutedExpertsAdapter<T>::bundle_bytes,
    &detail::RoutedExpertsAdapter<T>::read_expert,
    &detail::RoutedExpertsAdapter<T>::write_expert,
};

}  // namespace moert
