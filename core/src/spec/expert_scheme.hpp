// Which experts get another scheme than the others when a checkpoint is quantised.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert::spec {

struct ExpertScheme {
  std::vector<int64_t> layers;   // empty: every MoE layer
  std::vector<int64_t> experts;  // of each of them
  std::string scheme;            // "bf16", "fp8.channel" ...
  std::string place;             // file:line:column
};

}  // namespace moert::spec
