// Writes a checkpoint anew with its experts in another format, and says what that changed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "runtime/quantize_plan.hpp"
#include "runtime/session.hpp"

namespace moert::runtime {

struct QuantizeJob {
  std::filesystem::path source, destination;
  QuantizeWishes wishes;
  uint64_t shard_bytes = 5'000'000'000;
  std::filesystem::path hidden_states;  // empty: routing is not compared
  std::vector<std::string> prefer;      // plugins
  int64_t threads = 0;
};

// How far what is written is from what was read.
struct WeightErrors {
  uint64_t elements = 0;
  double largest = 0, squared = 0, squared_weights = 0;

  void add(const WeightErrors& other);
  double rms() const;
  double relative()
      const;  // RMS of the error over RMS of the weights; 0 for weights that are all 0
};

// What a layer gives, before and after.
struct LayerChange {
  int64_t slots = 0, changed_slots = 0;  // chosen experts of all rows; those that are now others
  double output_error = 0;               // RMS of the difference over RMS of the output
};

struct QuantizedLayer {
  int64_t layer_id = -1;                // -1: weights outside the MoE layers
  uint64_t weights = 0, unchanged = 0;  // matrices that were written anew; that had the scheme
  uint64_t bytes_before = 0, bytes_after = 0;
  WeightErrors errors;
  std::optional<LayerChange> change;
};

struct QuantizeReport {
  std::string family, scheme, method;
  std::filesystem::path destination;
  std::vector<QuantizedLayer> layers;
  QuantizedLayer total;
  uint64_t copied = 0, excluded = 0, files = 0,
           bytes = 0;  // tensors, weights, of the new checkpoint
  double seconds = 0;
  std::vector<std::string> notes;
};

// Done and total steps, bytes written; on the caller's thread.
using QuantizeProgress = std::function<void(uint64_t done, uint64_t total, uint64_t bytes)>;

// Reads one expert's matrix at a time. The destination appears whole or not at all; `poll` is called every few
// megabytes, and what it throws ends the job with nothing left behind. Throws Error.
QuantizeReport quantize(Session& session, const config::Families& families, const QuantizeJob& job,
                        const QuantizeProgress& progress, const std::function<void()>& poll);

}  // namespace moert::runtime
