// Which format a weight's tensors have: what the config announces, held against dtypes and shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "spec/family.hpp"
#include "spec/quantization.hpp"
#include "weights/companions.hpp"
#include "weights/plan.hpp"
#include "weights/safetensors.hpp"

namespace moert::weights {

// A weight as it is stored, all experts and halves of its tensor together.
struct StoredWeight {
  const TensorInfo* weight = nullptr;
  std::array<const TensorInfo*, kParams> companions{};  // by MOERT_PARAM_*; [0] is not used
  Spelling spelling = Spelling::plain;
  const spec::TensorRule* rule = nullptr;
  int64_t out = 0, in = 0;  // of one expert, its halves together
  int64_t experts = 1;      // that the tensor holds

  const TensorInfo* companion(uint32_t param) const { return companions[param]; }
};

// Either a format or a fault of one of the tensors.
struct Judgement {
  std::optional<Format> format;
  Finding::Kind fault = Finding::misshapen;
  uint32_t param = 0;  // whose fault it is
  std::string detail;
  bool is_plain = false;     // floats without a companion
  bool as_announced = true;  // else the tensors are of another kind, and hold
};

// `announced` may be nullptr: nothing is. An announced kind that is not known here is a scheme of some
// plugin, whose quant method will judge the tensors.
Judgement judge(const StoredWeight& stored, const spec::WeightFormat* announced);

// Does the format read this companion? Input scales are also written for activations that are quantised by
// scales of their own, or not at all.
bool reads(const Format& format, uint32_t param);

// "none", "fp8" ... whose tensors are judged here; another kind is some plugin's scheme.
bool is_known_kind(const std::string& kind);
// What a scheme's name, or its beginning, says where no config announces anything.
spec::WeightFormat announced_by(const std::string& scheme);

// Blocks of a word such as "channel", "block128x128", "g32"; nullopt for another.
std::optional<BlockSize> block_size_of(const std::string& word);

}  // namespace moert::weights
