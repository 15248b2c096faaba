// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <moert/sdk/capture_spec.hpp>

#include <algorithm>

#include "../prepare.hpp"
#include "../tensors.hpp"

namespace moert::gpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kTokenWords = sizeof(int64_t) / sizeof(int32_t);  // in front of the slots

std::string refusal(const moert_capture_spec_t& spec) {
  if (spec.device.kind != kDeviceKind)
    return "reads the memory of " MOERT_GPU_WORD " devices, the rows are on " +
           device_text(spec.device);
  if (std::string reason = device_refusal(spec.device); !reason.empty()) return reason;
  return capture_refusal(spec);
}

// Before anything is allocated.
moert_capture_spec_t accepted(const moert_capture_spec_t& spec, const Options& options) {
  options.allow({"buffer_mb", "when_full"});
  if (const std::string reason = refusal(spec); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return spec;
}

size_t slots_of(const Options& options, size_t row_bytes) {
  const auto bytes =
      static_cast<size_t>(detail::number_option(options, "buffer_mb", 16, 1, 1 << 20)) * kMiB;
  return std::min(bytes / row_bytes, static_cast<size_t>(INT32_MAX));
}

// A step's number of tokens, and the slot of each.
size_t words_of(int64_t max_tokens) { return kTokenWords + static_cast<size_t>(max_tokens); }

// While another error is on its way.
void wait_for(Stream stream) noexcept {
  try {
    synchronize(stream);
  } catch (const PluginError&) {  // the first one counts
  }
}

// A graph would send the places of this step's rows each time that it is launched.
void expect_no_recording(Stream stream) {
  if (is_recording(stream))
    throw PluginError(MOERT_FAILED_PRECONDITION,
                      "begin in a stream that is recorded for a graph; begin the step before");
}

}  // namespace

Support GpuMemory::supports(const Host&, const moert_capture_spec_t& spec) {
  const std::string reason = refusal(spec);
  return reason.empty() ? Support::yes() : Support::no(reason);
}

GpuMemory::GpuMemory(const Host&, const moert_capture_spec_t& spec, const Options& options)
    : layout_(accepted(spec, options)),
      device_(spec.device),
      max_tokens_(spec.max_tokens),
      drops_(detail::is_second_word(options, "when_full", "block", "drop")),
      fault_(prepare_device(device_.ordinal)),
      slots_(slots_of(options, layout_.bytes())),
      recorded_(spec.n_layers),
      sent_(device_.ordinal, words_of(max_tokens_)) {
  ring_ = DeviceMemory(device_.ordinal, slots_ * layout_.bytes(),
                       "the ring of " + std::to_string(slots_) + " rows, which buffer_mb sizes");
  places_ = DeviceMemory(device_.ordinal, words_of(max_tokens_) * sizeof(int32_t),
                         "the places of a step's rows");
  for (size_t slot = 0; slot < slots_; ++slot) free_.push_back(static_cast<int32_t>(slot));
  const CurrentDevice current(device_.ordinal);
  stream_ = create_stream();
  try {
    written_ = create_event();
    gpu::record(stream_, written_);  // nothing yet: from now on everyone waits for it
  } catch (...) {
    if (written_ != nullptr) destroy_event(written_);
    destroy_stream(stream_);
    throw;
  }
}

GpuMemory::~GpuMemory() {
  try {
    const CurrentDevice current(device_.ordinal);
    wait(stream_, written_);
    synchronize(stream_);
    destroy_event(written_);
    destroy_stream(stream_);
  } catch (const PluginError&) {  // the device is gone, and its work with it
  }
}

void GpuMemory::expect_open(bool open, const char* call) const {
  if (open_ != open)
    throw PluginError(MOERT_FAILED_PRECONDITION,
                      std::string(call) + (open ? " outside a step" : " inside a step"));
}

void GpuMemory::expect_step(const moert_capture_step_t& step) const {
  must_understand(step.flags, MOERT_CAPTURE_STEP_COMMIT, "step");
  if (step.tokens < 0 || step.tokens > max_tokens_)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a step of " + std::to_string(step.tokens) +
                                                  " tokens, max_tokens is " +
                                                  std::to_string(max_tokens_));
  if (step.tokens > 0 && (step.sequences == nullptr || step.positions == nullptr))
    throw PluginError(MOERT_INVALID_ARGUMENT, "the rows' sequences and positions are missing");
}

