// The workspace cut into one piece of f64 per worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <moert/sdk/host.hpp>
#include <string>

namespace moert::cpu {

class Scratch {
 public:
  // Bytes for `tokens` rows when a worker needs `sizes` doubles, one after the other.
  static uint64_t bytes(const Host& host, int64_t tokens, std::initializer_list<int64_t> sizes) {
    if (tokens <= 0) return 0;
    return static_cast<uint64_t>(host.num_threads()) * static_cast<uint64_t>(stride(sizes)) *
           sizeof(double);
  }
  static void expect(const void* workspace, uint64_t bytes, uint64_t needed) {
    if (bytes < needed || (workspace == nullptr && needed != 0))
      throw PluginError(MOERT_INVALID_ARGUMENT, "the workspace has " + std::to_string(bytes) +
                                                    " bytes, " + std::to_string(needed) +
                                                    " are needed");
    if (reinterpret_cast<uintptr_t>(workspace) % 64 != 0)
      throw PluginError(MOERT_INVALID_ARGUMENT, "the workspace is not 64-byte aligned");
  }

  Scratch(void* workspace, std::initializer_list<int64_t> sizes)
      : first_(static_cast<double*>(workspace)), stride_(stride(sizes)) {}
  double* of(int32_t worker) const { return first_ + worker * stride_; }

 private:
  // Whole cache lines, so that two workers never write to the same one.
  static int64_t stride(std::initializer_list<int64_t> sizes) {
    int64_t sum = 0;
    for (int64_t size : sizes) sum += size;
    return (sum + 7) / 8 * 8;
  }
  double* first_;
  int64_t stride_;
};

}  // namespace moert::cpu
