// One step: the same rows through the layers, with all that steers or watches their routing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "capture/difference.hpp"
#include "capture/replay.hpp"
#include "runtime/capture_set.hpp"
#include "runtime/forward_context.hpp"

namespace moert::runtime {

// Between begin and end, every layer's forward stands between enter and leave:
//   const int32_t* forced = step.enter(layer);
//   context.forward(layer, forced, step.valid());
//   step.leave(layer);
// With nothing attached neither does anything. Outlived by all that it is given. One thread at a time.
class Step {
 public:
  Step(const Model& model, ForwardContext& context, CaptureSet& captures)
      : model_(model), context_(context), captures_(captures), staged_ids_(model.device()) {}

  // From the next step on; nullptr ends it. A replay forces the ids of its file; `verify` is compared
  // with what the layers choose by themselves.
  void set_replay(capture::Replay* replay) { replay_ = replay; }
  void set_verify(capture::Replay* verify, capture::DifferenceCounter* counter) {
    verify_ = verify;
    counter_ = counter;
  }

  bool is_open() const { return open_; }
  void require_closed(const char* call) const;  // throws Error(usage)
  // Somebody wants to know which tokens the rows are.
  bool needs_rows() const { return !captures_.empty() || replay_ != nullptr || verify_ != nullptr; }
  // Copies the rows' identity. Throws Error(usage): a step is open; where somebody wants to know the rows,
  // a token that stands twice in it, a position below 0.
  void begin(const StepRows& rows);
  // The ids that the rows of the context must take, [tokens, k] on the host, or nullptr. `asked`: ids that
  // the caller forces; not together with a replay.
  const int32_t* enter(size_t layer, const int32_t* asked = nullptr);
  // After the forward. Throws Error(plugin) where the layer's runner did not report its choices, or chose
  // others than it was told to. Where nobody needs the choices on the host this waits for nothing, and end
  // tells, before anything of the step is kept.
  void leave(size_t layer);
  void end();

  int64_t tokens() const { return rows_.tokens; }
  const uint8_t* valid() const { return rows_.valid; }

 private:
  void check_keys();
  void check_rows(size_t layer) const;
  void reserve_staging();
  int32_t* staged_ids(size_t layer) const;
  void check_later(size_t layer);
  void check_waiting();
  void check_choices(size_t layer, const int32_t* all_ids, const int32_t* forced) const;
  void compare(size_t layer);

  const Model& model_;
  ForwardContext& context_;
  CaptureSet& captures_;
  capture::Replay* replay_ = nullptr;
  capture::Replay* verify_ = nullptr;
  capture::DifferenceCounter* counter_ = nullptr;
  bool open_ = false;
  // Nobody needs a layer's choices on the host as soon as it has run. Settled when the step begins, since then
  // there is memory for them.
  bool checks_at_end_ = false;
  StepRows rows_;  // points into the members below
  std::vector<capture::RowKey> keys_, sorted_;
  std::vector<uint8_t> valid_, recorded_;  // rows; layers of this step
  const int32_t* forced_ = nullptr;
  int64_t compared_ = 0;  // rows of the steps before
  Routing routing_;
  // Layers whose check waits for the step's end.
  struct Waiting {
    size_t layer;
    std::vector<int32_t> forced;  // [tokens, k] or nothing
  };
  std::vector<Waiting> waiting_;
  StagingMemory staged_ids_;  // of every layer of the model, one after another
};

}  // namespace moert::runtime
