// The capturers attached to a run: one plugin object each, fed after every forward, read back at the
// end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <moert/abi/capturer.h>

#include "capture/routes.hpp"
#include "runtime/forward_context.hpp"
#include "runtime/part.hpp"
#include "spec/run.hpp"

namespace moert::runtime {

// One attached capturer.
struct AttachedCapturer {
  spec::Capture wanted;
  uint32_t what = 0;
  Part<moert_capturer_t> part;
};

// Outlived by session and model. Sizes come from the model's layers, whatever their config's keys were
// called.
class CaptureSet {
 public:
  // Throws Error(refused) with the table if a capturer is unknown or refuses; Error(usage) for a word
  // in `what` that it does not know; Error(usage) for a dense model: there is nothing to capture.
  CaptureSet(const Session& session, const Model& model, const std::vector<spec::Capture>& wanted,
             int64_t max_tokens);

  bool empty() const { return attached_.empty(); }
  bool wants_margins() const;
  // A step of `tokens` rows of one sequence, positions 0, 1, ...
  void begin(int64_t sequence, int64_t tokens);
  void record(size_t layer, const ForwardContext& context);
  void end();
  const std::vector<AttachedCapturer>& attached() const { return attached_; }
  // Everything that a capturer holds, layer by layer.
  std::vector<capture::LayerRoutes> read(const AttachedCapturer& capturer) const;

  // Writes what a capturer holds as safetensors: per layer ids (u8, u16 or u32), present (u8), and
  // weights and margins if they were wanted; sequences and positions of the rows. Atomic.
  void write(const AttachedCapturer& capturer, const std::filesystem::path& path) const;

 private:
  void attach(const Session& session, const spec::Capture& wanted, int64_t max_tokens);
  moert_capture_rows_t read_rows(const AttachedCapturer& capturer, uint32_t layer,
                                 capture::LayerRoutes& routes) const;

  const Model& model_;
  std::vector<int64_t> layer_ids_, num_experts_, top_k_;
  std::vector<AttachedCapturer> attached_;
  std::vector<int64_t> sequences_, positions_;  // of all steps so far
};

}  // namespace moert::runtime
