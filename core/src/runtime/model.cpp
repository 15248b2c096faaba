// SPDX-License-Identifier: Apache-2.0
#include "runtime/model.hpp"

#include <moert/sdk/dtypes.hpp>

#include "runtime/call.hpp"
#include "weights/layout.hpp"

namespace moert::runtime {

namespace {

bool is_hidden_dtype(uint32_t dtype) {
  return dtype == MOERT_DTYPE_F32 || dtype == MOERT_DTYPE_BF16 || dtype == MOERT_DTYPE_F16;
}

// Rows travel in the experts' own type where that is a float that rows can have; a quantised model
// computes in bf16.
uint32_t hidden_dtype(const ModelSettings& settings, const weights::Plan& plan) {
  if (settings.dtype != MOERT_DTYPE_INVALID) return settings.dtype;
  if (!plan.layers.empty()) {
    const uint32_t dtype = dtype_from_name(plan.layers.front().scheme);
    if (is_hidden_dtype(dtype)) return dtype;
  }
  return MOERT_DTYPE_BF16;
}

bool is_plain(const std::string& scheme) { return is_hidden_dtype(dtype_from_name(scheme)); }

// What the run asks for and what the model's description announces must be what the tensors are. An
// announced format whose tensors look like one goes on to the choice, which knows the formats.
void require_scheme(const ModelSettings& settings, const spec::MoELayer& announced,
                    const weights::LayerPlan& layer, const weights::Checkpoint& checkpoint) {
  if (!announced.scheme.empty() && announced.scheme != layer.scheme && is_plain(layer.scheme))
    throw Error(Fault::usage,
                "layer " + std::to_string(layer.layer_id) + " is announced as '" +
                    announced.scheme + "', but its tensors are '" + layer.scheme + "'",
                checkpoint.path().string(),
                "if the tensors are right, write a model file with `moert model describe`, "
                "correct `scheme` there, and run that");
  if (settings.quant == "from-checkpoint" || settings.quant == layer.scheme) return;
  throw Error(Fault::usage,
              "the run asks for scheme '" + settings.quant + "', but layer " +
                  std::to_string(layer.layer_id) + " of the checkpoint is '" + layer.scheme + "'",
              checkpoint.path().string(),
              "write `quant: from-checkpoint`, or name the checkpoint's own scheme");
}

// The plan was made for the model's own routing; a made-up one reads less.
bool is_left_out(const spec::MoELayer& layer, const weights::Source& source) {
  return source.target == spec::Target::router &&
         weights::need_of(layer, source.target, source.part, source.role).kind ==
             weights::Need::unwanted;
}

// Only sizes stay: the model's own rule chooses nothing.
void simulate(const ModelSettings& settings, spec::Routing& routing) {
  spec::Routing simulated;
  simulated.method = "simulated";
  simulated.distribution = settings.simulate;
  simulated.seed = settings.seed;
  simulated.num_experts = routing.num_experts;
  simulated.zero_experts = routing.zero_experts;
  simulated.top_k = routing.top_k;
  routing = simulated;
}

}  // namespace

void require_supported(const spec::Model& model) {
  if (model.unsupported.empty()) return;
  std::string more;
  for (size_t i = 1; i < model.unsupported.size(); ++i)
    more += (i > 1 ? "; " : "also: ") + model.unsupported[i];
  throw Error(Fault::refused, "the model cannot be run: " + model.unsupported.front(),
              model.checkpoint.string(),
              more.empty() ? "`moert model list` tells which families run" : more);
}

Model::Model(Session& session, spec::Model spec, spec::Tensors rules, const ModelSettings& settings)
    : session_(session),
      spec_(std::move(spec)),
      rules_(std::move(rules)),
      checkpoint_(spec_.checkpoint),
      plan_(weights::make_plan(spec_, rules_, checkpoint_)),
      device_(session, settings.device, settings.choice.prefer) {
  require_supported(spec_);
  plan_.require_complete(checkpoint_);
  if (!settings.simulate.empty())
    for (spec::MoELayer& layer : spec_.layers) simulate(settings, layer.routing);
  dtype_ = hidden_dtype(settings, plan_);
  if (!is_hidden_dtype(dtype_))
    throw Error(Fault::usage,
                "hidden states of type " + std::string(dtype_name(dtype_)) + " are not supported",
                checkpoint_.path().string(), "give them as f32, bf16 or f16");
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    require_scheme(settings, spec_.layers[i], plan_.layers[i], checkpoint_);
    LayerSetting setting{
        device_.id(),           settings.max_tokens,           dtype_,
        plan_.layers[i].scheme, plan_.layers[i].shared_scheme, plan_.layers[i].layer_scheme};
    choices_.push_back(choose_layer(session_, spec_, spec_.layers[i], setting, settings.choice));
  }
}

Model::~Model() = default;

int64_t Model::vocabulary() const {
  int64_t least = 0;
  for (size_t i = 0; i < plan_.layers.size(); ++i)
    for (const weights::Source& source : plan_.layers[i].sources)
      if (source.target == spec::Target::router && source.part == MOERT_ROUTER_TOKEN_TABLE &&
          spec_.layers[i].routing.method == "hash" &&
          (least == 0 || source.tensor->shape[0] < least))
        least = source.tensor->shape[0];
  return least;
}

