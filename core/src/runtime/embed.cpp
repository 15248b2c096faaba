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
  runtime::Model model;
  std::unique_ptr<runtime::ForwardContext> context;
  std::vector<LayerInfo> layers;
};

Runtime::Runtime(const RuntimeOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Runtime::load(const std::string& path, const ModelOptions& options) {
  spec::Model spec = std::filesystem::is_directory(path) ? impl_->families.resolve(path)
                                                         : config::read_model(path);
  runtime::ModelSettings settings;
  settings.device = options.device;
  settings.choice = {options.prefer, options.layers, options.fallback_next};
  runtime::require_supported(spec);
  settings.max_tokens = options.max_tokens;
  settings.dtype = dtype_of(options);
  spec::Tensors rules = impl_->families.tensors(spec);
  auto model =
      std::make_unique<Model::Impl>(impl_->session, std::move(spec), std::move(rules), settings);
  model->model.load();
  model->context = std::make_unique<runtime::ForwardContext>(model->model, options.max_tokens);
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
  context.set_token_ids(options.token_ids);
  context.forward(layer, options.forced_ids, options.valid);
  context.read_output(out);
  if (routing == nullptr) return;
  runtime::Routing read;
  context.read_routing(layer, read, true);
  *routing = {read.tokens, read.top_k, std::move(read.ids), std::move(read.weights),
              std::move(read.margins)};
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
