// What a run asks for. See docs/yaml.md for the words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace moert::spec {

struct Capture {
  std::string to = "memory";   // a capturer by its short name: "memory" is "capture.memory"
  std::filesystem::path path;  // where `run` writes what was captured; empty: it is only counted
  std::vector<std::string> what = {"ids"};     // "ids", "weights", "margins"
  std::map<std::string, std::string> options;  // of the capturer, as texts
};

struct Expect {
  std::filesystem::path file;
  // Largest error of an output row relative to its norm, and of a routing weight. Absent: derived
  // from dtype and sizes (docs/numerics.md).
  std::optional<double> output_tolerance;
  std::optional<double> weight_tolerance;
};

struct Run {
  std::string name;
  std::filesystem::path checkpoint;   // exactly one of checkpoint and
  std::filesystem::path description;  // description is set; both absolute
  std::string device = "auto";        // "auto", "cpu", "cuda:0" ...
  std::vector<std::string> prefer;    // plugins by short name, in order of preference
  // kind word -> "auto" or a candidate's name: routed_experts, router, shared_experts, runner;
  // quant -> "from-checkpoint" or a scheme that must be the checkpoint's own.
  std::map<std::string, std::string> layers;
  // Kind word, but quant -> options of whoever serves it, as texts.
  std::map<std::string, std::map<std::string, std::string>> options;
  std::string fallback = "error";  // "error" | "next"
  std::string simulate;  // made-up routing for benchmarks: "uniform", "normal", "zipf"; empty: none
  int64_t seed = 0;      // of it
  std::filesystem::path hidden_states;
  std::filesystem::path output;  // empty: nothing is written
  std::vector<Capture> capture;
  std::filesystem::path replay;  // a capture file whose ids are forced; empty: none
  bool verify = false;           // run natively instead, and compare with `replay`
  std::optional<Expect> expect;
  int64_t threads = 0;  // 0: as many as processors
  int64_t repeat = 1;   // forwards per layer; times are the median
  // key path ("device", "layers.router") -> "flag", "--set", "environment", "file:line:column",
  // "default".
  std::map<std::string, std::string> origin;
};

}  // namespace moert::spec
