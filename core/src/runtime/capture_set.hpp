// The capturers attached to a model: plugin objects that are fed after every forward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <moert/abi/capturer.h>

#include "capture/capture_info.hpp"
#include "capture/row_places.hpp"
#include "runtime/forward_context.hpp"
#include "runtime/part.hpp"
#include "spec/run.hpp"

namespace moert::runtime {

// Which tokens the rows of a step are.
struct StepRows {
  int64_t tokens = 0;
  const capture::RowKey* keys = nullptr;  // [tokens]
  const uint8_t* valid = nullptr;         // [tokens]; 0: padding. nullptr: all are tokens
  bool final = true;                      // committed when the step ends
};

// One attached capturer.
struct AttachedCapturer {
  spec::Capture wanted;
  uint32_t what = 0;  // MOERT_CAPTURE_*
  Part<moert_capturer_t> part;
};

// Outlived by session and model. Sizes come from the model's layers, whatever their config's keys were
// called. One thread at a time.
class CaptureSet {
 public:
  CaptureSet(const Session& session, const Model& model, int64_t max_tokens);

  // Throws Error(refused) with the table if a capturer is unknown or refuses; Error(usage) for a word
  // in `what` that it does not know, for a dense model (there is nothing to capture), for a `path`
  // where the capturer's rows cannot be read back. The reference lasts until detach.
  AttachedCapturer& attach(const spec::Capture& wanted);
  void detach(const AttachedCapturer& capturer);
  bool empty() const { return attached_.empty(); }
  const std::list<AttachedCapturer>& attached() const { return attached_; }

  // A step; see Step, which has checked the rows. Padded rows are left out.
  void begin(const StepRows& rows);
  void record(size_t layer, const ForwardContext& context);
  void end();
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
  void gather(const ForwardContext& context, size_t layer);
  template <class Function>
  void each(const char* action, Function&& function) const;

  const Session& session_;
  const Model& model_;
  int64_t max_tokens_;
  std::vector<capture::CapturedLayer> layers_;
  std::vector<int64_t> layer_ids_, num_experts_, top_k_;
  std::list<AttachedCapturer> attached_;
  // Of the open step.
  std::vector<int64_t> sequences_, positions_;
  std::vector<int64_t> from_;  // tokens among its rows; empty: they are the first ones
  Routing routing_;            // its tokens alone, where they have to be gathered
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
