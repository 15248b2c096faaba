// What a capture says of itself: the model's layers, what was kept, where it came from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert::capture {

struct CapturedLayer {
  int64_t layer_id = 0;     // the model's own number
  int64_t num_experts = 0;  // logical ids lie below it; zero experts are among them
  int64_t top_k = 0;

  bool operator==(const CapturedLayer&) const = default;
};

struct CaptureInfo {
  std::string model, family;  // names; may be empty
  std::string model_digest;   // of the model's resolved description, "xxh3-128:<32 hex digits>"
  std::string router_digest;  // of the routers' tensors, likewise; empty: not known
  int64_t hidden_layers = 0;  // all layers of the model, dense ones too; 0: not known
  std::vector<CapturedLayer> layers;      // MoE layers, rising layer_id, never draft layers
  bool weights = false, margins = false;  // are kept besides the ids
  // "selection": falling selection score, as routers choose; "unknown": of a foreign capture
  std::string slot_order = "selection";
  std::string simulated;  // distribution of made-up routing; empty: the model's own
  std::string source;     // "moert 0.1.0", "vllm" ...
  int64_t lost = 0;       // rows that were recorded, but of which nothing could be kept
  bool cut = false;       // capturing ended before its source did: how much is missing is not known

  bool operator==(const CaptureInfo&) const = default;
};

// Which token a row is.
struct RowKey {
  int64_t sequence = 0, position = 0;
  auto operator<=>(const RowKey&) const = default;
};

}  // namespace moert::capture
