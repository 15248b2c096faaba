// A list of all kernels that are launched somewhere in this file. It makes itself, before anything runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace moert::gpu {

// One of them. Each is a static object (Launch<kKernel>::kernel of a backend's launch), and stays in the list.
class LaunchedKernel {
 public:
  explicit LaunchedKernel(const void* address) noexcept : address_(address), next_(first_) {
    first_ = this;
  }
  LaunchedKernel(const LaunchedKernel&) = delete;
  LaunchedKernel& operator=(const LaunchedKernel&) = delete;

  const void* address() const { return address_; }
  const LaunchedKernel* next() const { return next_; }  // NULL behind the last
  static const LaunchedKernel* first() { return first_; }

 private:
  const void* address_;
  const LaunchedKernel* next_;
  static inline const LaunchedKernel* first_ =
      nullptr;  // without a constructor: there before all others
};

}  // namespace moert::gpu
