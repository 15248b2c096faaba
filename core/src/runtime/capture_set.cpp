// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture_set.hpp"

#include <algorithm>
#include <exception>

#include "runtime/ask.hpp"
#include "runtime/call.hpp"
#include "util/nearest.hpp"

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

std::string where_options_are_told(const std::string& capturer) {
  return capturer.starts_with("capture.") ? "plugins/capture/README.md has its options"
                                          : "the README of the capturer's plugin has its options";
}

// What was asked for is wrong, not what happened: a place, a name, an option.
void check_create(moert_code_t code, const Call& call, const std::string& capturer,
                  const std::string& options_place) {
  switch (code) {
    case MOERT_INVALID_ARGUMENT:
    case MOERT_ALREADY_EXISTS:
    case MOERT_NOT_FOUND:
    case MOERT_PERMISSION_DENIED:
      throw Error(Fault::usage, capturer + ": " + call.message(), options_place,
                  where_options_are_told(capturer));
    default: break;
  }
}

// Room, on a disk or in a buffer, is what capturers run out of.
void check(moert_code_t code, const Call& call, const std::string& capturer, const char* action) {
  if (code == MOERT_RESOURCE_EXHAUSTED || code == MOERT_DEADLINE_EXCEEDED)
    throw Error(Fault::device, capturer + ": " + call.message(), std::string("capture, ") + action,
                "make room, or change the capturer's options: " + where_options_are_told(capturer));
  call.check(code, capturer, action);
}

}  // namespace

CaptureSet::CaptureSet(const Session& session, const Model& model, int64_t max_tokens)
    : session_(session),
      model_(model),
      max_tokens_(max_tokens),
      layers_(captured_layers(model.spec())),
      rows_(model) {
  for (const capture::CapturedLayer& layer : layers_) {
    layer_ids_.push_back(layer.layer_id);
    num_experts_.push_back(layer.num_experts);
    top_k_.push_back(layer.top_k);
  }
}

std::vector<std::pair<const char*, std::string>> CaptureSet::facts() const {
  const capture::CaptureInfo info = capture_info(model_);
  std::vector<std::pair<const char*, std::string>> facts = {
      {"model", info.model},
      {"family", info.family},
      {"model_digest", info.model_digest},
      {"router_digest", info.router_digest},
      {"hidden_layers", std::to_string(info.hidden_layers)},
      {"source", info.source}};
  if (!info.simulated.empty()) facts.emplace_back("simulated", info.simulated);
  return facts;
}

moert_capture_spec_t CaptureSet::capture_spec(uint32_t what) const {
  moert_capture_spec_t spec{};
  spec.struct_size = sizeof spec;
  spec.what = what;
  spec.device = kCpu;
  spec.max_tokens = max_tokens_;
  spec.n_layers = static_cast<uint32_t>(layer_ids_.size());
  spec.layer_ids = layer_ids_.data();
  spec.num_experts = num_experts_.data();
  spec.top_k = top_k_.data();
  return spec;
}

// Where a capturer reads rows; nullopt: on devices of another kind.
std::optional<moert_device_id_t> CaptureSet::place_of(const registry::Candidate& candidate) const {
  const moert_device_id_t device = model_.device().id();
  if (registry::lists_device(candidate, model_.device().word()).value_or(false)) return device;
  if (registry::lists_device(candidate, "cpu").value_or(true)) return kCpu;
  return std::nullopt;
}

moert_support_t CaptureSet::ask_candidate(const registry::Candidate& candidate,
                                          moert_capture_spec_t& spec) const {
  const auto place = place_of(candidate);
  if (!place)
    return refusal("reads memory of other devices, the model is on " + model_.device().text());
  spec.device = *place;
  return ask<moert_capturer_t>(session_.host(), candidate, &spec);
}

AttachedCapturer& CaptureSet::attach(const spec::Capture& wanted,
                                     const std::string& options_place) {
  const uint32_t what = what_bits(wanted);
  if (layers_.empty())
    throw Error(Fault::usage, "nothing to capture: the model is dense",
                model_.checkpoint().path().string(), "remove `capture` from the run");
  require_open_routing(model_, "captured");
  moert_capture_spec_t spec = capture_spec(what);
  const auto facts = this->facts();
  std::vector<moert_kv_t> fact_entries;
  for (const auto& [key, text] : facts) fact_entries.push_back({key, text.c_str()});
  spec.facts = fact_entries.data();
  spec.n_facts = static_cast<uint32_t>(fact_entries.size());
  registry::Policy policy;
  policy.pinned = wanted.to.find('.') == std::string::npos ? "capture." + wanted.to : wanted.to;
  const registry::Ask question = [&](const registry::Candidate& candidate) {
    return ask_candidate(candidate, spec);
  };
  const registry::Decision decision =
      registry::choose(session_.registry().candidates(MOERT_KIND_CAPTURER), policy, question);
  if (decision.chosen == nullptr)
    throw Error(Fault::refused, "no capturer '" + wanted.to + "' accepts the run", "capture.to",
                "the candidates and their reasons:\n" + registry::decision_table(decision));
  spec.device = *place_of(*decision.chosen);
  std::vector<moert_kv_t> options;
  for (const auto& [key, value] : wanted.options) options.push_back({key.c_str(), value.c_str()});
  void* self = nullptr;
  Call call;
  const moert_code_t code = registry::table_of<moert_capturer_t>(*decision.chosen)
                                ->create(session_.host(), &spec, options.data(),
                                         static_cast<uint32_t>(options.size()), &self, call.out());
  check_create(code, call, decision.chosen->name, options_place);
  check(code, call, decision.chosen->name, "create");
  AttachedCapturer made{wanted, what, Part<moert_capturer_t>(*decision.chosen, self),
                        spec.device.kind != MOERT_DEVICE_CPU};
  if (!wanted.path.empty()) expect_readable(made);
  attached_.push_back(std::move(made));
  return attached_.back();
}

