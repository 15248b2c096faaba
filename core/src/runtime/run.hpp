// Carries out a Run: resolve, choose, load, compute, compare, capture, write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "capture/difference.hpp"
#include "capture/routes.hpp"
#include "config/config.hpp"
#include "runtime/compare.hpp"
#include "runtime/model.hpp"
#include "runtime/session.hpp"
#include "spec/run.hpp"

namespace moert::runtime {

struct LayerReport {
  int64_t layer_id = 0;
  // word -> candidate: "routed_experts" -> "cpu.ref", "runner" -> "core.default" ...
  std::vector<std::pair<std::string, std::string>> candidates;
  std::map<std::string, std::map<std::string, std::string>> options;  // word -> what it was given
  std::string scheme, layout;
  int64_t tokens = 0;
  double seconds = 0;  // of one forward: median over the repeats
  std::vector<double> all_seconds;
  capture::LoadSummary load;
  std::vector<int64_t> expert_tokens;  // [num_experts]
  std::optional<Comparison> comparison;
};

struct CaptureReport {
  std::string capturer;
  std::filesystem::path path;    // the file that was written; empty: none
  int64_t rows = 0;              // tokens
  int64_t absent = 0;            // of them, kept without decisions because memory was short
  int64_t lost = 0;              // tokens of which nothing was kept
  int64_t absent_decisions = 0;  // (token, layer) pairs without experts in the file
  std::string segment;           // of shared memory: its name
};

// What became of `replay`.
struct RouteReport {
  std::filesystem::path path;
  bool verify = false;
  // The file is of this model, of these very router tensors; nullopt: it doesn't say.
  std::optional<bool> same_model, same_router;
  std::string simulated;             // distribution of the file's routing, where that was made up
  int64_t replayed = 0, native = 0;  // (token, layer) pairs that the file has, and that it lacks
  std::optional<capture::Difference> difference;  // of verify
};

struct RunReport {
  std::string name, family, device;
  std::filesystem::path checkpoint, output;
  std::vector<CaptureReport> captures;
  std::optional<RouteReport> routes;
  std::vector<LayerReport> layers;
  std::vector<int64_t> dense_layers;
  std::string simulated;  // the distribution of made-up routing; empty: the model's own
  uint64_t packed_tensors = 0, ignored_tensors = 0;
  double load_seconds = 0;
  bool checked = false;  // an expectation was given
  bool passed = true;    // and met, in every layer; verify found no difference
};

// The model that a run names, resolved.
spec::Model resolve_model(const config::Families& families, const spec::Run& run);

// Settings of a run for Model: device, pins, preference, dtype.
ModelSettings settings_of(const spec::Run& run, int64_t max_tokens, uint32_t dtype);

// Throws Error; otherwise everything that was asked for has been written. A missed expectation is no
// error: see RunReport::passed. `poll` is called between forwards and before each file is written; what
// it throws ends the run with nothing half-written.
RunReport run(
    Session& session, const config::Families& families, const spec::Run& run,
    const Progress& progress = {}, const std::function<void()>& poll = [] {});

}  // namespace moert::runtime