std::string Model::simulated() const {
  if (spec_.layers.empty()) return {};
  const spec::Routing& routing = spec_.layers.front().routing;
  return routing.method == "simulated" ? routing.distribution : "";
}

int64_t Model::index_of(int64_t layer_id) const {
  for (size_t i = 0; i < spec_.layers.size(); ++i)
    if (spec_.layers[i].layer_id == layer_id) return static_cast<int64_t>(i);
  return -1;
}

void Model::load(const Progress& progress) {
  for (const LayerChoice& choice : choices_) require_accepted(choice);
  uint64_t total = 0, done = 0, bytes = 0;
  for (const weights::LayerPlan& layer : plan_.layers) total += layer.sources.size();
  runners_.reserve(spec_.layers.size());
  for (size_t i = 0; i < spec_.layers.size(); ++i) load_layer(i, progress, total, done, bytes);
}

void Model::load_layer(size_t index, const Progress& progress, uint64_t total, uint64_t& done,
                       uint64_t& bytes) {
  const LayerChoice& choice = choices_[index];
  Runner runner = FusedMoE(session_, choice);
  const Quant quant = make_quant(session_, choice, "quant");
  const Quant shared_quant = make_quant(session_, choice, "shared_quant");
  const Quant layer_quant = make_quant(session_, choice, "layer_quant");
  const std::vector<weights::Source>& sources = plan_.layers[index].sources;
  for (size_t i = 0; i < sources.size(); ++i) {
    const weights::Source& source = sources[i];
    if (is_left_out(spec_.layers[index], source)) {
      ++done;
      continue;
    }
    load_source(runner, source,
                source.target == spec::Target::shared  ? shared_quant
                : source.target == spec::Target::layer ? layer_quant
                                                       : quant);
    // A fused tensor feeds several sources in a row; its pages may go after the last of them.
    if (i + 1 == sources.size() || sources[i + 1].tensor != source.tensor) {
      checkpoint_.release(*source.tensor);
      bytes += source.tensor->bytes;
    }
    if (progress) progress(++done, total, bytes);
  }
  Call call;
  call.check(runner->finish(runner.self(), call.out()), runner.name(), "finish",
             "layer " + std::to_string(choice.layer_id));
  runners_.push_back(std::move(runner));
}

// A table of tokens is I32 at the border; releases also store it as I64.
void Model::load_router(const Runner& runner, const weights::Source& source, const TensorView& view,
                        const std::string& place) const {
  std::vector<int32_t> ids;
  TensorView table = view;
  if (source.part == MOERT_ROUTER_TOKEN_TABLE && view.get()->dtype == MOERT_DTYPE_I64) {
    const auto* wide = static_cast<const int64_t*>(view.get()->data);
    ids.resize(static_cast<size_t>(element_count(*view.get())));
    for (size_t i = 0; i < ids.size(); ++i) {
      if (wide[i] < 0 || wide[i] > INT32_MAX)
        throw Error(Fault::input, "the table names expert " + std::to_string(wide[i]), place,
                    "the file is damaged, or belongs to another model");
      ids[i] = static_cast<int32_t>(wide[i]);
    }
    table = TensorView(ids.data(), MOERT_DTYPE_I32, {view.get()->shape[0], view.get()->shape[1]});
  }
  Call call;
  call.check(runner->load_router(runner.self(), source.part, table, call.out()), runner.name(),
             "load", place);
}

void Model::load_source(const Runner& runner, const weights::Source& source,
                        const Quant& quant) const {
  TensorView view = weights::source_view(checkpoint_, source);
  const std::string place = checkpoint_.place(*source.tensor);
  Call call;
  if (source.target == spec::Target::router) return load_router(runner, source, view, place);
  const std::string scheme(dtype_name(source.tensor->dtype));
  const moert_quant_view_t quant_view = {sizeof quant_view, 0,       scheme.c_str(),
                                         "canonical",       nullptr, nullptr,
                                         nullptr,           nullptr, nullptr};
  view.set_quant(&quant_view);
  const bool is_matrix =
      source.role == MOERT_ROLE_WEIGHT && source.part != MOERT_PART_SIGMOID_GATE &&
      source.part != MOERT_PART_EXPERT_NORM && source.part != MOERT_PART_OUTPUT_BIAS;
  if (is_matrix)
    call.check(quant->check(quant.self(), view, call.out()), quant.name(), "check", place);
  const moert_piece_t piece = {sizeof piece, 0, source.expert, source.part,
                               source.role,  0, view.get(),    quant.table(),
                               quant.self()};
  const auto load = source.target == spec::Target::shared  ? runner->load_shared
                    : source.target == spec::Target::layer ? runner->load_layer
                                                           : runner->load_expert;
  call.check(load(runner.self(), &piece, call.out()), runner.name(), "load", place);
}

}  // namespace moert::runtime
