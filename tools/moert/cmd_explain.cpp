// `moert explain`: the candidates of every layer, and where each value came from.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include <moert/error.hpp>

#include "commands.hpp"
#include "error_text.hpp"
#include "facts.hpp"
#include "instructions.hpp"
#include "json.hpp"
#include "runtime/explain.hpp"
#include "runtime/run.hpp"
#include "setup.hpp"
#include "text_table.hpp"

namespace moert::tool {

namespace {

// What is explained: a run, or a model with the settings of the command line.
struct Subject {
  std::optional<spec::Run> run;
  spec::Model model;
  runtime::ModelSettings settings;
  int64_t threads = 0;
};

// Rows and dtype that the run's inputs have: candidates are asked with them.
void read_inputs(Subject& subject) {
  const weights::Checkpoint file(subject.run->hidden_states);
  int64_t most = 1;
  uint32_t dtype = 0;
  for (const spec::MoELayer& layer : subject.model.layers) {
    const auto* info = file.find("layers." + std::to_string(layer.layer_id) + ".hidden_states");
    if (info == nullptr || info->shape.empty()) continue;
    most = std::max(most, info->shape.front());
    dtype = info->dtype;
  }
  subject.settings = runtime::settings_of(*subject.run, most, dtype);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Subject read_subject(const Options& options, const config::Families& families) {
  Subject subject;
  if (!is_folder(options.target) && config::kind_of(options.target) == "Run") {
    subject.run = config::read_run(options.target, overrides(options));
    subject.model = runtime::resolve_model(families, *subject.run);
    subject.threads = subject.run->threads;
    runtime::require_supported(subject.model);
    read_inputs(subject);
    return subject;
  }
  if (!options.set.empty())
    throw Error(Fault::usage, "--set overrides keys of a Run, and this is none", options.target,
                "give a file of kind Run, or leave --set out");
  subject.model = is_folder(options.target) ? families.resolve(options.target)
                                            : config::read_model(options.target);
  runtime::require_supported(subject.model);
  subject.threads = threads_of(options);
  subject.settings.device = device_of(options);
  return subject;
}

const char* state_name(registry::Row::State state) {
  switch (state) {
    case registry::Row::chosen: return "chosen";
    case registry::Row::accepted: return "accepted";
    case registry::Row::refused: return "refused";
    case registry::Row::not_asked: return "not asked";
  }
  return "unknown";
}

Json kind_json(const runtime::KindChoice& kind) {
  Json json;
  json["part"] = kind.word;
  json["kind"] = kind.kind;
  json["scheme"] = kind.scheme.empty() ? Json(nullptr) : Json(kind.scheme);
  json["chosen"] =
      kind.decision.chosen == nullptr ? Json(nullptr) : Json(kind.decision.chosen->name);
  json["candidates"] = Json::array();
  for (const registry::Row& row : kind.decision.rows)
    json["candidates"].push_back({{"candidate", row.candidate},
                                  {"plugin", row.plugin},
                                  {"version", row.version},
                                  {"rank", row.rank},
                                  {"score", row.score},
                                  {"verdict", state_name(row.state)},
                                  {"reason", row.reason}});
  return json;
}

// The first part that nobody takes, over all layers.
std::optional<Error> refusal(const runtime::Model& model) {
  std::optional<std::string> word;
  std::string kind_id;
  std::vector<int64_t> layers;
  for (const runtime::LayerChoice& choice : model.choices())
    for (const runtime::KindChoice& kind : choice.kinds) {
      if (kind.decision.chosen != nullptr || (word && *word != kind.word)) continue;
      word = kind.word;
      kind_id = kind.kind;
      if (layers.empty() || layers.back() != choice.layer_id) layers.push_back(choice.layer_id);
    }
  if (!word) return std::nullopt;
  return Error(Fault::refused, "no " + *word + " accepts layers " + ranges_text(layers), kind_id,
               "the table says why; add a plugin that can, or change what is asked for");
}

Json document(const Subject& subject, const runtime::Model& model,
              const std::optional<Error>& error) {
  Json json = json_document("moert explain");
  json["device"] = model.device().text();
  if (subject.run) json["run"] = facts_json(run_facts(*subject.run));
  json["model"] = facts_json(model_facts(model.spec()));
  json["layers"] = Json::array();
  for (const runtime::LayerChoice& choice : model.choices()) {
    Json layer = {
        {"layer", choice.layer_id}, {"monolithic", choice.monolithic}, {"parts", Json::array()}};
    for (const runtime::KindChoice& kind : choice.kinds) layer["parts"].push_back(kind_json(kind));
    json["layers"].push_back(std::move(layer));
  }
  json["accepted"] = !error.has_value();
  if (error) json["error"] = error_json(*error);
  return json;
}

void print_text(Console& console, const Subject& subject, const runtime::Model& model) {
  if (subject.run) {
    print_facts(console, "run", run_facts(*subject.run));
    console.line();
  }
  print_facts(console, "model", model_facts(model.spec()));
  console.line();
  console.line("device: " + model.device().text());
  console.line();
  std::string tables = printable(runtime::explain_choices(model.choices()));
  if (tables.ends_with('\n')) tables.pop_back();
  console.line(tables);
}

}  // namespace

int cmd_explain(const Options& options, Console& console) {
  const LogSink log = make_log(options);
  const config::Families families = load_families(options);
  Subject subject = read_subject(options, families);
  runtime::Session session(session_options(options, log, subject.threads));
  require_named_plugins(session);
  require_instructions(options, session);
  require_backend(session);
  if (subject.model.layers.empty())
    throw Error(Fault::usage, "the model has no MoE layers", subject.model.checkpoint.string(),
                "give a Mixture-of-Experts checkpoint; see `moert model inspect`");
  spec::Tensors rules = families.tensors(subject.model);
  const runtime::Model model(session, subject.model, std::move(rules), subject.settings);
  const std::optional<Error> error = refusal(model);
  if (options.json)
    print_json(console, document(subject, model, error));
  else
    print_text(console, subject, model);
  if (!error) return 0;
  console.flush();
  console.say(printable(error->what()));
  return error->exit_code();
}

}  // namespace moert::tool
