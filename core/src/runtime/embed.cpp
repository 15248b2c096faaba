// The embedding API over the runtime's own classes.
// SPDX-License-Identifier: Apache-2.0
#include <moert/moert.hpp>
#include <moert/sdk/dtypes.hpp>

#include "config/config.hpp"
#include "observe/log.hpp"
#include "runtime/call.hpp"
#include "runtime/explain.hpp"
#include "runtime/forward_context.hpp"
#include "runtime/model.hpp"
#include "runtime/session.hpp"
#include "runtime/step.hpp"
#include "util/nearest.hpp"

namespace moert {

namespace {

runtime::SessionOptions session_options(const RuntimeOptions& options) {
  runtime::SessionOptions session;
  session.plugin_path = options.plugin_path;
  session.plugins = options.plugins;
  session.threads = options.threads;
  session.log = observe::make_sink({options.log, ""});
  return session;
}

std::vector<std::filesystem::path> family_folders(const RuntimeOptions& options) {
  if (options.families.empty()) return {runtime::installed_families()};
  return {options.families.begin(), options.families.end()};
}

uint32_t dtype_of(const ModelOptions& options) {
  if (options.dtype.empty()) return MOERT_DTYPE_INVALID;
  const uint32_t dtype = dtype_from_name(options.dtype);
  if (dtype != MOERT_DTYPE_INVALID) return dtype;
  throw Error(Fault::usage, "unknown dtype '" + options.dtype + "'", "ModelOptions::dtype",
              suggestion(options.dtype, {"f32", "bf16", "f16"}));
}

std::map<std::string, runtime::PartOptions> part_options(const ModelOptions& options) {
  std::map<std::string, runtime::PartOptions> parts;
  for (const auto& [word, values] : options.options)
    if (!values.empty()) parts[word] = {values, "ModelOptions::options, " + word};
  return parts;
}

}  // namespace

struct Runtime::Impl {
  explicit Impl(const RuntimeOptions& options)
      : session(session_options(options)),
        families(config::Families::load(family_folders(options))) {}
  runtime::Session session;
  config::Families families;
};

struct Model::Impl {
  Impl(runtime::Session& session, spec::Model spec, spec::Tensors rules,
       const runtime::ModelSettings& settings)
      : model(session, std::move(spec), std::move(rules), settings) {}
  size_t index(int64_t layer_id) const {
    const int64_t at = model.index_of(layer_id);
    if (at >= 0) return static_cast<size_t>(at);
    throw Error(Fault::usage,
                "layer " + std::to_string(layer_id) + " is no MoE layer of this model",
                model.checkpoint().path().string(), "see Model::layers()");
  }
  // What needs the loaded weights.
  void make_ready(const runtime::Session& session, int64_t max_tokens) {
    context = std::make_unique<runtime::ForwardContext>(model, max_tokens);
    captures = std::make_unique<runtime::CaptureSet>(session, model, max_tokens);
    step = std::make_unique<runtime::Step>(model, *context, *captures);
  }

  runtime::Model model;
  std::vector<LayerInfo> layers;
  std::unique_ptr<runtime::ForwardContext> context;
  std::unique_ptr<runtime::CaptureSet> captures;
  std::unique_ptr<capture::Replay> replay;
  std::unique_ptr<runtime::Step> step;
  std::vector<capture::RowKey> keys;  // of the step that begins
};

struct Capture::Impl {
  Impl(std::weak_ptr<Model::Impl> of, const runtime::AttachedCapturer* attached)
      : model(std::move(of)), capturer(attached) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (const auto held = model.lock()) held->captures->detach(*capturer);
  }
  std::shared_ptr<Model::Impl> held() const {
    if (auto model_now = model.lock()) return model_now;
    throw Error(Fault::usage, "the model of this capture is gone, and its rows with it", "Capture",
                "write a capture before its model goes");
  }
  std::weak_ptr<Model::Impl> model;
  const runtime::AttachedCapturer* capturer;
};

