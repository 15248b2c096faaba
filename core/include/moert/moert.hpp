// The runtime for programs that embed it: open plugins, load a checkpoint's MoE layers, run them, see
// where the tokens went.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <moert/error.hpp>

#define MOERT_API __attribute__((visibility("default")))

namespace moert {

// Every function throws moert::Error. Objects are used by one thread at a time; different objects may
// be used by different threads.

struct RuntimeOptions {
  std::vector<std::string> plugin_path;  // folders or files, searched before the installed ones
  std::vector<std::string> plugins;      // short names allowed; empty: all
  std::vector<std::string> families;     // folders of family files; empty: the installed ones
  int32_t threads = 0;                   // 0: as many as processors
  std::string log = "warn";              // level or areas, as --log
};

struct ModelOptions {
  std::string device = "auto";                // "cpu", "cuda:0" ...
  std::vector<std::string> prefer;            // plugins by short name, best first
  std::map<std::string, std::string> layers;  // pins: "routed_experts" -> "cpu.ref"
  bool fallback_next = false;                 // may a preferred plugin's refusal be passed over?
  int64_t max_tokens = 512;                   // most rows of one forward
  std::string dtype;  // of rows in and out: "f32", "bf16", "f16"; empty: the model's
  // For whoever serves a part, by the words of `layers`: {"routed_experts", {{"gemm", "wgmma"}}}. What they mean the README
  // of its plugin says. One that it does not know, and those of a part that no layer has, are Fault::usage.
  std::map<std::string, std::map<std::string, std::string>> options;
};

struct LayerInfo {
  int64_t layer_id;  // the model's own number
  int64_t hidden_size, intermediate_size, num_experts, top_k;
  int64_t zero_experts;  // ids from num_experts on, whose experts return their input
  bool needs_token_ids;  // routes by the tokens' numbers: see ForwardOptions
  std::string scheme;    // weight format
  std::map<std::string, std::string> candidates;  // what serves it: "routed_experts" -> "cpu.ref"
};

// Decisions of one forward, row-major [tokens, top_k]; ids are the model's own (logical) experts, -1 in
// padded rows.
struct RoutingResult {
  int64_t tokens = 0, top_k = 0;
  std::vector<int32_t> ids;
  std::vector<float> weights;
  std::vector<float> margins;  // [tokens]: score of the last chosen minus the best left out
};

struct ForwardOptions {
  const int32_t* forced_ids = nullptr;  // [tokens, top_k] host: replay; a row of -1 routes as usual
  const uint8_t* valid = nullptr;      // [tokens] host: 0 marks a padded row; in a step, the step's
  const int64_t* token_ids = nullptr;  // [tokens] host: numbers in the model's vocabulary
};

// Which tokens the rows of a step are; arrays are copied. No token stands twice in a step. One that
// comes again in a later step (a request that was put off and computed anew) replaces the earlier.
struct StepRows {
  int64_t tokens = 0;
  const int64_t* sequences = nullptr;  // [tokens] host: the caller's number of the request
  const int64_t* positions = nullptr;  // [tokens] host: from 0 within the sequence
  const uint8_t* valid = nullptr;      // [tokens] host: 0 marks a padded row; nullptr: none is
  bool final = true;  // false: rows may still be dropped, and count only once they are committed
};

struct CaptureOptions {
  std::string to = "memory";                   // a capturer: "memory", "file", "shared_memory" ...
  std::vector<std::string> what = {"ids"};     // "ids", "weights", "margins"; ids always are
  std::map<std::string, std::string> options;  // the capturer's own: plugins/capture/README.md
};

struct CaptureCounts {
  int64_t rows = 0;     // committed tokens, absent ones among them
  int64_t pending = 0;  // neither committed nor dropped yet
  int64_t absent = 0;   // kept without decisions because memory was short
  int64_t lost = 0;     // of which nothing was kept
};

struct ReplayCounts {
  int64_t replayed = 0;  // rows whose experts the file named
  int64_t native = 0;    // rows that it lacks: they were routed as usual
};

class Model;

// One capturer at work on a model. It stops when this object goes, or the model: then every call throws.
class MOERT_API Capture {
 public:
  Capture(Capture&&) noexcept;
  Capture& operator=(Capture&&) noexcept;
  ~Capture();
  // Everything committed so far is where it belongs.
  void flush();
  CaptureCounts counts() const;
  // Writes the committed rows as a capture file (docs/capture-format.md), whole or not at all. Not for
  // shared_memory, whose rows go to another process. Between steps.
  void write(const std::string& path);

