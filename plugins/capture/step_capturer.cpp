// SPDX-License-Identifier: Apache-2.0
#include "step_capturer.hpp"

#include <algorithm>

#include "checks.hpp"

namespace moert::capture {
namespace {

enum class Judged { experts, nothing, wrong };

// One pass over a row of ids; a second one only where something is odd.
Judged judge(const int32_t* ids, int64_t k, int64_t num_experts) {
  const auto limit = static_cast<uint32_t>(num_experts);
  bool wrong = false;
  for (int64_t j = 0; j < k; ++j) wrong |= static_cast<uint32_t>(ids[j]) >= limit;
  if (!wrong) return Judged::experts;
  return std::all_of(ids, ids + k, [](int32_t id) { return id == -1; }) ? Judged::nothing
                                                                        : Judged::wrong;
}

}  // namespace

StepCapturer::StepCapturer(const moert_capture_spec_t& spec, const Options& options,
                           std::initializer_list<std::string_view> known)
    : layout_(accepted(spec)), max_tokens_(spec.max_tokens), recorded_(spec.n_layers) {
  options.allow(known);
  const int64_t k = *std::max_element(spec.top_k, spec.top_k + spec.n_layers);
  ids_.resize(static_cast<size_t>(k));
  weights_.resize(static_cast<size_t>(k));
}

void StepCapturer::expect_open(bool open, const char* call) const {
  if (open_ != open)
    throw PluginError(MOERT_FAILED_PRECONDITION,
                      std::string(call) + (open ? " outside a step" : " inside a step"));
}

void StepCapturer::expect_layer(uint32_t layer) const {
  if (layer >= layout_.layers())
    throw PluginError(MOERT_INVALID_ARGUMENT, "layer index " + std::to_string(layer) +
                                                  ", there are " +
                                                  std::to_string(layout_.layers()) + " layers");
}

void StepCapturer::expect_step(const moert_capture_step_t& step) const {
  must_understand(step.flags, MOERT_CAPTURE_STEP_COMMIT, "step");
  if (step.tokens < 0 || step.tokens > max_tokens_)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a step of " + std::to_string(step.tokens) +
                                                  " tokens, max_tokens is " +
                                                  std::to_string(max_tokens_));
  if (step.tokens > 0 && (step.sequences == nullptr || step.positions == nullptr))
    throw PluginError(MOERT_INVALID_ARGUMENT, "the rows' sequences and positions are missing");
}

void StepCapturer::begin(const moert_capture_step_t& step) {
  expect_open(false, "begin");
  expect_step(step);
  const auto count = static_cast<size_t>(step.tokens);
  places_.clear();
  places_.reserve(count);
  take(count, places_);
  pending_.open(count);
  for (size_t t = 0; t < places_.size(); ++t) {
    if (places_[t] != nullptr) layout_.start(places_[t], step.sequences[t], step.positions[t]);
    pending_.push({step.sequences[t], step.positions[t], places_[t]});
  }
  std::fill(recorded_.begin(), recorded_.end(), uint8_t{0});
  tokens_ = step.tokens;
  commit_at_end_ = (step.flags & MOERT_CAPTURE_STEP_COMMIT) != 0;
  open_ = true;
}

void StepCapturer::record(const moert_capture_record_t& record) {
  expect_open(true, "record");
  must_understand(record.flags, 0, "record");
  expect_layer(record.layer);
  const size_t layer = record.layer;
  if (recorded_[layer] != 0)
    throw PluginError(MOERT_ALREADY_EXISTS,
                      "layer index " + std::to_string(layer) + " was recorded before in this step");
  const int64_t k = layout_.top_k(layer);
  const int64_t experts = layout_.num_experts(layer);
  const Rows<int32_t> ids = rows_of<int32_t>(record.ids, "ids", MOERT_DTYPE_I32, tokens_, k);
  Rows<float> weights, margins;
  if (layout_.has_weights())
    weights = rows_of<float>(record.weights, "weights", MOERT_DTYPE_F32, tokens_, k);
  if (layout_.has_margins())
    margins = rows_of<float>(record.margins, "margins", MOERT_DTYPE_F32, tokens_, 0);

  for (int64_t t = 0; t < tokens_; ++t) {
    const int32_t* row = ids.row(t, k, ids_.data());
    const Judged judged = judge(row, k, experts);
    if (judged == Judged::wrong) {
      // Nothing of a record that is refused stays.
      for (size_t i = std::min(static_cast<size_t>(t), places_.size()); i-- > 0;)
        if (places_[i] != nullptr) layout_.clear(places_[i], layer);
      refuse_ids(t, row, k, experts);
    }
    const auto i = static_cast<size_t>(t);
    if (judged == Judged::nothing || i >= places_.size() || places_[i] == nullptr) continue;
    layout_.put(places_[i], layer, row,
                weights.data == nullptr ? nullptr : weights.row(t, k, weights_.data()),
                margins.data == nullptr ? nullptr : margins.row(t, 1, nullptr));
  }
  recorded_[layer] = 1;
}

void StepCapturer::end() {
  expect_open(true, "end");
  open_ = false;
  if (!commit_at_end_) return;
  if (pending_.commit_step([this](size_t count) { expect(count); },
                           [this](const PendingRow& row) { keep(row); }))
    publish();
}

void StepCapturer::abort() {
  expect_open(true, "abort");
  open_ = false;
  pending_.abort([this](std::byte* row) { give_back(row); });
}

void StepCapturer::commit(int64_t sequence, int64_t position) {
  expect_open(false, "commit");
  if (pending_.commit(
          sequence, position, [this](size_t count) { expect(count); },
          [this](const PendingRow& row) { keep(row); }))
    publish();
}

void StepCapturer::drop(int64_t sequence, int64_t position) {
  expect_open(false, "drop");
  pending_.drop(sequence, position, [this](std::byte* row) { give_back(row); });
}

}  // namespace moert::capture
