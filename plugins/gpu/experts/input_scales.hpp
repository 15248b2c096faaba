// How the weights of experts want their rows quantised: that it is what the layer says, and their input scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include <string>
#include <vector>

#include "../runtime.hpp"
#include "row_rule.hpp"

namespace moert::gpu {

// Loading: one thread for an expert at a time, different experts at once. The rest: one thread. Memory on the device
// that is current when it is made, which must be so again when it ends.
class InputScales {
 public:
  InputScales(const RowRule& rule, int64_t experts, bool gated);
  ~InputScales();
  InputScales(const InputScales&) = delete;
  InputScales& operator=(const InputScales&) = delete;

  // Of a weight whose shape was checked. Throws MOERT_INVALID_ARGUMENT for one that wants rows quantised where the
  // layer doesn't, or the other way round; MOERT_UNIMPLEMENTED where its quant method makes other numbers of rows than
  // the rule: it is tried on a row of its own.
  void load(const moert_piece_t& piece, const std::string& title);
  // Copies what came to the device. Throws MOERT_UNIMPLEMENTED where gate and up of an expert have different scales:
  // rows are quantised once for both.
  void finish();

  // Of the rows that experts read, and of their middles: [experts], or NULL where the rule asks for none.
  const float* of_rows() const { return memory_; }
  const float* of_middles() const { return memory_ == nullptr ? nullptr : memory_ + experts_; }

  // Both numbers of an expert, on the device.
  static constexpr uint64_t kBundleBytes = 2 * sizeof(float);
  void read(int64_t expert, void* bundle, Stream stream) const;
  void write(int64_t expert, const void* bundle, Stream stream);

 private:
  static constexpr int64_t kParts = 3;
  RowRule rule_;
  int64_t experts_;
  bool gated_;
  std::vector<float> numbers_;  // [experts, parts]
  float* memory_ = nullptr;     // [2, experts]
};

}  // namespace moert::gpu
