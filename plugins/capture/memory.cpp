// capture.memory of moert.capturer/1: keeps every row in host memory, to be read back.
// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <algorithm>
#include <charconv>
#include <moert/sdk/tensor.hpp>

namespace moert::capture {
namespace {

constexpr uint32_t kKnown = MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS | MOERT_CAPTURE_MARGINS;

std::string refusal(const moert_capture_spec_t& s) {
  if (s.device.kind != MOERT_DEVICE_CPU) return "decisions are not in host memory";
  if ((s.what & ~kKnown) != 0)
    return "capture bits " + std::to_string(s.what & ~kKnown) + " are not known";
  if ((s.what & MOERT_CAPTURE_IDS) == 0) return "a capture without ids";
  if (s.max_tokens < 0) return "max_tokens " + std::to_string(s.max_tokens) + " is negative";
  if (s.n_layers == 0) return "the model has no MoE layers, so there is nothing to capture";
  if (s.layer_ids == nullptr || s.num_experts == nullptr || s.top_k == nullptr)
    return "the layers' sizes are missing";
  for (uint32_t i = 0; i < s.n_layers; ++i) {
    const std::string layer = "layer " + std::to_string(s.layer_ids[i]);
    if (i > 0 && s.layer_ids[i] <= s.layer_ids[i - 1])
      return layer + " comes after layer " + std::to_string(s.layer_ids[i - 1]);
    if (s.num_experts[i] < 1 || s.num_experts[i] > INT32_MAX)
      return layer + " has num_experts " + std::to_string(s.num_experts[i]);
    if (s.top_k[i] < 1 || s.top_k[i] > s.num_experts[i])
      return layer + " has top_k " + std::to_string(s.top_k[i]) + " of " +
             std::to_string(s.num_experts[i]) + " experts";
  }
  return {};
}

size_t row_limit(std::string_view text) {
  if (text.empty()) return SIZE_MAX;
  size_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size())
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "option max_rows is '" + std::string(text) + "', expected a number");
  return value;
}

// A matrix of at least `rows` rows in host memory, checked, as [r * stride0 + c * stride1].
struct Source {
  const moert_tensor_t* tensor;
  template <class T>
  T at(int64_t row, int64_t col) const {
    const int64_t across = tensor->rank == 2 ? col * tensor->strides[1] : 0;
    return static_cast<const T*>(tensor->data)[row * tensor->strides[0] + across];
  }
};

Source source(const moert_tensor_t* t, const char* name, uint32_t dtype, int64_t rows,
              int64_t cols) {
  if (cols > 0)
    expect_tensor(t, name, dtype, {-1, cols});
  else
    expect_tensor(t, name, dtype, {-1});
  const std::string text(name);
  must_understand(t->flags & 0xffff0000u, 0, name);
  if (t->device.kind != MOERT_DEVICE_CPU)
    throw PluginError(MOERT_INVALID_ARGUMENT, text + " is not in host memory");
  if (t->shape[0] < rows)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        text + " is " + tensor_text(*t) + ", but the step has " + std::to_string(rows) + " tokens");
  if (rows > 0) {
    const int64_t last = (rows - 1) * t->strides[0] + (cols > 0 ? (cols - 1) * t->strides[1] : 0);
    if (t->data == nullptr || t->strides[0] < 0 || last < 0 ||
        dtype_bytes(dtype, last + 1) > t->bytes)
      throw PluginError(MOERT_INVALID_ARGUMENT, text + " is " + tensor_text(*t) +
                                                    ", more than its " + std::to_string(t->bytes) +
                                                    " bytes");
  }
  return {t};
}

// Copies row `row` of ids and throws for one that is no expert. False: a row without a token, of -1 alone.
bool copy_ids(const Source& from, int64_t row, int64_t num_experts, std::vector<int32_t>& to) {
  for (size_t j = 0; j < to.size(); ++j) to[j] = from.at<int32_t>(row, static_cast<int64_t>(j));
  if (std::all_of(to.begin(), to.end(), [](int32_t id) { return id == -1; })) return false;
  for (size_t j = 0; j < to.size(); ++j) {
    if (to[j] < 0 || to[j] >= num_experts)
      throw PluginError(MOERT_INVALID_ARGUMENT,
                        "ids[" + std::to_string(row) + ", " + std::to_string(j) + "] is " +
                            std::to_string(to[j]) + ", expected an expert below " +
                            std::to_string(num_experts));
  }
  return true;
}

}  // namespace

Support Memory::supports(const Host&, const moert_capture_spec_t& spec) {
  if (const std::string reason = refusal(spec); !reason.empty()) return Support::no(reason);
  return Support::yes();
}

Memory::Memory(const Host&, const moert_capture_spec_t& spec, const Options& options)
    : max_tokens_(spec.max_tokens), max_rows_(row_limit(options.get("max_rows"))) {
  options.allow({"max_rows"});
  if (const std::string reason = refusal(spec); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  for (uint32_t i = 0; i < spec.n_layers; ++i)
    layers_.emplace_back(spec.num_experts[i], spec.top_k[i],
                         (spec.what & MOERT_CAPTURE_WEIGHTS) != 0,
                         (spec.what & MOERT_CAPTURE_MARGINS) != 0);
  recorded_.resize(spec.n_layers, 0);
}

void Memory::expect_open(bool open, const char* call) const {
  if (open_ != open)
    throw PluginError(MOERT_FAILED_PRECONDITION,
                      std::string(call) + (open ? " outside a step" : " inside a step"));
}

LayerStore& Memory::layer(uint32_t index) {
  if (index >= layers_.size())
    throw PluginError(MOERT_INVALID_ARGUMENT, "layer index " + std::to_string(index) +
                                                  ", there are " + std::to_string(layers_.size()) +
                                                  " layers");
  return layers_[index];
}

void Memory::reserve(size_t rows) {
  if (rows > max_rows_ || order_.size() > max_rows_ - rows)
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      std::to_string(order_.size()) + " rows are kept and " + std::to_string(rows) +
                          " would come; max_rows is " + std::to_string(max_rows_));
  if (order_.size() + rows > order_.capacity())
    order_.reserve(std::max(order_.size() + rows, 2 * order_.capacity()));
  if (free_.size() >= rows) return;
  // Doubling keeps the cost of a row constant; every layer has as many slots as the largest so far.
  const size_t wanted = slots_ + rows - free_.size();
  const size_t slots = std::min(std::max(wanted, 2 * slots_), std::max(wanted, max_rows_));
  for (LayerStore& store : layers_) store.grow(slots);
  free_.reserve(slots);
  for (size_t slot = slots; slot-- > slots_;) free_.push_back(slot);
  slots_ = slots;
}

