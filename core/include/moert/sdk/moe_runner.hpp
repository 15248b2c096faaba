// Base class of implementations of moert.moe_runner/1. Contracts: abi/moe_runner.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/moe_runner.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

// Derive, and add kFeature, static supports(Host, moert_moe_layer_t) and a constructor
// (Host, moert_moe_layer_t, const moert_moe_parts_t*, Options). A constructor that returns owns the
// parts; one that throws must leave them alone.
class MoERunnerInterface {
 public:
  virtual ~MoERunnerInterface() = default;
  virtual void load_expert(const moert_piece_t& piece) = 0;
  virtual void load_router(uint32_t which, const moert_tensor_t& tensor) = 0;
  virtual void load_shared(const moert_piece_t& piece) = 0;
  virtual void finish() = 0;
  virtual uint64_t workspace(int64_t tokens) = 0;
  virtual void forward(const moert_runner_args_t& args) = 0;

  virtual int64_t layer_id() const = 0;
  virtual bool is_monolithic() const = 0;
  virtual const char* activation() const = 0;
  virtual const char* quant_method() const = 0;
  virtual const char* expert_placement() const = 0;
  virtual bool has_shared_experts() const = 0;

  virtual void set_expert_map(const moert_tensor_t& map) = 0;
  virtual void expert_map(const moert_tensor_t& map) const = 0;
  virtual void load_statistics(const moert_tensor_t& counts, bool reset) = 0;

  virtual uint64_t bundle_bytes() { throw PluginError(MOERT_UNIMPLEMENTED, "no bundles"); }
  virtual void read_expert(int64_t /*expert*/, void* /*bundle*/, uint64_t /*bytes*/,
                           const moert_stream_t*) {
    throw PluginError(MOERT_UNIMPLEMENTED, "no bundles");
  }
  virtual void write_expert(int64_t /*expert*/, const void* /*bundle*/, uint64_t /*bytes*/,
                            const moert_stream_t*) {
    throw PluginError(MOERT_UNIMPLEMENTED, "no bundles");
  }

  virtual void load_layer(const moert_piece_t&) {
    throw PluginError(MOERT_UNIMPLEMENTED, "the layer has no tensors of its own");
  }

  struct Kind {
    static constexpr const char* id = MOERT_KIND_MOE_RUNNER;
    template <class T>
    static const moert_moe_runner_t table;
  };
};

namespace detail {

inline moert_runner_info_t runner_info(const MoERunnerInterface& it) {
  return {sizeof(moert_runner_info_t),
          it.is_monolithic() ? 1u : 0u,
          it.layer_id(),
          it.activation(),
          it.quant_method(),
          it.expert_placement(),
          it.has_shared_experts() ? 1u : 0u,
          0};
}

template <class T>
struct MoERunnerAdapter {
  using Base = MoERunnerInterface;
  static moert_code_t supports(const moert_host_t* host, const moert_moe_layer_t* layer,
                               moert_support_t* out, moert_error_t* error) noexcept {
    return guarded(error, T::kFeature.name,
                   [&] { write_support(T::supports(Host(host), intake(layer)), out); });
  }
  static moert_code_t create(const moert_host_t* host, const moert_moe_layer_t* layer,
                             const moert_moe_parts_t* parts, const moert_kv_t* options,
                             uint32_t n_options, void** self, moert_error_t* error) noexcept {
    return guarded(error, T::kFeature.name, [&] {
      Base* base = new T(Host(host), intake(layer), parts, Options(options, n_options));
      *self = base;
    });
  }
  static void destroy(void* self) noexcept { delete static_cast<Base*>(self); }
  static moert_code_t load_expert(void* self, const moert_piece_t* piece,
                                  moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.load_expert(intake(piece)); });
  }
  static moert_code_t load_router(void* self, uint32_t which, const moert_tensor_t* tensor,
                                  moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.load_router(which, intake(tensor)); });
  }
  static moert_code_t load_shared(void* self, const moert_piece_t* piece,
                                  moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.load_shared(intake(piece)); });
  }
  static moert_code_t finish(void* self, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.finish(); });
  }
  static moert_code_t info(void* self, moert_runner_info_t* out, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) {
      const moert_runner_info_t info = runner_info(it);
      const uint32_t size = out->struct_size;
      std::memcpy(out, &info, std::min<size_t>(size, sizeof info));
      out->struct_size = size;
    });
  }
  static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes,
                                moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { *bytes = it.workspace(tokens); });
  }
  static moert_code_t forward(void* self, const moert_runner_args_t* args,
                              moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.forward(intake(args)); });
  }
  static moert_code_t set_expert_map(void* self, const moert_tensor_t* map,
                                     moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.set_expert_map(intake(map)); });
  }
  static moert_code_t expert_map(void* self, const moert_tensor_t* map,
                                 moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.expert_map(intake(map)); });
  }
  static moert_code_t load_statistics(void* self, const moert_tensor_t* counts, uint32_t reset,
                                      moert_error_t* error) noexcept {
    return call<T, Base>(self, error,
                         [&](Base& it) { it.load_statistics(intake(counts), reset != 0); });
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
  static moert_code_t load_layer(void* self, const moert_piece_t* piece,
                                 moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.load_layer(intake(piece)); });
  }
};
}  // namespace detail

template <class T>
constexpr moert_moe_runner_t MoERunnerInterface::Kind::table = {
    sizeof(moert_moe_runner_t),
    0,
    &detail::MoERunnerAdapter<T>::supports,
    &detail::MoERunnerAdapter<T>::create,
    &detail::MoERunnerAdapter<T>::destroy,
    &detail::MoERunnerAdapter<T>::load_expert,
    &detail::MoERunnerAdapter<T>::load_router,
    &detail::MoERunnerAdapter<T>::load_shared,
    &detail::MoERunnerAdapter<T>::finish,
    &detail::MoERunnerAdapter<T>::info,
    &detail::MoERunnerAdapter<T>::workspace,
    &detail::MoERunnerAdapter<T>::forward,
    &detail::MoERunnerAdapter<T>::set_expert_map,
    &detail::MoERunnerAdapter<T>::expert_map,
    &detail::MoERunnerAdapter<T>::load_statistics,
    &detail::MoERunnerAdapter<T>::bundle_bytes,
    &detail::MoERunnerAdapter<T>::read_expert,
    &detail::MoERunnerAdapter<T>::write_expert,
    &detail::MoERunnerAdapter<T>::load_layer,
};

}  // namespace moert
