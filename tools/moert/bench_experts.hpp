// `moert bench experts`: what is asked, how it is measured, what comes out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench_layers.hpp"
#include "console.hpp"
#include "options.hpp"

namespace moert::tool {

// What is read in turn is so many times the last cache.
inline constexpr uint64_t kTimesCache = 4;

struct ExpertsRequest {
  BenchShape shape;
  std::vector<BenchScheme> schemes;
  std::vector<const registry::Candidate*> candidates;
  runtime::PartOptions options;  // that all of them are created with
  std::vector<int64_t> tokens;
  double seconds = 1;  // of a candidate at a point
  int64_t repeat = 0;  // so many forwards instead; 0: by time
  int64_t layers = 0;  // that take turns; 0: as many as exceed the caches
  uint64_t cache_bytes = 0;
  bool cache_assumed = false;  // nobody said how large it is
  uint64_t probe_bytes = 0;    // memory of the probe of bandwidth; 0: no probes
  bool graphs = false;         // forwards are recorded and launched
};

// Throws Error(usage) for a word or number that is none, Error(refused) where there is nobody to measure.
ExpertsRequest experts_request(const runtime::Session& session, const runtime::Device& device,
                               const Options& options);

// One candidate with weights of one scheme, before anything is measured.
struct ExpertsEntrant {
  std::string scheme, scheme_name;  // as given, and as the quant method calls it
  const registry::Candidate* candidate = nullptr;
  std::string refusal;        // why not; empty: it is measured
  std::string how;            // what it says of how it serves
  int64_t layers = 0;         // that take turns
  uint64_t stored_bytes = 0;  // of a layer, in a checkpoint
  uint64_t packed_bytes = 0;  // of a layer, as the candidate says; 0: it does not
  bool concurrent = false;    // loads experts on several threads
  double pack_seconds = 0;    // of all layers

  double pack_bytes_per_second() const {
    return static_cast<double>(stored_bytes) * static_cast<double>(layers) / pack_seconds;
  }
};

// What the machine gave just before and just after.
struct Probe {
  double before = 0, after = 0;
  double mean() const { return (before + after) / 2; }
  double difference() const;  // as a share of the larger one
};

// One candidate at a number of tokens.
struct ExpertsPoint {
  size_t entrant = 0;  // which
  int64_t tokens = 0;
  std::vector<double> seconds;  // each forward, rising
  double distinct = 0;          // experts that are read, median
  double bytes_per_second = 0;  // of the experts' stored bytes that are read, median
  double flop_per_second = 0;
  // Bytes a second that the machine reads, or a device copies; operations a second, which no device tells.
  std::optional<Probe> bandwidth, arithmetic;

  double quantile(double share) const;
};

struct ExpertsResult {
  std::vector<ExpertsEntrant> entrants;
  std::vector<ExpertsPoint> points;
  std::string arithmetic;  // what the probe of arithmetic computes; empty without one
};

// Throws Error(device) before anything is measured where memory is short.
ExpertsResult measure_experts(const runtime::Session& session, const runtime::Device& device,
                              const ExpertsRequest& request);

void print_experts(const Options& options, Console& console, const runtime::Session& session,
                   const runtime::Device& device, const ExpertsRequest& request,
                   const ExpertsResult& result);

}  // namespace moert::tool
