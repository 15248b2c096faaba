// The capturers attached to a model: plugin objects that are fed after every forward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <moert/abi/capturer.h>

#include "capture/capture_info.hpp"
#include "runtime/capture_rows.hpp"
#include "runtime/part.hpp"
#include "spec/run.hpp"

namespace moert::runtime {

// One attached capturer.
struct AttachedCapturer {
  spec::Capture wanted;
  uint32_t what = 0;  // MOERT_CAPTURE_*
  Part<moert_capturer_t> part;
  bool on_device = false;  // reads the memory of the model's device, not the host's
};

// Outlived by session and model. Sizes come from the model's layers, whatever their config's keys were
// called. One thread at a time.
class CaptureSet {
 public:
  CaptureSet(const Session& session, const Model& model, int64_t max_tokens);

  // Throws Error(refused) with the table if a capturer is unknown or refuses; Error(usage) for a word
  // in `what` that it does not know, for a dense model (there is nothing to capture), for a `path`
  // where the capturer's rows cannot be read back. The reference lasts until detach. A capturer whose capability
  // `device` lists the kind of the model's device reads that device's memory; others read the host's, to which rows
  // come once per layer for all of them. `options_place` says in messages where its options stand.
  AttachedCapturer& attach(const spec::Capture& wanted,
                           const std::string& options_place = "capture.options");
  void detach(const AttachedCapturer& capturer);
  bool empty() const { return attached_.empty(); }
  const std::list<AttachedCapturer>& attached() const { return attached_; }

  // Some attached capturer reads rows in host memory.
  bool needs_host_rows() const;

  // A step; see Step, which has checked the rows. Padded rows are left out.
  void begin(const StepRows& rows);
  // After the forward in `context`. `routing` are its decisions on the host, with margins; nullptr where no capturer
  // needs them there: then nothing is waited for.
  void record(size_t layer, const ForwardContext& context, const Routing* routing);
  void end();
  void abort();  // instead of end: nothing of the step is kept
  // Between steps: the rows of a sequence below `position` are final; those from it on are gone, unless
  // they are final. These and end() reach every capturer, and then throw what the first of them had.
  void commit(int64_t sequence, int64_t position);
  void drop(int64_t sequence, int64_t position);

  void flush(const AttachedCapturer& capturer) const;
  moert_capture_counts_t counts(const AttachedCapturer& capturer) const;
  // Writes the committed rows as a capture file. Atomic. `poll` is called now and then; what it throws
  // ends the writing. How many decisions are absent in the file.
  int64_t write(
      const AttachedCapturer& capturer, const std::filesystem::path& path,
      const std::function<void()>& poll = [] {}) const;

 private:
  moert_capture_spec_t capture_spec(uint32_t what) const;
  std::vector<std::pair<const char*, std::string>> facts() const;
  static void expect_readable(const AttachedCapturer& capturer);
  // The rows from `first` on, at most `rows`; how many there are.
  static int64_t read(const AttachedCapturer& capturer, moert_capture_rows_t request);
  static int64_t read_keys(const AttachedCapturer& capturer, int64_t first,
                           std::vector<capture::RowKey>& keys);
  static capture::RowPlaces places_of(const AttachedCapturer& capturer,
                                      const std::function<void()>& poll);
  std::optional<moert_device_id_t> place_of(const registry::Candidate& candidate) const;
  moert_support_t ask_candidate(const registry::Candidate& candidate,
                                moert_capture_spec_t& spec) const;
  template <class Function>
  void each(const char* action, Function&& function) const;

  const Session& session_;
  const Model& model_;
  int64_t max_tokens_;
  std::vector<capture::CapturedLayer> layers_;
  std::vector<int64_t> layer_ids_, num_experts_, top_k_;
  std::list<AttachedCapturer> attached_;
  CaptureRows rows_;  // of the open step
};

// Throws Error(refused) where the runner of some layer hides its routing, so that it can be neither captured
// nor replayed; `wish` says which of them was asked for.
void require_open_routing(const Model& model, const std::string& wish);

// What a capture of this model says of it; of a description alone, without the digest of its routers.
capture::CaptureInfo capture_info(const Model& model);
capture::CaptureInfo capture_info(const spec::Model& model);
// The model's MoE layers, as captures know them.
std::vector<capture::CapturedLayer> captured_layers(const spec::Model& model);

}  // namespace moert::runtime
