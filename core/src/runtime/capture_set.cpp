// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture_set.hpp"

#include <algorithm>
#include <deque>

#include "runtime/ask.hpp"
#include "runtime/call.hpp"
#include "util/nearest.hpp"
#include "weights/safetensors.hpp"

namespace moert::runtime {

namespace {

uint32_t what_bits(const spec::Capture& wanted) {
  static const std::vector<std::string> kWords = {"ids", "weights", "margins"};
  uint32_t bits = MOERT_CAPTURE_IDS;
  for (const std::string& word : wanted.what) {
    const auto found = std::find(kWords.begin(), kWords.end(), word);
    if (found == kWords.end())
      throw Error(Fault::usage, "cannot capture '" + word + "'", "capture.what",
                  suggestion(word, kWords));
    bits |= 1u << (found - kWords.begin());
  }
  return bits;
}

}  // namespace

CaptureSet::CaptureSet(const Session& session, const Model& model,
                       const std::vector<spec::Capture>& wanted, int64_t max_tokens)
    : model_(model) {
  if (wanted.empty()) return;
  if (model.num_layers() == 0)
    throw Error(Fault::usage, "nothing to capture: the model is dense",
                model.checkpoint().path().string(), "remove `capture` from the run");
  for (size_t i = 0; i < model.num_layers(); ++i) {
    layer_ids_.push_back(model.layer(i).layer_id);
    num_experts_.push_back(model.layer(i).routing.rows());
    top_k_.push_back(model.layer(i).routing.top_k);
  }
  for (const spec::Capture& capture : wanted) attach(session, capture, max_tokens);
}

void CaptureSet::attach(const Session& session, const spec::Capture& wanted, int64_t max_tokens) {
  moert_capture_spec_t spec{};
  spec.struct_size = sizeof spec;
  spec.what = what_bits(wanted);
  spec.device = model_.device().id();
  spec.max_tokens = max_tokens;
  spec.n_layers = static_cast<uint32_t>(layer_ids_.size());
  spec.layer_ids = layer_ids_.data();
  spec.num_experts = num_experts_.data();
  spec.top_k = top_k_.data();
  registry::Policy policy;
  policy.pinned = wanted.to.find('.') == std::string::npos ? "capture." + wanted.to : wanted.to;
  const registry::Ask question = [&](const registry::Candidate& candidate) {
    return ask<moert_capturer_t>(session.host(), candidate, &spec);
  };
  const registry::Decision decision =
      registry::choose(session.registry().candidates(MOERT_KIND_CAPTURER), policy, question);
  if (decision.chosen == nullptr)
    throw Error(Fault::refused, "no capturer '" + wanted.to + "' accepts the run", "capture.to",
                "the candidates and their reasons:\n" + registry::decision_table(decision));
  void* self = nullptr;
  Call call;
  call.check(registry::table_of<moert_capturer_t>(*decision.chosen)
                 ->create(session.host(), &spec, nullptr, 0, &self, call.out()),
             decision.chosen->name, "create");
  attached_.push_back({wanted, spec.what, Part<moert_capturer_t>(*decision.chosen, self)});
}

bool CaptureSet::wants_margins() const {
  return std::any_of(attached_.begin(), attached_.end(), [](const AttachedCapturer& c) {
    return (c.what & MOERT_CAPTURE_MARGINS) != 0;
  });
}

void CaptureSet::begin(int64_t sequence, int64_t tokens) {
  const size_t first = sequences_.size();
  for (int64_t t = 0; t < tokens; ++t) {
    sequences_.push_back(sequence);
    positions_.push_back(t);
  }
  const moert_capture_step_t step = {sizeof step,
                                     0,
                                     tokens,
                                     model_.device().stream(),
                                     sequences_.data() + first,
                                     positions_.data() + first};
  for (const AttachedCapturer& capturer : attached_) {
    Call call;
    call.check(capturer.part->begin(capturer.part.self(), &step, call.out()), capturer.part.name(),
               "begin");
  }
}

void CaptureSet::record(size_t layer, const ForwardContext& context) {
  if (attached_.empty()) return;
  const TensorView ids = context.ids_view(layer), weights = context.weights_view(layer);
  const TensorView margins = context.margins_view();
  const moert_capture_record_t record = {
      sizeof record, 0, static_cast<uint32_t>(layer), 0, ids, weights, margins};
  for (const AttachedCapturer& capturer : attached_) {
    Call call;
    call.check(capturer.part->record(capturer.part.self(), &record, call.out()),
               capturer.part.name(), "record");
  }
}

void CaptureSet::end() {
  for (const AttachedCapturer& capturer : attached_) {
    Call call;
    call.check(capturer.part->end(capturer.part.self(), call.out()), capturer.part.name(), "end");
  }
}

moert_capture_rows_t CaptureSet::read_rows(const AttachedCapturer& capturer, uint32_t layer,
                                           capture::LayerRoutes& routes) const {
  const size_t rows = sequences_.size();
  routes.layer_id = layer_ids_[layer];
  routes.num_experts = num_experts_[layer];
  routes.top_k = top_k_[layer];
  routes.ids.assign(rows * static_cast<size_t>(routes.top_k), 0);
  routes.present.assign(rows, 0);
  if ((capturer.what & MOERT_CAPTURE_WEIGHTS) != 0) routes.weights.assign(routes.ids.size(), 0);
  if ((capturer.what & MOERT_CAPTURE_MARGINS) != 0) routes.margins.assign(rows, 0);
  moert_capture_rows_t request{};
  request.struct_size = sizeof request;
  request.layer = layer;
  request.rows = static_cast<int64_t>(rows);
  request.ids = routes.ids.data();
  request.weights = routes.weights.empty() ? nullptr : routes.weights.data();
  request.margins = routes.margins.empty() ? nullptr : routes.margins.data();
  request.present = routes.present.data();
  Call call;
  call.check(capturer.part->read(capturer.part.self(), &request, call.out()), capturer.part.name(),
             "read");
  return request;
}

std::vector<capture::LayerRoutes> CaptureSet::read(const AttachedCapturer& capturer) const {
  Call call;
  call.check(capturer.part->flush(capturer.part.self(), call.out()), capturer.part.name(), "flush");
  std::vector<capture::LayerRoutes> all(layer_ids_.size());
  for (size_t layer = 0; layer < all.size(); ++layer) {
    const moert_capture_rows_t rows = read_rows(capturer, static_cast<uint32_t>(layer), all[layer]);
    if (rows.written != static_cast<int64_t>(sequences_.size()))
      throw Error(Fault::plugin,
                  capturer.part.name() + " holds " + std::to_string(rows.written) + " rows, " +
                      std::to_string(sequences_.size()) + " were recorded",
                  "layer " + std::to_string(layer_ids_[layer]),
                  "do not use this capture; report the plugin");
  }
  return all;
}

void CaptureSet::write(const AttachedCapturer& capturer, const std::filesystem::path& path) const {
  const std::vector<capture::LayerRoutes> all = read(capturer);
  std::deque<capture::NarrowIds> narrow;  // the writer borrows: addresses must stay
  weights::SafetensorsWriter writer;
  const auto rows = static_cast<int64_t>(sequences_.size());
  for (const capture::LayerRoutes& routes : all) {
    const std::string prefix = "layers." + std::to_string(routes.layer_id) + ".";
    narrow.push_back(capture::narrow_ids(routes));
    const int width = narrow.back().bytes_per_id;
    const uint32_t type = width == 1   ? MOERT_DTYPE_U8
                          : width == 2 ? MOERT_DTYPE_U16
                                       : MOERT_DTYPE_U32;
    writer.add(prefix + "ids", type, {rows, routes.top_k}, narrow.back().data.data());
    writer.add(prefix + "present", MOERT_DTYPE_U8, {rows}, routes.present.data());
    if (!routes.weights.empty())
      writer.add(prefix + "weights", MOERT_DTYPE_F32, {rows, routes.top_k}, routes.weights.data());
    if (!routes.margins.empty())
      writer.add(prefix + "margins", MOERT_DTYPE_F32, {rows}, routes.margins.data());
  }
  writer.add("sequences", MOERT_DTYPE_I64, {rows}, sequences_.data());
  writer.add("positions", MOERT_DTYPE_I64, {rows}, positions_.data());
  writer.set_metadata("format", "moert-routes-draft");
  writer.set_metadata("model", model_.spec().name);
  std::vector<std::string> layers, experts, top_k;
  for (const capture::LayerRoutes& routes : all) {
    layers.push_back(std::to_string(routes.layer_id));
    experts.push_back(std::to_string(routes.num_experts));
    top_k.push_back(std::to_string(routes.top_k));
  }
  writer.set_metadata("layers", joined(layers, ","));
  writer.set_metadata("num_experts", joined(experts, ","));
  writer.set_metadata("top_k", joined(top_k, ","));
  if (!model_.simulated().empty()) writer.set_metadata("simulated", model_.simulated());
  writer.write(path);
}

}  // namespace moert::runtime
