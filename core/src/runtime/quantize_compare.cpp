// SPDX-License-Identifier: Apache-2.0
#include "runtime/quantize_compare.hpp"

#include <algorithm>
#include <cmath>

#include <moert/error.hpp>

#include "runtime/run.hpp"

namespace moert::runtime {

namespace {

std::string name_of(int64_t layer, const char* what) {
  return "layers." + std::to_string(layer) + "." + what;
}

// Experts of a row that the other row has not.
int64_t missing(const int32_t* row, const int32_t* other, int64_t k) {
  return std::count_if(row, row + k,
                       [&](int32_t id) { return std::find(other, other + k, id) == other + k; });
}

int64_t changed_slots(const moert_tensor_t& before, const moert_tensor_t& after) {
  const auto* left = static_cast<const int32_t*>(before.data);
  const auto* right = static_cast<const int32_t*>(after.data);
  const int64_t k = before.shape[1];
  int64_t changed = 0;
  for (int64_t row = 0; row < before.shape[0]; ++row)
    changed += missing(right + row * k, left + row * k, k);
  return changed;
}

double relative_error(const moert_tensor_t& before, const moert_tensor_t& after) {
  double difference = 0, all = 0;
  for (int64_t i = 0; i < element_count(before); ++i) {
    const double was = read_f32(before, i), is = read_f32(after, i);
    difference += (is - was) * (is - was);
    all += was * was;
  }
  return all == 0 ? 0 : std::sqrt(difference / all);
}

}  // namespace

LayerOutputs::LayerOutputs(Session& session, const config::Families& families,
                           const QuantizeJob& job, const std::filesystem::path& checkpoint,
                           const std::filesystem::path& folder, const std::function<void()>& poll) {
  if (job.hidden_states.empty()) return;
  spec::Run run;
  run.checkpoint = std::filesystem::absolute(checkpoint);
  run.device = "cpu";
  run.layers = {
      {"routed_experts", "cpu.ref"}, {"router", "cpu.ref"}, {"shared_experts", "cpu.ref"}};
  run.hidden_states = job.hidden_states;
  run.prefer = job.prefer;
  run.threads = job.threads;
  file_ = folder / (checkpoint == folder ? ".after.safetensors" : ".before.safetensors");
  run.output = file_;
  runtime::run(session, families, run, [&](uint64_t, uint64_t, uint64_t) { poll(); }, poll);
}

void LayerOutputs::remove() const {
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

void compare(const LayerOutputs& before, const LayerOutputs& after,
             std::vector<QuantizedLayer>& layers) {
  if (before.empty() || after.empty()) return;
  const weights::Checkpoint was(before.file()), is(after.file());
  for (QuantizedLayer& layer : layers) {
    const auto view = [&](const weights::Checkpoint& file, const char* what) {
      return file.view(*file.find(name_of(layer.layer_id, what)));
    };
    if (layer.layer_id < 0) continue;
    const TensorView ids = view(was, "topk_ids"), new_ids = view(is, "topk_ids");
    LayerChange change;
    change.slots = element_count(*ids.get());
    change.changed_slots = changed_slots(*ids.get(), *new_ids.get());
    change.output_error = relative_error(*view(was, "output").get(), *view(is, "output").get());
    layer.change = change;
  }
}

}  // namespace moert::runtime