void CaptureSet::detach(const AttachedCapturer& capturer) {
  attached_.remove_if([&](const AttachedCapturer& other) { return &other == &capturer; });
}

template <class Function>
void CaptureSet::each(const char* action, Function&& function) const {
  std::exception_ptr first;
  for (const AttachedCapturer& capturer : attached_) try {
      Call call;
      check(function(capturer, call.out()), call, capturer.part.name(), action);
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  if (first != nullptr) std::rethrow_exception(first);
}

void CaptureSet::begin(const StepRows& rows) {
  if (attached_.empty()) return;
  rows_.set(rows, std::any_of(attached_.begin(), attached_.end(),
                              [](const auto& capturer) { return capturer.on_device; }));
  static constexpr moert_stream_t kHostStream = {sizeof kHostStream, 0, kCpu, nullptr};
  moert_capture_step_t step = {
      sizeof step,       rows.final ? uint32_t{MOERT_CAPTURE_STEP_COMMIT} : 0U,
      rows_.count(),     nullptr,
      rows_.sequences(), rows_.positions()};
  std::vector<const AttachedCapturer*> begun;
  try {
    for (const AttachedCapturer& capturer : attached_) {
      Call call;
      step.stream = capturer.on_device ? model_.device().stream() : &kHostStream;
      check(capturer.part->begin(capturer.part.self(), &step, call.out()), call,
            capturer.part.name(), "begin");
      begun.push_back(&capturer);
    }
  } catch (...) {
    // Nothing will come for those that began, and absent rows must not take the place of earlier ones.
    for (const AttachedCapturer* capturer : begun)
      capturer->part->abort(capturer->part.self(), nullptr);
    throw;
  }
}

bool CaptureSet::needs_host_rows() const {
  return std::any_of(attached_.begin(), attached_.end(),
                     [](const AttachedCapturer& capturer) { return !capturer.on_device; });
}

void CaptureSet::record(size_t layer, const ForwardContext& context, const Routing* routing) {
  std::optional<CaptureRows::Views> host, device;
  for (const AttachedCapturer& capturer : attached_) {
    if (capturer.on_device && !device) device = rows_.on_device(layer, context);
    if (!capturer.on_device && !host) host = rows_.on_host(*routing);
  }
  each("record", [&](const AttachedCapturer& capturer, moert_error_t* error) {
    const CaptureRows::Views& views = capturer.on_device ? *device : *host;
    const moert_capture_record_t record = {
        sizeof record, 0, static_cast<uint32_t>(layer), 0, views.ids, views.weights, views.margins};
    return capturer.part->record(capturer.part.self(), &record, error);
  });
}

void CaptureSet::end() {
  each("end", [](const AttachedCapturer& capturer, moert_error_t* error) {
    return capturer.part->end(capturer.part.self(), error);
  });
}

void CaptureSet::abort() {
  each("abort", [](const AttachedCapturer& capturer, moert_error_t* error) {
    return capturer.part->abort(capturer.part.self(), error);
  });
}

void CaptureSet::commit(int64_t sequence, int64_t position) {
  each("commit", [&](const AttachedCapturer& capturer, moert_error_t* error) {
    return capturer.part->commit(capturer.part.self(), sequence, position, error);
  });
}

void CaptureSet::drop(int64_t sequence, int64_t position) {
  each("drop", [&](const AttachedCapturer& capturer, moert_error_t* error) {
    return capturer.part->drop(capturer.part.self(), sequence, position, error);
  });
}

void CaptureSet::flush(const AttachedCapturer& capturer) const {
  Call call;
  check(capturer.part->flush(capturer.part.self(), call.out()), call, capturer.part.name(),
        "flush");
}

moert_capture_counts_t CaptureSet::counts(const AttachedCapturer& capturer) const {
  moert_capture_counts_t counts{};
  counts.struct_size = sizeof counts;
  Call call;
  call.check(capturer.part->counts(capturer.part.self(), &counts, call.out()), capturer.part.name(),
             "counts");
  return counts;
}

void require_open_routing(const Model& model, const std::string& wish) {
  for (const LayerChoice& choice : model.choices()) {
    const KindChoice* runner = choice.find("runner");
    if (runner == nullptr || runner->decision.chosen == nullptr ||
        (runner->decision.support.flags & MOERT_SUPPORT_HIDES_ROUTING) == 0)
      continue;
    throw Error(Fault::refused,
                "routing cannot be " + wish + ": " + runner->decision.chosen->name +
                    " does not show which experts it chooses",
                "layer " + std::to_string(choice.layer_id),
                "name another runner, such as layers.runner: core.default");
  }
}

std::vector<capture::CapturedLayer> captured_layers(const spec::Model& model) {
  std::vector<capture::CapturedLayer> layers;
  for (const spec::MoELayer& layer : model.layers)
    layers.push_back({layer.layer_id, layer.routing.rows(), layer.routing.top_k});
  return layers;
}

}  // namespace moert::runtime
