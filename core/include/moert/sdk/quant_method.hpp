// Base class of implementations of moert.quant_method/1. Contracts: abi/quant_method.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <moert/abi/quant_method.h>
#include <moert/sdk/adapter.hpp>
#include <moert/sdk/tensor.hpp>

namespace moert {

// Derive, and add kFeature, static supports(Host, std::string_view scheme) and a constructor
// (Host, std::string_view scheme, Options). Methods are const: one object serves many threads.
class QuantMethod {
 public:
  virtual ~QuantMethod() = default;
  virtual std::vector<moert_quant_param_t> parameters(int64_t rows, int64_t cols) const = 0;
  virtual void round_sizes(int64_t& /*hidden*/, int64_t& /*intermediate*/) const {}
  virtual void check(const moert_tensor_t& weight) const = 0;
  virtual void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
                      int64_t out_stride) const = 0;
  virtual void encode(const moert_tensor_t& /*source*/, const moert_tensor_t& /*weight*/) const {
    throw PluginError(MOERT_UNIMPLEMENTED, "this format cannot be written");
  }
  // Leaves activations alone unless overridden.
  virtual void quantize_activations(float* /*rows*/, int64_t /*tokens*/, int64_t /*cols*/,
                                    const moert_tensor_t* /*input_scale*/) const {}

  struct Kind {
    static constexpr const char* id = MOERT_KIND_QUANT_METHOD;
    template <class T>
    static const moert_quant_method_t table;
  };
};

namespace detail {
template <class T>
struct QuantMethodAdapter {
  using Base = QuantMethod;
  static moert_code_t supports(const moert_host_t* host, const char* scheme, moert_support_t* out,
                               moert_error_t* error) noexcept {
    return guarded(error, T::kFeature.name,
                   [&] { write_support(T::supports(Host(host), text(scheme)), out); });
  }
  static moert_code_t create(const moert_host_t* host, const char* scheme,
                             const moert_kv_t* options, uint32_t n_options, void** self,
                             moert_error_t* error) noexcept {
    return guarded(error, T::kFeature.name, [&] {
      Base* base = new T(Host(host), text(scheme), Options(options, n_options));
      *self = base;
    });
  }
  static std::string_view text(const char* scheme) {
    if (scheme == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "the scheme is NULL");
    return scheme;
  }
  static void destroy(void* self) noexcept { delete static_cast<Base*>(self); }
  static moert_code_t parameters(void* self, int64_t rows, int64_t cols, moert_quant_param_t* out,
                                 uint32_t capacity, uint32_t* count,
                                 moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](const Base& it) {
      const std::vector<moert_quant_param_t> all = it.parameters(rows, cols);
      *count = static_cast<uint32_t>(all.size());
      for (uint32_t i = 0; i < std::min(capacity, *count); ++i) out[i] = all[i];
    });
  }
  static moert_code_t round_sizes(void* self, int64_t* hidden, int64_t* intermediate,
                                  moert_error_t* error) noexcept {
    return call<T, Base>(self, error,
                         [&](const Base& it) { it.round_sizes(*hidden, *intermediate); });
  }
  static moert_code_t check(void* self, const moert_tensor_t* weight,
                            moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](const Base& it) { it.check(intake(weight)); });
  }
  static moert_code_t decode(void* self, const moert_tensor_t* weight, int64_t row, int64_t rows,
                             float* out, int64_t out_stride, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](const Base& it) {
      it.decode(intake(weight), row, rows, out, out_stride);
    });
  }
  static moert_code_t encode(void* self, const moert_tensor_t* source, const moert_tensor_t* weight,
                             moert_error_t* error) noexcept {
    return call<T, Base>(self, error,
                         [&](const Base& it) { it.encode(intake(source), intake(weight)); });
  }
  static moert_code_t quantize_activations(void* self, float* rows, int64_t tokens, int64_t cols,
                                           const moert_tensor_t* input_scale,
                                           moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](const Base& it) {
      it.quantize_activations(rows, tokens, cols, input_scale);
    });
  }
};
}  // namespace detail

template <class T>
constexpr moert_quant_method_t QuantMethod::Kind::table = {
    sizeof(moert_quant_method_t),
    0,
    &detail::QuantMethodAdapter<T>::supports,
    &detail::QuantMethodAdapter<T>::create,
    &detail::QuantMethodAdapter<T>::destroy,
    &detail::QuantMethodAdapter<T>::parameters,
    &detail::QuantMethodAdapter<T>::round_sizes,
    &detail::QuantMethodAdapter<T>::check,
    &detail::QuantMethodAdapter<T>::decode,
    &detail::QuantMethodAdapter<T>::encode,
    &detail::QuantMethodAdapter<T>::quantize_activations,
};

}  // namespace moert
