// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture_rows.hpp"

#include <algorithm>

namespace moert::runtime {

CaptureRows::CaptureRows(const Model& model)
    : model_(model), ids_(model.device()), weights_(model.device()), margins_(model.device()) {}

void CaptureRows::set(const StepRows& rows, bool on_device) {
  sequences_.clear();
  positions_.clear();
  runs_.clear();
  for (int64_t t = 0; t < rows.tokens; ++t) {
    if (rows.valid != nullptr && rows.valid[t] == 0) continue;
    if (runs_.empty() || runs_.back().from + runs_.back().count != t)
      runs_.push_back({t, count(), 0});
    ++runs_.back().count;
    sequences_.push_back(rows.keys[t].sequence);
    positions_.push_back(rows.keys[t].position);
  }
  if (runs_.empty() || (runs_.size() == 1 && runs_[0].from == 0)) return runs_.clear();
  if (!on_device) return;
  int64_t most_k = 0;
  for (size_t i = 0; i < model_.num_layers(); ++i)
    most_k = std::max(most_k, model_.layer(i).routing.top_k);
  const auto tokens = static_cast<uint64_t>(count()), k = static_cast<uint64_t>(most_k);
  ids_.reserve(tokens * k * sizeof(int32_t), "captured expert ids");
  weights_.reserve(tokens * k * sizeof(float), "captured weights");
  margins_.reserve(tokens * sizeof(float), "captured margins");
}

CaptureRows::Views CaptureRows::on_host(const Routing& routing) {
  const Routing* from = &routing;
  if (!runs_.empty()) {
    host_.tokens = count();
    host_.top_k = routing.top_k;
    host_.ids.clear();
    host_.weights.clear();
    host_.margins.clear();
    const auto append = [](auto& to, const auto& all, int64_t first, int64_t rows) {
      to.insert(to.end(), all.begin() + first, all.begin() + first + rows);
    };
    for (const Run& run : runs_) {
      append(host_.ids, routing.ids, run.from * routing.top_k, run.count * routing.top_k);
      append(host_.weights, routing.weights, run.from * routing.top_k, run.count * routing.top_k);
      append(host_.margins, routing.margins, run.from, run.count);
    }
    from = &host_;
  }
  return {TensorView(from->ids.data(), MOERT_DTYPE_I32, {from->tokens, from->top_k}),
          TensorView(from->weights.data(), MOERT_DTYPE_F32, {from->tokens, from->top_k}),
          TensorView(from->margins.data(), MOERT_DTYPE_F32, {from->tokens})};
}

const void* CaptureRows::gathered(const TensorView& view, DeviceMemory& to) const {
  const moert_tensor_t& from = *view.get();
  const uint64_t row = from.bytes / static_cast<uint64_t>(from.shape[0]);
  for (const Run& run : runs_)
    model_.device().copy(
        static_cast<char*>(to.data()) + static_cast<uint64_t>(run.to) * row,
        static_cast<const char*>(from.data) + static_cast<uint64_t>(run.from) * row,
        static_cast<uint64_t>(run.count) * row);
  return to.data();
}

CaptureRows::Views CaptureRows::on_device(size_t layer, const ForwardContext& context) {
  Views all = {context.ids_view(layer), context.weights_view(layer), context.margins_view()};
  if (runs_.empty()) return all;
  const int64_t k = model_.layer(layer).routing.top_k;
  Views some = {TensorView(gathered(all.ids, ids_), MOERT_DTYPE_I32, {count(), k}),
                TensorView(gathered(all.weights, weights_), MOERT_DTYPE_F32, {count(), k}),
                TensorView(gathered(all.margins, margins_), MOERT_DTYPE_F32, {count()})};
  for (TensorView* view : {&some.ids, &some.weights, &some.margins})
    view->set_device(model_.device().id());
  return some;
}

}  // namespace moert::runtime
