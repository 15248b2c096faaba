// Opening a library, and the floating-point environment around it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>
#include <filesystem>
#include <string>

#include <moert/abi/entry.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace moert::loader {

// Restores the calling thread's floating-point environment: rounding, exception masks, and whether
// denormals are flushed. Start-up code of a library linked with -ffast-math changes the last.
class FloatGuard {
 public:
  FloatGuard() { std::fegetenv(&environment_); }
  FloatGuard(const FloatGuard&) = delete;
  FloatGuard& operator=(const FloatGuard&) = delete;
  ~FloatGuard() {
    std::fesetenv(&environment_);
#if defined(__x86_64__)
    _mm_setcsr(control_);  // C says nothing of flush-to-zero
#endif
  }

 private:
  std::fenv_t environment_{};
#if defined(__x86_64__)
  unsigned control_ = _mm_getcsr();
#endif
};

// What opening gave. The library stays mapped until the process ends, even when it has no entry.
struct Opened {
  bool mapped = false;
  std::string error;                      // the dynamic linker's words, where it is not mapped
  moert_plugin_query_fn query = nullptr;  // nullptr: no such symbol
};

// Maps the library at a canonical path, all symbols bound at once and visible to nobody else. Runs
// its constructors.
Opened open_library(const std::filesystem::path& path);

}  // namespace moert::loader
