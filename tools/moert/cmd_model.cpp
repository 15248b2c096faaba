// `moert model inspect` and `moert model describe`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <moert/error.hpp>
#include <moert/sdk/dtypes.hpp>

#include "commands.hpp"
#include "facts.hpp"
#include "json.hpp"
#include "outputs.hpp"
#include "setup.hpp"
#include "text_table.hpp"
#include "weights/companions.hpp"
#include "weights/plan.hpp"

namespace moert::tool {

namespace {

using weights::Checkpoint;
using weights::Finding;
using weights::TensorInfo;

constexpr size_t kFindingsShown = 20;

struct Size {
  uint64_t tensors = 0, bytes = 0;
};
// (what it feeds, dtype) -> how much of it
using Sizes = std::map<std::pair<std::string, std::string>, Size>;

void add_size(Sizes& sizes, const std::string& role, const TensorInfo& tensor) {
  Size& size = sizes[{role, std::string(dtype_name(tensor.dtype))}];
  ++size.tensors;
  size.bytes += tensor.bytes;
}

std::string role_of(spec::Target target) {
  switch (target) {
    case spec::Target::expert: return "experts";
    case spec::Target::router: return "router";
    case spec::Target::shared: return "shared experts";
    case spec::Target::layer: return "around the experts";
    case spec::Target::ignore: break;
  }
  return "not of the MoE layers";
}

Sizes sizes_of(const Checkpoint& checkpoint, const weights::Plan& plan) {
  std::set<const TensorInfo*> seen;  // a fused tensor feeds several parts
  Sizes sizes;
  for (const weights::LayerPlan& layer : plan.layers) {
    for (const weights::Source& source : layer.sources) {
      const std::string role = role_of(source.target);
      if (seen.insert(source.tensor).second) add_size(sizes, role, *source.tensor);
      for (const weights::Companion& companion : source.companions)
        if (seen.insert(companion.tensor).second)
          add_size(sizes, role + ", " + weights::param_text(companion.param), *companion.tensor);
    }
  }
  for (const TensorInfo& tensor : checkpoint.tensors())
    if (!seen.contains(&tensor)) add_size(sizes, role_of(spec::Target::ignore), tensor);
  return sizes;
}

Sizes sizes_of(const Checkpoint& file) {
  Sizes sizes;
  for (const TensorInfo& tensor : file.tensors()) add_size(sizes, "tensors", tensor);
  return sizes;
}

void print_sizes(Console& console, const Sizes& sizes) {
  TextTable table({"what", "dtype", ">tensors", ">size", ">bytes"});
  for (const auto& [key, size] : sizes)
    table.add({key.first, key.second, std::to_string(size.tensors), bytes_text(size.bytes),
               std::to_string(size.bytes)});
  table.print(console);
}

Json sizes_json(const Sizes& sizes) {
  Json json = Json::array();
  for (const auto& [key, size] : sizes)
    json.push_back({{"what", key.first},
                    {"dtype", key.second},
                    {"tensors", size.tensors},
                    {"bytes", size.bytes}});
  return json;
}

const char* finding_name(Finding::Kind kind) {
  switch (kind) {
    case Finding::missing: return "missing";
    case Finding::unexpected: return "unexpected";
    case Finding::misshapen: return "misshapen";
  }
  return "unknown";
}

void print_findings(Console& console, const std::vector<Finding>& findings) {
  console.line();
  console.line(console.bad(count_text(findings.size(), "finding") +
                           ": the checkpoint does not fit the model"));
  TextTable table({"finding", "tensor", "detail", "nearest name"});
  for (size_t i = 0; i < std::min(findings.size(), kFindingsShown); ++i)
    table.add({finding_name(findings[i].kind), findings[i].name, findings[i].detail,
               findings[i].nearest});
  table.print(console);
  if (findings.size() > kFindingsShown)
    console.line("and " + std::to_string(findings.size() - kFindingsShown) +
                 " more: --json has them all");
}

Json findings_json(const std::vector<Finding>& findings) {
  Json json = Json::array();
  for (const Finding& finding : findings)
    json.push_back({{"finding", finding_name(finding.kind)},
                    {"tensor", finding.name},
                    {"detail", finding.detail},
                    {"nearest", finding.nearest}});
  return json;
}

void print_ignored(Console& console, const weights::Plan& plan) {
  if (plan.ignored_by_reason.empty()) return;
  console.line();
  TextTable table({"ignored because", ">tensors"});
  for (const auto& [reason, count] : plan.ignored_by_reason)
    table.add({reason, std::to_string(count)});
  table.print(console);
}

void print_warnings(Console& console, const weights::Plan& plan) {
  if (plan.warnings.empty()) return;
  console.line();
  for (const std::string& warning : plan.warnings) console.line("note: " + printable(warning));
}

// Layers whose experts are stored alike share a line.
void print_layouts(Console& console, const weights::Plan& plan) {
  std::map<std::pair<std::string, std::string>, std::vector<int64_t>> layouts;
  for (const weights::LayerPlan& layer : plan.layers)
    layouts[{layer.layout,
             layer.scheme + (layer.shared_scheme.empty() ? "" : ", shared " + layer.shared_scheme)}]
        .push_back(layer.layer_id);
  console.line();
  TextTable table({"layers", "layout", "scheme"});
  for (const auto& [key, layers] : layouts) table.add({ranges_text(layers), key.first, key.second});
  table.print(console);
}

// A model that is not run is the finding that matters most.
int plan_code(const spec::Model& model, const weights::Plan& plan) {
  if (!model.unsupported.empty()) return static_cast<int>(Fault::refused);
  return plan.findings.empty() ? 0 : static_cast<int>(Fault::input);
}

void print_unsupported(Console& console, const spec::Model& model) {
  if (model.unsupported.empty()) return;
  console.line();
  console.line(console.bad("the model cannot be run:"));
  for (const std::string& reason : model.unsupported) console.line("  " + printable(reason));
}

int print_plan(const Options& options, Console& console, const spec::Model& model,
               const Checkpoint& checkpoint, const weights::Plan& plan) {
  const int code = plan_code(model, plan);
  const Sizes sizes = sizes_of(checkpoint, plan);
  if (options.json) {
    Json json = json_document(options.command);
    json["model"] = facts_json(model_facts(model));
    json["layers"] = Json::array();
    for (const weights::LayerPlan& layer : plan.layers)
      json["layers"].push_back({{"layer", layer.layer_id},
                                {"layout", layer.layout},
                                {"scheme", layer.scheme},
                                {"shared_scheme", layer.shared_scheme}});
    json["tensors_used"] = plan.used;
    json["tensors_ignored"] = plan.ignored;
    json["ignored_by_reason"] = Json::array();
    for (const auto& [reason, count] : plan.ignored_by_reason)
      json["ignored_by_reason"].push_back({{"reason", reason}, {"tensors", count}});
    json["sizes"] = sizes_json(sizes);
    json["warnings"] = plan.warnings;
    json["findings"] = findings_json(plan.findings);
    json["unsupported"] = model.unsupported;
    json["complete"] = plan.findings.empty();
    print_json(console, json);
    return code;
  }
  print_facts(console, "model", model_facts(model));
  if (!plan.layers.empty()) print_layouts(console, plan);
  console.line();
  print_sizes(console, sizes);
  print_ignored(console, plan);
  print_warnings(console, plan);
  print_unsupported(console, model);
  if (!plan.findings.empty()) {
    print_findings(console, plan.findings);
    return code;
  }
  console.line();
  console.line(console.good("complete: " + count_text(plan.used, "tensor") + " used, " +
                            std::to_string(plan.ignored) +
                            " ignored by rule, none missing or left over"));
  return code;
}

// A safetensors file of any content.
int inspect_file(const Options& options, Console& console) {
  const Checkpoint file(options.target);
  if (options.json) {
    Json json = json_document(options.command);
    json["file"] = options.target;
    json["metadata"] = file.metadata();
    json["sizes"] = sizes_json(sizes_of(file));
    json["tensors"] = Json::array();
    for (const TensorInfo& tensor : file.tensors())
      json["tensors"].push_back({{"name", tensor.name},
                                 {"dtype", dtype_name(tensor.dtype)},
                                 {"shape", tensor.shape},
                                 {"bytes", tensor.bytes}});
    print_json(console, json);
    return 0;
  }
  TextTable metadata({"metadata", "value"});
  for (const auto& [key, value] : file.metadata()) metadata.add({key, value});
  if (!metadata.empty()) {
    metadata.print(console);
    console.line();
  }
  TextTable table({"tensor", "dtype", "shape", ">bytes"});
  for (const TensorInfo& tensor : file.tensors())
    table.add({tensor.name, std::string(dtype_name(tensor.dtype)),
               shape_text(tensor.shape.data(), static_cast<uint32_t>(tensor.shape.size())),
               std::to_string(tensor.bytes)});
  table.print(console);
  console.line();
  print_sizes(console, sizes_of(file));
  return 0;
}

int inspect_dense(const Options& options, Console& console, const spec::Model& model) {
  if (options.json) {
    Json json = json_document(options.command);
    json["model"] = facts_json(model_facts(model));
    json["layers"] = Json::array();
    print_json(console, json);
    return 0;
  }
  print_facts(console, "model", model_facts(model));
  console.line();
  console.line(model.family.empty()
                   ? "taken for a dense model: no known key of its config speaks of experts"
                   : "a dense model: it has no MoE layers, and nothing of it would be loaded");
  return 0;
}

bool has_weights(const std::filesystem::path& folder) {
  std::error_code unreadable;
  for (const auto& file : std::filesystem::directory_iterator(folder, unreadable))
    if (file.path().extension() == ".safetensors") return true;
  return false;
}

// A model whose tensors no family names: its facts and the reason.
int inspect_unknown(const Options& options, Console& console, const spec::Model& model) {
  if (options.json) {
    Json json = json_document(options.command);
    json["model"] = facts_json(model_facts(model));
    json["layers"] = Json::array();
    json["unsupported"] = model.unsupported;
    print_json(console, json);
  } else {
    print_facts(console, "model", model_facts(model));
    print_unsupported(console, model);
  }
  return static_cast<int>(Fault::refused);
}

spec::Model read_target(const Options& options, const config::Families& families) {
  std::error_code ignored;
  if (std::filesystem::is_directory(options.target, ignored))
    return families.resolve(options.target);
  return config::read_model(options.target);
}

}  // namespace

int cmd_model_inspect(const Options& options, Console& console) {
  make_log(options);
  if (options.target.ends_with(".safetensors")) return inspect_file(options, console);
  const config::Families families = load_families(options);
  const spec::Model model = read_target(options, families);
  if (model.family.empty())
    return model.layers.empty() ? inspect_dense(options, console, model)
                                : inspect_unknown(options, console, model);
  // A dense model is not accounted for, unless its tensors or its config speak of experts.
  const bool is_dense = model.layers.empty() && !model.speaks_of_experts;
  if (is_dense && !has_weights(model.checkpoint)) return inspect_dense(options, console, model);
  const spec::Tensors rules = families.tensors(model);
  const Checkpoint checkpoint(model.checkpoint);
  const weights::Plan plan = weights::make_plan(model, rules, checkpoint);
  if (is_dense && plan.of_dense_layers == 0) return inspect_dense(options, console, model);
  return print_plan(options, console, model, checkpoint, plan);
}

int cmd_model_describe(const Options& options, Console& console) {
  make_log(options);
  const config::Families families = load_families(options);
  const spec::Model model = families.resolve(options.target);
  const std::string yaml = config::write_model(model);
  if (!options.output.empty()) keep_checkpoint(options.target, options.output, "--output");
  if (!options.output.empty()) write_text_file(options.output, yaml);
  if (options.json) {
    Json json = json_document(options.command);
    json["model"] = facts_json(model_facts(model));
    json["yaml"] = yaml;
    json["output"] = options.output.empty() ? Json(nullptr) : Json(options.output);
    print_json(console, json);
  } else if (options.output.empty()) {
    console.line(std::string_view(yaml).substr(0, yaml.size() - (yaml.ends_with('\n') ? 1 : 0)));
  } else {
    console.line("wrote " + printable(options.output));
  }
  return 0;
}

}  // namespace moert::tool