void GpuMemory::begin(const moert_capture_step_t& step) {
  expect_open(false, "begin");
  expect_step(step);
  Stream stream = native_stream(step.stream, device_);
  const CurrentDevice current(device_.ordinal);
  const auto count = static_cast<size_t>(step.tokens);
  expect_no_recording(stream);
  if (free_.size() < count && !drops_) make_room(count);
  pending_.open(count);
  step_stream_ = stream;
  send_places(step);
  std::fill(recorded_.begin(), recorded_.end(), uint8_t{0});
  tokens_ = step.tokens;
  commit_at_end_ = (step.flags & MOERT_CAPTURE_STEP_COMMIT) != 0;
  open_ = true;
}

void GpuMemory::make_room(size_t count) {
  move_to_host();
  if (free_.size() >= count) return;
  throw PluginError(
      MOERT_RESOURCE_EXHAUSTED,
      std::to_string(count) + " rows would come, " + std::to_string(pending_.size()) +
          " are pending, and the ring on the device has room for " + std::to_string(slots_) +
          "; buffer_mb must be " +
          std::to_string(((pending_.size() + count) * layout_.bytes() + kMiB - 1) / kMiB));
}

// Chooses the rows' places, tells the device, and empties them there. What throws leaves nothing behind: the next step
// may be another stream's, and would not come after what this one enqueued.
void GpuMemory::send_places(const moert_capture_step_t& step) {
  const auto count = static_cast<size_t>(step.tokens);
  PinnedWords& sent = sent_.next();
  int32_t* words = sent.free_words();
  std::memcpy(words, &step.tokens, sizeof step.tokens);
  for (size_t t = 0; t < count; ++t)
    words[kTokenWords + t] = t < free_.size() ? free_[t] : StepPlaces::kNowhere;
  wait(stream_, written_);  // rows of an earlier step may have had these places
  try {
    sent.send(stream_, places_.data<void>(), kTokenWords + count);
    sent.arrive_in(step_stream_);
    launch_start_rows(step_stream_, places(), step.tokens, static_cast<uint32_t>(layout_.bytes()),
                      ring_.data<unsigned char>());
  } catch (...) {
    wait_for(stream_);
    wait_for(step_stream_);
    throw;
  }
  free_.erase(free_.begin(),
              free_.begin() + static_cast<std::ptrdiff_t>(std::min(count, free_.size())));
  for (size_t t = 0; t < count; ++t)
    pending_.push({step.sequences[t], step.positions[t], words[kTokenWords + t]});
}

StepPlaces GpuMemory::places() const {
  return {places_.data<int64_t>(), places_.data<int32_t>() + kTokenWords};
}

RowPart GpuMemory::part_of(size_t layer) const {
  return {static_cast<uint32_t>(layout_.bytes()),
          static_cast<uint32_t>(layout_.present_byte(layer)),
          static_cast<uint32_t>(layer % 8),
          static_cast<uint32_t>(layout_.ids_byte(layer)),
          static_cast<uint32_t>(layout_.weights_byte(layer)),
          static_cast<uint32_t>(layout_.margin_byte(layer)),
          layout_.id_width()};
}

void GpuMemory::expect_new(const moert_capture_record_t& record) const {
  expect_open(true, "record");
  must_understand(record.flags, 0, "record");
  const std::string layer = "layer index " + std::to_string(record.layer);
  if (record.layer >= layout_.layers())
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      layer + ", there are " + std::to_string(layout_.layers()) + " layers");
  if (recorded_[record.layer] != 0)
    throw PluginError(MOERT_ALREADY_EXISTS, layer + " was recorded before in this step");
}

void GpuMemory::record(const moert_capture_record_t& record) {
  expect_new(record);
  const size_t layer = record.layer;
  const int64_t k = layout_.top_k(layer);
  const Matrix ids = matrix(record.ids, "ids", {MOERT_DTYPE_I32}, -1, k, device_);
  if (ids.rows < tokens_)
    throw PluginError(MOERT_INVALID_ARGUMENT, "ids have " + std::to_string(ids.rows) +
                                                  " rows, but the step has " +
                                                  std::to_string(tokens_) + " tokens");
  RecordArgs args;
  args.rows = ids.rows;
  args.top_k = static_cast<int32_t>(k);
  args.experts = static_cast<int32_t>(layout_.num_experts(layer));
  args.ids = ids.slots<int32_t>();
  if (layout_.has_weights())
    args.weights =
        matrix(record.weights, "weights", {MOERT_DTYPE_F32}, ids.rows, k, device_).slots<float>();
  if (layout_.has_margins()) {
    // A vector is a matrix of one row.
    const Matrix margins =
        matrix(record.margins, "margins", {MOERT_DTYPE_F32}, 1, ids.rows, device_);
    args.margins = static_cast<const float*>(margins.data);
    args.margin_stride = margins.col_stride;
  }
  args.places = places();
  args.part = part_of(layer);
  args.ring = ring_.data<unsigned char>();
  args.fault = fault_;
  const CurrentDevice current(device_.ordinal);
  launch_record(step_stream_, args);
  recorded_[layer] = 1;
}