 private:
  friend class Model;
  struct Impl;
  explicit Capture(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct CapturedLayer {
  int64_t layer_id, num_experts, top_k;
};

// The reader's side of a capture to shared memory: what another process captures, as it comes. One reader
// at a time; rows that it didn't take are the next one's. docs/capture.md.
class MOERT_API SharedCapture {
 public:
  // `name` as the capturer's option; an empty folder is the usual one.
  explicit SharedCapture(const std::string& name, const std::string& folder = {});
  SharedCapture(SharedCapture&&) noexcept;
  SharedCapture& operator=(SharedCapture&&) noexcept;
  ~SharedCapture();

  const std::vector<CapturedLayer>& layers() const;
  // Takes rows that have been published, at most `most`; how many. 0: none are there now.
  int64_t take(int64_t most = 4096);
  // The other process has ended or died, and all that it published has been taken.
  bool finished() const;
  int64_t lost() const;  // tokens that found no room

  // Of the rows taken last.
  int64_t sequence(int64_t row) const;
  int64_t position(int64_t row) const;
  // A layer's decision, by its index in layers(): ids [top_k], and weights [top_k] and the margin if they
  // are captured; each pointer may be null. False, and nothing is written: absent.
  bool read(int64_t row, size_t layer, int32_t* ids, float* weights = nullptr,
            float* margin = nullptr) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The opened plugins. Outlives its models. Libraries stay mapped until the process ends.
class MOERT_API Runtime {
 public:
  explicit Runtime(const RuntimeOptions& options = {});
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();

  // A checkpoint folder, or a Model YAML file.
  Model load(const std::string& path, const ModelOptions& options = {});

 private:
  friend class Model;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A model's MoE layers with their weights.
class MOERT_API Model {
 public:
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const std::vector<LayerInfo>& layers() const;
  // Rows `hidden` [tokens, hidden_size] through one layer into `out`, both on the host, dense, of the
  // model's dtype. 0 tokens is fine.
  void forward(int64_t layer_id, const void* hidden, int64_t tokens, void* out,
               RoutingResult* routing = nullptr, const ForwardOptions& options = {});

  // Routing is captured and replayed in steps: the same rows through the layers, in any order of layers.
  // Without a capture or a replay, steps are not needed.
  Capture capture(const CaptureOptions& options = {});
  void begin_step(const StepRows& rows);
  void end_step();  // layers that were not run in the step are absent in the capture
  // Rows of a sequence below `position` are final; rows from it on are forgotten, unless they are final.
  // For all captures, between steps.
  void commit(int64_t sequence, int64_t position);
  void drop(int64_t sequence, int64_t position);
  // From the next step on, experts are those that a capture file names for each token; their weights come
  // from the model's own scores. An empty path ends it; where this throws, all stays as it was.
  void replay(const std::string& path);
  ReplayCounts replay_counts(int64_t layer_id) const;  // since replay() was called

  // Tokens that went to each expert of a layer since it was loaded or last reset.
  std::vector<int64_t> load_statistics(int64_t layer_id, bool reset = false);
  // The decision tables of all layers.
  std::string explain() const;

 private:
  friend class Runtime;
  friend class Capture;
  struct Impl;
  explicit Model(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // of this object alone; captures look at it
};

}  // namespace moert