Runtime::Runtime(const RuntimeOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

Model::Model(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Runtime::load(const std::string& path, const ModelOptions& options) {
  spec::Model spec = std::filesystem::is_directory(path) ? impl_->families.resolve(path)
                                                         : config::read_model(path);
  runtime::ModelSettings settings;
  settings.device = options.device;
  settings.choice = {options.prefer, options.layers, options.fallback_next, part_options(options)};
  runtime::require_supported(spec);
  settings.max_tokens = options.max_tokens;
  settings.dtype = dtype_of(options);
  spec::Tensors rules = impl_->families.tensors(spec);
  auto model =
      std::make_shared<Model::Impl>(impl_->session, std::move(spec), std::move(rules), settings);
  model->model.load();
  model->make_ready(impl_->session, options.max_tokens);
  for (size_t i = 0; i < model->model.num_layers(); ++i) {
    const spec::MoELayer& layer = model->model.layer(i);
    LayerInfo info{layer.layer_id,
                   model->model.spec().hidden_size,
                   layer.intermediate_size,
                   layer.routing.num_experts,
                   layer.routing.top_k,
                   layer.routing.zero_experts,
                   layer.routing.method == "hash",
                   model->model.plan().layers[i].scheme,
                   {}};
    for (const runtime::KindChoice& kind : model->model.choices()[i].kinds)
      info.candidates[kind.word] = kind.decision.chosen->name;
    model->layers.push_back(std::move(info));
  }
  return Model(std::move(model));
}

const std::vector<LayerInfo>& Model::layers() const { return impl_->layers; }

void Model::forward(int64_t layer_id, const void* hidden, int64_t tokens, void* out,
                    RoutingResult* routing, const ForwardOptions& options) {
  const size_t layer = impl_->index(layer_id);
  runtime::ForwardContext& context = *impl_->context;
  context.set_hidden(hidden, tokens);
  runtime::Step& step = *impl_->step;
  if (step.is_open() && options.valid != nullptr)
    throw Error(Fault::usage, "rows are marked valid or not by the step and again by a forward",
                "layer " + std::to_string(layer_id), "mark padded rows in begin_step alone");
  // Rows of another number than the step's have no marks, and are refused by enter.
  const bool marked = step.is_open() && step.tokens() == tokens;
  const uint8_t* valid = marked ? step.valid() : options.valid;
  context.set_token_ids(options.token_ids, valid);
  const int32_t* forced = step.enter(layer, options.forced_ids);
  context.forward(layer, forced, valid);
  step.leave(layer);
  context.read_output(out);
  if (routing == nullptr) return;
  runtime::Routing read;
  context.read_routing(layer, read, true);
  *routing = {read.tokens, read.top_k, std::move(read.ids), std::move(read.weights),
              std::move(read.margins)};
}

void Model::begin_step(const StepRows& rows) {
  if (rows.tokens < 0 ||
      (rows.tokens > 0 && (rows.sequences == nullptr || rows.positions == nullptr)))
    throw Error(Fault::usage, "a step without its rows' sequences and positions", "begin_step",
                "give one of each for every row");
  std::vector<capture::RowKey>& keys = impl_->keys;
  keys.resize(static_cast<size_t>(rows.tokens));
  for (size_t t = 0; t < keys.size(); ++t) keys[t] = {rows.sequences[t], rows.positions[t]};
  impl_->step->begin({rows.tokens, keys.data(), rows.valid, rows.final});
}

void Model::end_step() { impl_->step->end(); }

Capture Model::capture(const CaptureOptions& options) {
  impl_->step->require_closed("capture");
  spec::Capture wanted;
  wanted.to = options.to;
  wanted.what = options.what;
  wanted.options = options.options;
  const runtime::AttachedCapturer& capturer = impl_->captures->attach(wanted);
  return Capture(std::make_unique<Capture::Impl>(impl_, &capturer));
}

void Model::commit(int64_t sequence, int64_t position) {
  impl_->step->require_closed("commit");
  impl_->captures->commit(sequence, position);
}

void Model::drop(int64_t sequence, int64_t position) {
  impl_->step->require_closed("drop");
  impl_->captures->drop(sequence, position);
}

void Model::replay(const std::string& path) {
  impl_->step->require_closed("replay");
  std::unique_ptr<capture::Replay> next;
  if (!path.empty()) {
    runtime::require_open_routing(impl_->model, "replayed");
    next = std::make_unique<capture::Replay>(path, runtime::captured_layers(impl_->model.spec()));
  }
  impl_->step->set_replay(next.get());
  impl_->replay = std::move(next);
}

ReplayCounts Model::replay_counts(int64_t layer_id) const {
  const size_t layer = impl_->index(layer_id);
  if (impl_->replay == nullptr) return {};
  const capture::ReplayCounts& counts = impl_->replay->counts(layer);
  return {counts.replayed, counts.native};
}

Capture::Capture(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Capture::Capture(Capture&&) noexcept = default;
Capture& Capture::operator=(Capture&&) noexcept = default;
Capture::~Capture() = default;

void Capture::flush() { impl_->held()->captures->flush(*impl_->capturer); }

CaptureCounts Capture::counts() const {
  const moert_capture_counts_t counts = impl_->held()->captures->counts(*impl_->capturer);
  return {counts.rows, counts.pending, counts.absent, counts.lost};
}

void Capture::write(const std::string& path) {
  const std::shared_ptr<Model::Impl> model = impl_->held();
  model->step->require_closed("write");
  model->captures->write(*impl_->capturer, path);
}

std::vector<int64_t> Model::load_statistics(int64_t layer_id, bool reset) {
  const size_t layer = impl_->index(layer_id);
  std::vector<int64_t> counts(static_cast<size_t>(impl_->model.layer(layer).routing.rows()));
  const TensorView view(counts.data(), MOERT_DTYPE_I64, {static_cast<int64_t>(counts.size())});
  const runtime::Runner& runner = impl_->model.runner(layer);
  runtime::Call call;
  call.check(runner->load_statistics(runner.self(), view, reset ? 1 : 0, call.out()),
             runner.name().c_str(), "load_statistics");
  return counts;
}

std::string Model::explain() const { return runtime::explain_choices(impl_->model.choices()); }

}  // namespace moert