void GpuMemory::close_step() {
  open_ = false;
  const CurrentDevice current(device_.ordinal);
  gpu::record(step_stream_, written_);
}

void GpuMemory::end() {
  expect_open(true, "end");
  close_step();
  if (!commit_at_end_) return;
  pending_.commit_step([this](size_t count) { expect_rows(count); },
                       [this](const Row& row) { keep(row); });
}

void GpuMemory::abort() {
  expect_open(true, "abort");
  close_step();
  pending_.abort([this](int32_t slot) { give_back(slot); });
}

void GpuMemory::commit(int64_t sequence, int64_t position) {
  expect_open(false, "commit");
  pending_.commit(
      sequence, position, [this](size_t count) { expect_rows(count); },
      [this](const Row& row) { keep(row); });
}

void GpuMemory::drop(int64_t sequence, int64_t position) {
  expect_open(false, "drop");
  pending_.drop(sequence, position, [this](int32_t slot) { give_back(slot); });
}

void GpuMemory::give_back(int32_t slot) {
  if (slot != StepPlaces::kNowhere) free_.push_back(slot);
}

// What can throw of committing rows.
void GpuMemory::expect_rows(size_t count) {
  const size_t needed = waiting_.size() + count;
  if (needed > waiting_.capacity()) waiting_.reserve(std::max(needed, 2 * waiting_.capacity()));
}

void GpuMemory::keep(const Row& row) {
  waiting_.push_back(row);
  if (row.place == StepPlaces::kNowhere) ++absent_;
}

// All or nothing: rows that could not be moved are still waiting.
void GpuMemory::move_to_host() {
  if (waiting_.empty()) return;
  const size_t before = host_.size(), bytes = layout_.bytes();
  host_.resize(before + waiting_.size() * bytes);
  try {
    const CurrentDevice current(device_.ordinal);
    wait(stream_, written_);
    copy_runs(host_.data() + before);
    synchronize(stream_);
  } catch (...) {
    host_.resize(before);
    throw;
  }
  for (size_t i = 0; i < waiting_.size(); ++i) {
    std::byte* row = host_.data() + before + i * bytes;
    if (waiting_[i].place == StepPlaces::kNowhere)
      layout_.start(row, waiting_[i].sequence, waiting_[i].position);
    else
      layout_.set_token(row, waiting_[i].sequence, waiting_[i].position);
    give_back(waiting_[i].place);
  }
  waiting_.clear();
}

// Rows whose slots are neighbours go together.
void GpuMemory::copy_runs(std::byte* to) const {
  const size_t bytes = layout_.bytes();
  for (size_t first = 0, end = 0; first < waiting_.size(); first = end) {
    const int32_t slot = waiting_[first].place;
    end = first + 1;
    if (slot == StepPlaces::kNowhere) continue;
    while (end < waiting_.size() && waiting_[end].place == slot + static_cast<int32_t>(end - first))
      ++end;
    copy_to_host(stream_, to + first * bytes,
                 ring_.data<std::byte>() + static_cast<size_t>(slot) * bytes,
                 (end - first) * bytes);
  }
}

void GpuMemory::flush() {
  // Inside of a step there is nothing more to move than before it.
  move_to_host();
}

void GpuMemory::read(moert_capture_rows_t& rows) {
  expect_open(false, "read");
  const auto total = static_cast<int64_t>(host_.size() / layout_.bytes() + waiting_.size());
  const int64_t count = layout_.readable(rows, total);
  move_to_host();
  rows.written = count;
  for (int64_t r = 0; r < count; ++r)
    layout_.give(host_.data() + static_cast<size_t>(rows.first + r) * layout_.bytes(), r, rows);
}

void GpuMemory::counts(moert_capture_counts_t& out) {
  out.rows = static_cast<int64_t>(host_.size() / layout_.bytes() + waiting_.size());
  out.pending = static_cast<int64_t>(pending_.size());
  out.absent = absent_;
  out.lost = 0;
  out.bytes = host_.capacity() + waiting_.capacity() * sizeof(Row);
}

}  // namespace moert::gpu