void Memory::begin(const moert_capture_step_t& step) {
  expect_open(false, "begin");
  must_understand(step.flags, 0, "step");
  if (step.tokens < 0 || step.tokens > max_tokens_)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a step of " + std::to_string(step.tokens) +
                                                  " tokens, max_tokens is " +
                                                  std::to_string(max_tokens_));
  if (step.tokens > 0 && (step.sequences == nullptr || step.positions == nullptr))
    throw PluginError(MOERT_INVALID_ARGUMENT, "the rows' sequences and positions are missing");
  reserve(static_cast<size_t>(step.tokens));
  step_first_ = order_.size();
  for (int64_t t = 0; t < step.tokens; ++t) {
    const size_t slot = free_.back();
    free_.pop_back();
    for (LayerStore& store : layers_) store.clear(slot);
    order_.push_back({step.sequences[t], step.positions[t], slot});
  }
  std::fill(recorded_.begin(), recorded_.end(), uint8_t{0});
  open_ = true;
}

void Memory::record(const moert_capture_record_t& record) {
  expect_open(true, "record");
  must_understand(record.flags, 0, "record");
  LayerStore& store = layer(record.layer);
  if (recorded_[record.layer] != 0)
    throw PluginError(MOERT_ALREADY_EXISTS, "layer index " + std::to_string(record.layer) +
                                                " was recorded before in this step");
  const auto tokens = static_cast<int64_t>(order_.size() - step_first_);
  const int64_t k = store.top_k();
  const Source ids = source(record.ids, "ids", MOERT_DTYPE_I32, tokens, k);
  Source weights{};
  Source margins{};
  if (store.has_weights()) weights = source(record.weights, "weights", MOERT_DTYPE_F32, tokens, k);
  if (store.has_margins()) margins = source(record.margins, "margins", MOERT_DTYPE_F32, tokens, 0);

  std::vector<int32_t> row_ids(static_cast<size_t>(k));
  std::vector<float> row_weights(static_cast<size_t>(k));
  for (int64_t t = 0; t < tokens; ++t) copy_ids(ids, t, store.num_experts(), row_ids);
  for (int64_t t = 0; t < tokens; ++t) {
    if (!copy_ids(ids, t, store.num_experts(), row_ids)) continue;  // stays absent
    for (int64_t j = 0; store.has_weights() && j < k; ++j)
      row_weights[static_cast<size_t>(j)] = weights.at<float>(t, j);
    const float margin = store.has_margins() ? margins.at<float>(t, 0) : 0.0f;
    store.put(order_[step_first_ + static_cast<size_t>(t)].slot, row_ids.data(), row_weights.data(),
              &margin);
  }
  recorded_[record.layer] = 1;
}

void Memory::end() {
  expect_open(true, "end");
  open_ = false;
}

void Memory::drop(int64_t sequence, int64_t position) {
  expect_open(false, "drop");
  const auto gone = [&](const Row& row) {
    return row.sequence == sequence && row.position >= position;
  };
  for (const Row& row : order_)
    if (gone(row)) free_.push_back(row.slot);  // never grows: begin reserved one place per slot
  order_.erase(std::remove_if(order_.begin(), order_.end(), gone), order_.end());
}

void Memory::read(moert_capture_rows_t& rows) {
  expect_open(false, "read");
  const LayerStore& store = layer(rows.layer);
  if (rows.first < 0 || rows.rows < 0)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "rows " + std::to_string(rows.rows) + " from " + std::to_string(rows.first));
  if ((rows.weights != nullptr && !store.has_weights()) ||
      (rows.margins != nullptr && !store.has_margins()))
    throw PluginError(MOERT_INVALID_ARGUMENT, "weights or margins were not captured");
  const auto total = static_cast<int64_t>(order_.size());
  const int64_t count = std::max<int64_t>(0, std::min(rows.rows, total - rows.first));
  if (count > 0 && (rows.ids == nullptr || rows.present == nullptr))
    throw PluginError(MOERT_INVALID_ARGUMENT, "nowhere to put ids or presence");
  const int64_t k = store.top_k();
  for (int64_t r = 0; r < count; ++r) {
    const Row& row = order_[static_cast<size_t>(rows.first + r)];
    rows.present[r] = store.present(row.slot) ? 1 : 0;
    if (rows.sequences != nullptr) rows.sequences[r] = row.sequence;
    if (rows.positions != nullptr) rows.positions[r] = row.position;
    if (rows.present[r] == 0) continue;
    store.get(row.slot, rows.ids + r * k, rows.weights == nullptr ? nullptr : rows.weights + r * k,
              rows.margins == nullptr ? nullptr : rows.margins + r);
  }
  rows.written = count;
}

}  // namespace moert::capture
