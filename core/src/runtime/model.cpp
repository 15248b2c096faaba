// SPDX-License-Identifier: Apache-2.0
#include "runtime/model.hpp"

#include <algorithm>

#include <moert/sdk/dtypes.hpp>

#include "runtime/call.hpp"
#include "runtime/formats.hpp"
#include "runtime/layer_loader.hpp"
#include "runtime/piece_loading.hpp"
#include "util/nearest.hpp"
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

// What the run asks for and what the model's description pins must be what the tensors are.
void require_scheme(const ModelSettings& settings, const spec::MoELayer& pinned, int64_t layer_id,
                    const FormatUse& use, const weights::Checkpoint& checkpoint) {
  const std::string found = "layer " + std::to_string(layer_id) + " of the checkpoint is '" +
                            use.scheme.name + "' (" + use.first + ")";
  if (!pinned.scheme.empty() && !names_scheme(pinned.scheme, use.scheme.name))
    throw Error(Fault::usage,
                "the model's description says scheme '" + pinned.scheme + "', but " + found,
                checkpoint.path().string(), "correct `scheme` there, or leave it out");
  if (settings.quant == "from-checkpoint" || names_scheme(settings.quant, use.scheme.name)) return;
  throw Error(Fault::usage, "the run asks for scheme '" + settings.quant + "', but " + found,
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

// Options of a part that no layer has would be passed over in silence, and so would those of what takes none.
void require_taken(const std::map<std::string, PartOptions>& options,
                   const std::vector<LayerChoice>& choices) {
  const std::vector<std::string> takers = {"routed_experts", "router", "runner", "shared_experts"};
  for (const auto& [word, given] : options) {
    if (std::find(takers.begin(), takers.end(), word) == takers.end())
      throw Error(Fault::usage, "there are options for '" + word + "', which takes none",
                  given.place, suggestion(word, takers));
    if (std::none_of(choices.begin(), choices.end(),
                     [&name = word](const LayerChoice& choice) { return choice.find(name); }))
      throw Error(Fault::usage, "there are options for " + word + ", and no layer has them",
                  given.place, "remove them");
  }
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
  for (const std::string& warning : plan_.warnings)
    session_.log()(LogLevel::warn, "weights", warning);
  for (size_t i = 0; i < spec_.layers.size(); ++i) choose(i, settings);
  if (!spec_.layers.empty()) require_taken(settings.choice.options, choices_);
}

void Model::choose(size_t index, const ModelSettings& settings) {
  const weights::LayerPlan& layer = plan_.layers[index];
  const std::vector<FormatUse> formats = formats_of(plan_, layer);
  for (const FormatUse& use : formats)
    if (use.word == "quant")
      require_scheme(settings, spec_.layers[index], layer.layer_id, use, checkpoint_);
  const LayerSetting setting{device_.id(),
                             settings.max_tokens,
                             dtype_,
                             layer.scheme,
                             layer.shared_scheme,
                             layer.layer_scheme,
                             act_scheme_of(formats, "quant"),
                             act_scheme_of(formats, "shared_quant"),
                             device_.word()};
  choices_.push_back(
      choose_layer(session_, spec_, spec_.layers[index], setting, formats, settings.choice));
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
  LoadProgress counted{progress};
  for (const weights::LayerPlan& layer : plan_.layers) counted.total += layer.sources.size();
  runners_.reserve(spec_.layers.size());
  for (size_t i = 0; i < spec_.layers.size(); ++i) load_layer(i, counted);
  if (progress) progress(counted.done, counted.total, counted.bytes);
}

void Model::load_layer(size_t index, LoadProgress& progress) {
  const LayerChoice& choice = choices_[index];
  Runner runner = FusedMoE(session_, choice);
  LayerLoader loader(session_, checkpoint_, plan_, choice, runner);
  std::vector<weights::Source> sources = plan_.layers[index].sources;
  progress.done += std::erase_if(sources, [&](const weights::Source& source) {
    return is_left_out(spec_.layers[index], source);
  });
  PieceLoading pieces(
      checkpoint_, sources, [&](const weights::Source& source) { loader.load(source); }, progress);
  pieces.run(loads_concurrently(choice) ? &session_.services().pool() : nullptr);
  Call call;
  call.check(runner->finish(runner.self(), call.out()), runner.name(), "finish",
             "layer " + std::to_string(choice.layer_id));
  for (Quant& quant : loader.take_quants()) quants_.push_back(std::move(quant));
  runners_.push_back(std::move(runner));
}

}  // namespace moert::runtime
