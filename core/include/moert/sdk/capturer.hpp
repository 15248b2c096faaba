// Base class of implementations of moert.capturer/1. Contracts: abi/capturer.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/capturer.h>
#include <moert/sdk/adapter.hpp>

namespace moert {

// Derive, and add kFeature, static supports(Host, moert_capture_spec_t) and a constructor
// (Host, moert_capture_spec_t, Options) that copies what it keeps.
class RoutedExpertsCapturer {
 public:
  virtual ~RoutedExpertsCapturer() = default;
  virtual void begin(const moert_capture_step_t& step) = 0;
  virtual void record(const moert_capture_record_t& record) = 0;
  virtual void end() = 0;
  virtual void abort() = 0;
  virtual void drop(int64_t sequence, int64_t position) = 0;
  virtual void commit(int64_t sequence, int64_t position) = 0;
  virtual void flush() {}
  virtual void read(moert_capture_rows_t& /*rows*/) {
    throw PluginError(MOERT_UNIMPLEMENTED, "this capturer keeps no rows to read back");
  }
  virtual void counts(moert_capture_counts_t& out) = 0;

  struct Kind {
    static constexpr const char* id = MOERT_KIND_CAPTURER;
    template <class T>
    static const moert_capturer_t table;
  };
};

namespace detail {
template <class T>
struct CapturerAdapter : Lifecycle<T, RoutedExpertsCapturer, moert_capture_spec_t> {
  using Base = RoutedExpertsCapturer;
  static moert_code_t begin(void* self, const moert_capture_step_t* step,
                            moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.begin(intake(step)); });
  }
  static moert_code_t record(void* self, const moert_capture_record_t* record,
                             moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.record(intake(record)); });
  }
  static moert_code_t end(void* self, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.end(); });
  }
  static moert_code_t abort(void* self, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.abort(); });
  }
  static moert_code_t drop(void* self, int64_t sequence, int64_t position,
                           moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.drop(sequence, position); });
  }
  static moert_code_t commit(void* self, int64_t sequence, int64_t position,
                             moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.commit(sequence, position); });
  }
  static moert_code_t flush(void* self, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) { it.flush(); });
  }
  static moert_code_t read(void* self, moert_capture_rows_t* rows, moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) {
      moert_capture_rows_t full = intake(rows);
      it.read(full);
      rows->written = full.written;
    });
  }
  static moert_code_t counts(void* self, moert_capture_counts_t* out,
                             moert_error_t* error) noexcept {
    return call<T, Base>(self, error, [&](Base& it) {
      moert_capture_counts_t full = intake(out);
      it.counts(full);
      full.struct_size = out->struct_size;
      std::memcpy(out, &full, std::min<size_t>(out->struct_size, sizeof full));
    });
  }
};
}  // namespace detail

template <class T>
constexpr moert_capturer_t RoutedExpertsCapturer::Kind::table = {
    sizeof(moert_capturer_t),
    0,
    &detail::CapturerAdapter<T>::supports,
    &detail::CapturerAdapter<T>::create,
    &detail::CapturerAdapter<T>::destroy,
    &detail::CapturerAdapter<T>::begin,
    &detail::CapturerAdapter<T>::record,
    &detail::CapturerAdapter<T>::end,
    &detail::CapturerAdapter<T>::abort,
    &detail::CapturerAdapter<T>::drop,
    &detail::CapturerAdapter<T>::commit,
    &detail::CapturerAdapter<T>::flush,
    &detail::CapturerAdapter<T>::read,
    &detail::CapturerAdapter<T>::counts,
};

}  // namespace moert
