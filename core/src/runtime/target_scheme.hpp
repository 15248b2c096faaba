// The schemes that weights can be written in: what the user calls them, what they are, how their tensors are called.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/quantization.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {

struct TargetScheme {
  enum Storage : uint8_t { elements, nibbles, words };
  std::string word;           // "fp8.block128x128"
  spec::Scheme scheme;        // of the quant method
  spec::WeightFormat format;  // as a config announces it; kind "none": plain floats
  Storage storage = elements;
  weights::BlockSize block;
  int64_t group = 1;  // rows must be whole groups of so many

  bool is_plain() const { return format.kind == "none"; }
  bool operator==(const TargetScheme& other) const { return word == other.word; }
};

// "fp8.block128x128", "fp8.channel", "mxfp4" ... Throws Error(usage) with the nearest name; `place` says where the
// word stands.
TargetScheme target_scheme(const std::string& word, const std::string& place);
// Floats of that type as a scheme.
TargetScheme plain_scheme(const std::string& dtype);
// Is a weight of `scheme` one of that target? What floats its scales are doesn't matter.
bool is_of_scheme(const spec::Scheme& scheme, const TargetScheme& target);
// The words, for help and messages.
const std::vector<std::string>& target_scheme_words();

}  // namespace moert::runtime
