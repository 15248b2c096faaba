// Kind Run: its keys, and reading it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config/config.hpp"
#include "config/head.hpp"
#include "config/overrides.hpp"
#include "config/table.hpp"

namespace moert::config {
namespace {

constexpr const char* kAutoOrName = "auto|[a-z][a-z0-9_]*(\\.[a-z0-9_]+)+";

Table choice_keys() {
  return {
      {.path = "spec.model",
       .type = Type::map,
       .required = true,
       .min = 1,
       .max = 1,
       .doc = "the model: exactly one of the two keys below"},
      {.path = "spec.model.checkpoint",
       .type = Type::path,
       .doc = "folder with config.json and safetensors files"},
      {.path = "spec.model.description", .type = Type::path, .doc = "a file of kind Model"},
      {.path = "spec.device",
       .fallback = "auto",
       .pattern = "auto|[a-z][a-z0-9_]*(:[0-9]{1,4})?",
       .doc = "auto, cpu, or a backend and a number such as cuda:0; a device that is named is "
              "never replaced by another"},
      {.path = "spec.prefer",
       .type = Type::list,
       .fallback = "[]",
       .unique = true,
       .doc = "plugins by short name, best first; those not named come last"},
      {.path = "spec.prefer[]", .pattern = kShortName},
      {.path = "spec.layers",
       .type = Type::map,
       .doc = "for each kind of part, which candidate serves it"},
      {.path = "spec.layers.routed_experts",
       .fallback = "auto",
       .pattern = kAutoOrName,
       .doc = "auto, or a candidate such as cpu.ref that must serve every layer"},
      {.path = "spec.layers.router",
       .fallback = "auto",
       .pattern = kAutoOrName,
       .doc = "the same for routers"},
      {.path = "spec.layers.shared_experts",
       .fallback = "auto",
       .pattern = kAutoOrName,
       .doc = "the same for shared experts"},
      {.path = "spec.layers.runner",
       .fallback = "auto",
       .pattern = kAutoOrName,
       .doc = "the same for runners of whole layers"},
      {.path = "spec.layers.quant",
       .fallback = "from-checkpoint",
       .pattern = "from-checkpoint|[a-z0-9][a-z0-9_.-]*",
       .doc = "from-checkpoint, or a weight format that the checkpoint must have"},
  };
}

Table option_keys() {
  return {
      {.path = "spec.options",
       .type = Type::map,
       .doc =
           "for each kind of part, options of the candidate that serves it; one that it does not "
           "know, or for a part that no layer has, is an error"},
      {.path = "spec.options.routed_experts",
       .type = Type::map,
       .doc = "for routed experts; those of GPU backends: [plugins/gpu](../plugins/gpu/README.md)"},
      {.path = "spec.options.routed_experts.*", .type = Type::scalar},
      {.path = "spec.options.router", .type = Type::map, .doc = "the same for routers"},
      {.path = "spec.options.router.*", .type = Type::scalar},
      {.path = "spec.options.shared_experts",
       .type = Type::map,
       .doc = "the same for shared experts"},
      {.path = "spec.options.shared_experts.*", .type = Type::scalar},
      {.path = "spec.options.runner",
       .type = Type::map,
       .doc = "the same for runners of whole layers"},
      {.path = "spec.options.runner.*", .type = Type::scalar},
      {.path = "spec.fallback",
       .type = Type::word,
       .fallback = "error",
       .words = {"error", "next"},
       .doc = "when a preferred plugin refuses a layer: stop, or take the next candidate"},
  };
}

Table simulate_keys() {
  return {
      {.path = "spec.simulate",
       .type = Type::map,
       .doc = "replaces the model's routing by made-up choices, for benchmarks: what comes out "
              "means nothing"},
      {.path = "spec.simulate.routing",
       .type = Type::word,
       .required = true,
       .words = {"uniform", "normal", "zipf"},
       .doc =
           "how often an expert is chosen: all alike, the middle ones more, the first ones more"},
      {.path = "spec.simulate.seed",
       .type = Type::integer,
       .fallback = "0",
       .min = 0,
       .max = 2'000'000'000,
       .doc = "another seed makes other choices"},
  };
}

Table data_keys() {
  return {
      {.path = "spec.inputs", .type = Type::map, .required = true},
      {.path = "spec.inputs.hidden_states",
       .type = Type::path,
       .required = true,
       .doc =
           "safetensors file with a tensor layers.N.hidden_states for each MoE layer; layers that "
           "route by token ids also need layers.N.input_ids, or one input_ids for all; sequences "
           "and positions (i64, one a row) say which tokens the rows are, without them those of "
           "sequence 0 from position 0 on"},
      {.path = "spec.outputs", .type = Type::map},
      {.path = "spec.outputs.file",
       .type = Type::output_path,
       .doc = "safetensors file for each layer's output; nothing is written without it"},
      {.path = "spec.capture",
       .type = Type::list,
       .fallback = "[]",
       .doc = "where routing decisions go; several entries are served at once"},
      {.path = "spec.capture[]", .type = Type::map},
      {.path = "spec.capture[].to",
       .fallback = "memory",
       .pattern = std::string(kShortName) + "(\\.[a-z0-9_]+)*",
       .doc = "a capturer: memory is capture.memory, others by their full name such as acme.trace"},
      {.path = "spec.capture[].path",
       .type = Type::output_path,
       .doc = "safetensors file for what was captured; it is only counted without it"},
      {.path = "spec.capture[].what",
       .type = Type::list,
       .fallback = "[ids]",
       .min = 1,
       .unique = true,
       .doc = "what is recorded for every token and layer; ids always are"},
      {.path = "spec.capture[].what[]", .type = Type::word, .words = {"ids", "weights", "margins"}},
      {.path = "spec.capture[].options",
       .type = Type::map,
       .doc = "of the capturer itself; those of memory, file and shared_memory: "
              "[plugins/capture](../plugins/capture/README.md); of cuda.memory and hip.memory: "
              "[plugins/gpu](../plugins/gpu/README.md#the-capturer)"},
      {.path = "spec.capture[].options.*", .type = Type::scalar},
      {.path = "spec.replay",
       .type = Type::path,
       .doc = "capture file whose experts are taken instead of the router's own choice, token by "
              "token; tokens that it lacks route as usual"},
      {.path = "spec.verify",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "with replay: nothing is forced; the model's own choices are compared with the "
              "file's, and where they differ the exit code is 1"},
  };
}

Table check_keys() {
  return {
      {.path = "spec.expect",
       .type = Type::map,
       .doc = "numbers to compare with; outside the tolerance the exit code is 1"},
      {.path = "spec.expect.file",
       .type = Type::path,
       .required = true,
       .doc = "golden safetensors file: layers.N.topk_ids, .topk_weights and .output"},
      {.path = "spec.expect.tolerance",
       .type = Type::map,
       .doc = "without it, tolerances follow from types and sizes"},
      {.path = "spec.expect.tolerance.output",
       .type = Type::number,
       .min = 0,
       .max = 1e6,
       .doc = "largest error of an output row, relative to the row's norm"},
      {.path = "spec.expect.tolerance.weights",
       .type = Type::number,
       .min = 0,
       .max = 1e6,
       .doc = "largest error of a routing weight"},
      {.path = "spec.threads",
       .type = Type::integer,
       .fallback = "0",
       .min = 0,
       .max = 4096,
       .doc = "threads for work on the processor; 0 is one for each processor"},
      {.path = "spec.repeat",
       .type = Type::integer,
       .fallback = "1",
       .min = 1,
       .max = 1'000'000,
       .doc = "forwards of each layer; reported times are the median"},
  };
}

void set(std::string& to, const YamlNode* from) {
  if (from != nullptr) to = from->text;
}
void set(int64_t& to, const YamlNode* from) {
  if (from != nullptr) to = from->integer;
}
void set(std::optional<double>& to, const YamlNode* from) {
  if (from != nullptr) to = from->number;
}
void set_path(std::filesystem::path& to, const YamlNode* from) {
  if (from != nullptr) to = resolved_path(*from);
}
// Written by the program, so relative to where it runs, not to a file that may lie in a read-only place.
void set_output(std::filesystem::path& to, const YamlNode* from) {
  if (from != nullptr) to = std::filesystem::path(from->text).lexically_normal();
}

spec::Capture read_capture(const YamlNode& node) {
  spec::Capture capture;
  set(capture.to, node.find("to"));
  set_output(capture.path, node.find("path"));
  if (const YamlNode* what = node.find("what")) {
    capture.what.clear();
    for (const YamlNode& item : what->items) capture.what.push_back(item.text);
    if (std::find(capture.what.begin(), capture.what.end(), "ids") == capture.what.end())
      capture.what.insert(capture.what.begin(), "ids");
  }
  if (const YamlNode* options = node.find("options"))
    for (const YamlNode& option : options->items) capture.options[option.key] = option.text;
  return capture;
}

spec::Expect read_expect(const YamlNode& node) {
  spec::Expect expect;
  set_path(expect.file, node.find("file"));
  set(expect.output_tolerance, at(node, "tolerance.output"));
  set(expect.weight_tolerance, at(node, "tolerance.weights"));
  return expect;
}

void read_layers(spec::Run& run, const YamlNode& document) {
  for (const char* word : {"routed_experts", "router", "shared_experts", "runner", "quant"}) {
    const std::string path = std::string("spec.layers.") + word;
    const YamlNode* node = at(document, path);
    run.layers[word] = node != nullptr ? node->text : key_of(run_table(), path)->fallback;
  }
}

void read_options(spec::Run& run, const YamlNode& document) {
  const YamlNode* options = at(document, "spec.options");
  if (options == nullptr) return;
  for (const YamlNode& part : options->items)
    for (const YamlNode& option : part.items) run.options[part.key][option.key] = option.text;
}

void check_replay(const spec::Run& run, const YamlNode& document) {
  if (run.verify && run.replay.empty())
    fail_at(at(document, "spec.verify")->place(),
            "'spec.verify' is true, but there is nothing to compare with",
            "name a capture file by 'spec.replay' or --replay");
  if (!run.replay.empty() && !run.simulate.empty())
    fail_at(at(document, "spec.simulate")->place(), "made-up routing and a replay",
            "remove 'simulate' or 'replay'");
}

// Two captures into one file would leave only the second.
void check_outputs(const spec::Run& run, const YamlNode& document) {
  std::vector<std::filesystem::path> outputs;
  if (!run.output.empty()) outputs.push_back(run.output);
  for (size_t i = 0; i < run.capture.size(); ++i) {
    const std::filesystem::path& path = run.capture[i].path;
    if (path.empty()) continue;
    if (std::find(outputs.begin(), outputs.end(), path) != outputs.end())
      fail_at(at(document, "spec.capture")->items[i].find("path")->place(),
              "the file " + path.string() + " is written twice", "give each output its own file");
    outputs.push_back(path);
  }
}

std::string without_spec(const std::string& path) {
  return path.starts_with("spec.") ? path.substr(5) : path;
}

void collect_origins(const YamlNode& node, const std::string& path,
                     std::map<std::string, std::string>& origin) {
  if (node.type != YamlNode::Type::map) origin[without_spec(path)] = node.origin();
  for (size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const bool in_map = node.type == YamlNode::Type::map;
    if (!in_map && item.type != YamlNode::Type::map) continue;  // a list of words has one origin
    const std::string step =
        in_map ? (path.empty() ? "" : ".") + item.key : "[" + std::to_string(i) + "]";
    collect_origins(item, path + step, origin);
  }
}

void add_default_origins(std::map<std::string, std::string>& origin) {
  for (const Key& key : run_table())
    if (!key.fallback.empty() && key.path.find('[') == std::string::npos)
      origin.try_emplace(without_spec(key.path), "default");
}

}  // namespace

const Table& run_table() {
  static const Table table = [] {
    Table all = head_table("Run");
    for (const Table& part :
         {choice_keys(), option_keys(), simulate_keys(), data_keys(), check_keys()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

spec::Run read_run(const std::filesystem::path& file, const std::vector<Override>& overrides) {
  YamlNode document = read_yaml_file(file);
  check_head(document, "Run");
  for (const Override& each : overrides) apply(document, each);
  check(document, run_table());

  spec::Run run;
  set(run.name, at(document, "metadata.name"));
  set_path(run.checkpoint, at(document, "spec.model.checkpoint"));
  set_path(run.description, at(document, "spec.model.description"));
  set(run.device, at(document, "spec.device"));
  if (const YamlNode* prefer = at(document, "spec.prefer"))
    for (const YamlNode& item : prefer->items) run.prefer.push_back(item.text);
  read_layers(run, document);
  read_options(run, document);
  set(run.fallback, at(document, "spec.fallback"));
  set(run.simulate, at(document, "spec.simulate.routing"));
  set(run.seed, at(document, "spec.simulate.seed"));
  if (!run.simulate.empty() && at(document, "spec.expect") != nullptr)
    fail_at(at(document, "spec.simulate")->place(), "made-up routing is compared with numbers",
            "remove 'simulate' or 'expect'");
  set_path(run.hidden_states, at(document, "spec.inputs.hidden_states"));
  set_output(run.output, at(document, "spec.outputs.file"));
  if (const YamlNode* capture = at(document, "spec.capture"))
    for (const YamlNode& item : capture->items) run.capture.push_back(read_capture(item));
  set_path(run.replay, at(document, "spec.replay"));
  if (const YamlNode* verify = at(document, "spec.verify")) run.verify = verify->boolean;
  check_replay(run, document);
  if (const YamlNode* expect = at(document, "spec.expect")) run.expect = read_expect(*expect);
  set(run.threads, at(document, "spec.threads"));
  set(run.repeat, at(document, "spec.repeat"));
  check_outputs(run, document);
  collect_origins(document, "", run.origin);
  add_default_origins(run.origin);
  return run;
}

}  // namespace moert::config
