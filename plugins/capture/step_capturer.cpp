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

using Key = std::pair<int64_t, int64_t>;

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
  if (pending_.capacity() - pending_.size() < count)
    pending_.reserve(std::max(pending_.size() + count, 2 * pending_.capacity()));
  places_.clear();
  places_.reserve(count);
  take(count, places_);
  step_first_ = pending_.size();
  for (size_t t = 0; t < places_.size(); ++t) {
    if (places_[t] != nullptr) layout_.start(places_[t], step.sequences[t], step.positions[t]);
    pending_.push_back({step.sequences[t], step.positions[t], places_[t]});
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

template <class Wanted>
void StepCapturer::commit_if(Wanted&& wanted) {
  const auto count = std::count_if(pending_.begin(), pending_.end(), wanted);
  if (count == 0) return;
  expect(static_cast<size_t>(count));
  size_t stay = 0;
  for (const PendingRow& row : pending_) {
    if (wanted(row))
      keep(row);
    else
      pending_[stay++] = row;
  }
  pending_.resize(stay);
  publish();
}

// Rows of earlier steps with a key of this one go too, before it: committed later, they would count
// instead of it.
void StepCapturer::commit_step() {
  if (step_first_ == 0) return commit_if([](const PendingRow&) { return true; });
  std::vector<Key> keys;
  for (size_t i = step_first_; i < pending_.size(); ++i)
    keys.emplace_back(pending_[i].sequence, pending_[i].position);
  std::sort(keys.begin(), keys.end());
  commit_if([&](const PendingRow& row) {
    return std::binary_search(keys.begin(), keys.end(), Key(row.sequence, row.position));
  });
}

void StepCapturer::end() {
  expect_open(true, "end");
  open_ = false;
  if (commit_at_end_) commit_step();
}

void StepCapturer::abort() {
  expect_open(true, "abort");
  open_ = false;
  for (size_t i = step_first_; i < pending_.size(); ++i) give_back(pending_[i].row);
  pending_.resize(step_first_);
}

void StepCapturer::commit(int64_t sequence, int64_t position) {
  expect_open(false, "commit");
  commit_if([&](const PendingRow& row) {
    return row.sequence == sequence && (row.position < position || position == INT64_MAX);
  });
}

void StepCapturer::drop(int64_t sequence, int64_t position) {
  expect_open(false, "drop");
  size_t stay = 0;
  for (const PendingRow& row : pending_) {
    if (row.sequence == sequence && row.position >= position)
      give_back(row.row);
    else
      pending_[stay++] = row;
  }
  pending_.resize(stay);
}

int64_t StepCapturer::readable(const moert_capture_rows_t& rows, int64_t total) const {
  expect_layer(rows.layer);
  if (rows.first < 0 || rows.rows < 0)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "rows " + std::to_string(rows.rows) + " from " + std::to_string(rows.first));
  if ((rows.weights != nullptr && !layout_.has_weights()) ||
      (rows.margins != nullptr && !layout_.has_margins()))
    throw PluginError(MOERT_INVALID_ARGUMENT, "weights or margins were not captured");
  return std::max<int64_t>(0, std::min(rows.rows, total - rows.first));
}

void StepCapturer::give(const std::byte* row, int64_t r, const moert_capture_rows_t& rows) const {
  const bool present = layout_.present(row, rows.layer);
  if (rows.present != nullptr) rows.present[r] = present ? 1 : 0;
  if (rows.sequences != nullptr) rows.sequences[r] = layout_.sequence(row);
  if (rows.positions != nullptr) rows.positions[r] = layout_.position(row);
  if (!present) return;
  const int64_t k = layout_.top_k(rows.layer);
  layout_.get(row, rows.layer, rows.ids == nullptr ? nullptr : rows.ids + r * k,
              rows.weights == nullptr ? nullptr : rows.weights + r * k,
              rows.margins == nullptr ? nullptr : rows.margins + r);
}

}  // namespace moert::capture
