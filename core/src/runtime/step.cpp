// SPDX-License-Identifier: Apache-2.0
#include "runtime/step.hpp"

#include <algorithm>

#include <moert/error.hpp>

namespace moert::runtime {

namespace {

// Positions are counted up from, and a range's end is one more.
constexpr int64_t kMaxPosition = int64_t{1} << 62;

std::string token_text(capture::RowKey key) {
  return "sequence " + std::to_string(key.sequence) + ", position " + std::to_string(key.position);
}

}  // namespace

void Step::require_closed(const char* call) const {
  if (open_) throw Error(Fault::usage, "a step is open", call, "call end_step first");
}

void Step::begin(const StepRows& rows) {
  require_closed("begin_step");
  keys_.assign(rows.keys, rows.keys + rows.tokens);
  valid_.clear();
  if (rows.valid != nullptr) valid_.assign(rows.valid, rows.valid + rows.tokens);
  if (needs_rows()) check_keys();
  rows_ = {rows.tokens, keys_.data(), valid_.empty() ? nullptr : valid_.data(), rows.final};
  recorded_.assign(model_.num_layers(), 0);
  waiting_.clear();
  checks_at_end_ =
      needs_rows() && !captures_.needs_host_rows() && replay_ == nullptr && verify_ == nullptr;
  if (checks_at_end_) reserve_staging();
  captures_.begin(rows_);
  open_ = true;
}

void Step::reserve_staging() {
  int64_t slots = 0;
  for (size_t i = 0; i < model_.num_layers(); ++i)
    slots += rows_.tokens * model_.layer(i).routing.top_k;
  staged_ids_.reserve(static_cast<uint64_t>(slots) * sizeof(int32_t), "expert ids to be checked");
}

void Step::check_keys() {
  sorted_.clear();
  for (size_t i = 0; i < keys_.size(); ++i)
    if (valid_.empty() || valid_[i] != 0) sorted_.push_back(keys_[i]);
  std::sort(sorted_.begin(), sorted_.end());
  for (const capture::RowKey& key : sorted_)
    if (key.position < 0 || key.position >= kMaxPosition)
      throw Error(Fault::usage, "no position of a token", token_text(key),
                  "count a sequence's positions from 0");
  const auto twin = std::adjacent_find(sorted_.begin(), sorted_.end());
  if (twin != sorted_.end())
    throw Error(Fault::usage, "one token stands twice in a step", token_text(*twin),
                "give each row of a step a sequence and position of its own; mark padded rows as "
                "not valid");
}

void Step::check_rows(size_t layer) const {
  if (context_.tokens() != rows_.tokens)
    throw Error(
        Fault::usage,
        std::to_string(context_.tokens()) + " rows in a step of " + std::to_string(rows_.tokens),
        "layer " + std::to_string(model_.layer(layer).layer_id),
        "give every layer of a step the same rows");
}

const int32_t* Step::enter(size_t layer, const int32_t* asked) {
  forced_ = asked;
  if (open_) check_rows(layer);
  if (!needs_rows()) return forced_;
  if (!open_)
    throw Error(Fault::usage,
                "routing is captured or replayed, but no step says which tokens these are",
                "layer " + std::to_string(model_.layer(layer).layer_id), "call begin_step first");
  if (recorded_[layer] != 0)
    throw Error(Fault::usage, "a layer runs twice in a step whose routing is captured or replayed",
                "layer " + std::to_string(model_.layer(layer).layer_id),
                "begin another step for it");
  if (replay_ != nullptr) {
    if (asked != nullptr)
      throw Error(Fault::usage, "forced ids, and a replay that forces them",
                  "layer " + std::to_string(model_.layer(layer).layer_id), "leave one of them out");
    forced_ = replay_->ids(layer, rows_.keys, rows_.tokens, rows_.valid);
  }
  context_.mark_ids(layer);
  return forced_;
}

void Step::leave(size_t layer) {
  if (!needs_rows()) return;
  recorded_[layer] = 1;
  if (checks_at_end_) {
    check_later(layer);
    return captures_.record(layer, context_, nullptr);
  }
  context_.read_routing(layer, routing_, true);
  check_choices(layer, routing_.ids.data(), forced_);
  captures_.record(layer, context_, &routing_);
  if (verify_ != nullptr) compare(layer);
}

int32_t* Step::staged_ids(size_t layer) const {
  int64_t before = 0;
  for (size_t i = 0; i < layer; ++i) before += rows_.tokens * model_.layer(i).routing.top_k;
  return static_cast<int32_t*>(staged_ids_.data()) + before;
}

void Step::check_later(size_t layer) {
  Waiting waiting{layer, {}};
  if (forced_ != nullptr)
    waiting.forced.assign(forced_, forced_ + rows_.tokens * model_.layer(layer).routing.top_k);
  context_.copy_ids(layer, staged_ids(layer));
  waiting_.push_back(std::move(waiting));
}

void Step::check_waiting() {
  if (waiting_.empty()) return;
  context_.synchronize();
  for (const Waiting& waiting : waiting_)
    check_choices(waiting.layer, staged_ids(waiting.layer),
                  waiting.forced.empty() ? nullptr : waiting.forced.data());
}

void Step::check_choices(size_t layer, const int32_t* all_ids, const int32_t* forced) const {
  const int64_t k = model_.layer(layer).routing.top_k;
  const auto fail = [&](const std::string& problem) {
    throw Error(Fault::plugin, model_.runner(layer).name() + " " + problem,
                "layer " + std::to_string(model_.layer(layer).layer_id),
                "do not capture or replay with it; report it to its vendor");
  };
  for (int64_t t = 0; t < rows_.tokens; ++t) {
    const int32_t* ids = all_ids + t * k;
    for (int64_t j = 0; j < k; ++j)
      if (ids[j] == kUnwrittenId)
        fail("did not report which experts it chose for row " + std::to_string(t));
    if (forced == nullptr || forced[t * k] < 0) continue;
    if (rows_.valid != nullptr && rows_.valid[t] == 0) continue;
    if (!std::equal(ids, ids + k, forced + t * k))
      fail("chose other experts for row " + std::to_string(t) + " than it was told to");
  }
}

void Step::compare(size_t layer) {
  const int64_t k = routing_.top_k;
  const int32_t* other = verify_->ids(layer, rows_.keys, rows_.tokens, rows_.valid);
  for (int64_t t = 0; t < routing_.tokens; ++t) {
    if (rows_.valid != nullptr && rows_.valid[t] == 0) continue;
    const int32_t* ids = routing_.ids.data() + t * k;
    counter_->add(layer, compared_ + t, rows_.keys[t], ids[0] < 0 ? nullptr : ids,
                  other[t * k] < 0 ? nullptr : other + t * k,
                  &routing_.margins[static_cast<size_t>(t)]);
  }
}

void Step::end() {
  if (!open_)
    throw Error(Fault::usage, "no step is open", "end_step", "begin_step comes before it");
  open_ = false;
  compared_ += rows_.tokens;
  try {
    check_waiting();
  } catch (...) {
    try {
      captures_.abort();
    } catch (const Error&) {  // what led here counts
    }
    throw;
  }
  captures_.end();
}

}  // namespace moert::runtime
