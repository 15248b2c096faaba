// Errors on the plugin's side of the border: throw PluginError, the adapter turns it into a code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include <moert/abi/status.h>

namespace moert {

// What a plugin throws. `code` is MOERT_*, `what()` one sentence: what was found, what was expected.
class PluginError : public std::runtime_error {
 public:
  PluginError(moert_code_t code, const std::string& message, int64_t native_code = 0)
      : std::runtime_error(message), code_(code), native_code_(native_code) {}
  moert_code_t code() const noexcept { return code_; }
  int64_t native_code() const noexcept { return native_code_; }

 private:
  moert_code_t code_;
  int64_t native_code_;
};

namespace detail {

inline void copy_text(char* to, size_t capacity, std::string_view from) noexcept {
  const size_t n = from.size() < capacity ? from.size() : capacity - 1;
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

// Fills a caller's record and returns the code. A record of a smaller revision is left alone, since
// revision 1 is the smallest there is.
inline moert_code_t report(moert_error_t* error, moert_code_t code, std::string_view where,
                           std::string_view message, int64_t native_code = 0) noexcept {
  if (error != nullptr && error->struct_size >= sizeof(moert_error_t)) {
    error->code = code;
    error->native_code = native_code;
    copy_text(error->where, sizeof error->where, where);
    copy_text(error->message, sizeof error->message, message);
  }
  return code;
}

// Runs `body` behind the border: nothing thrown gets out.
template <class Body>
moert_code_t guarded(moert_error_t* error, const char* where, Body&& body) noexcept {
  try {
    body();
    return MOERT_OK;
  } catch (const PluginError& e) {
    return report(error, e.code(), where, e.what(), e.native_code());
  } catch (const std::bad_alloc&) {
    return report(error, MOERT_RESOURCE_EXHAUSTED, where, "out of host memory");
  } catch (const std::exception& e) {
    return report(error, MOERT_INTERNAL, where, e.what());
  } catch (...) {
    return report(error, MOERT_INTERNAL, where, "an exception that is not a std::exception");
  }
}

}  // namespace detail
}  // namespace moert
