// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include <moert/abi/entry.h>
#include <moert/error.hpp>

#include "bench_shapes.hpp"
#include "help.hpp"
#include "synthetic_weights.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

// A CLI::App and the help entries of its options.
struct Node {
  CLI::App* app = nullptr;
  const CommandInfo* info = nullptr;
  std::vector<OptionInfo> help;

  void flag(const char* group, const char* names, bool& to, const char* text) {
    app->add_flag(names, to);
    note(group, names, "", text);
  }
  void text(const char* group, const char* names, const char* value, std::string& to,
            const char* meaning) {
    app->add_option(names, to)->take_last();
    note(group, names, value, meaning);
  }
  // May be given several times, one value each.
  void list(const char* group, const char* names, const char* value, std::vector<std::string>& to,
            const char* meaning) {
    app->add_option(names, to)->allow_extra_args(false);
    note(group, names, value, meaning);
  }
  void note(const char* group, std::string names, const char* value, const char* meaning) {
    const size_t comma = names.find(',');
    if (comma != std::string::npos) names.insert(comma + 1, " ");
    if (*value != '\0') names += std::string(" ") + value;
    help.push_back({group, names, meaning});
  }
};

// Talk: the same everywhere.
void add_common(Node& node, Options& options) {
  node.flag("Output", "--json", options.json, "results as JSON [off]");
  node.flag("Output", "--no-color", options.no_color, "no colour on a terminal [off; NO_COLOR]");
  node.flag("Common", "-q,--quiet", options.quiet, "only errors on stderr, no progress [off]");
  node.app->add_flag("-v,--verbose", options.verbose);
  node.note("Common", "-v,--verbose", "", "more on stderr; -vv and -vvv for still more [off]");
  node.text("Common", "--log", "LEVEL|AREAS", options.log,
            "error, warn, info, debug, trace, or areas to see in full: loader,dispatch,weights "
            "[warn; MOERT_LOG]");
  node.text("Common", "--log-file", "FILE", options.log_file,
            "where the log goes [stderr; MOERT_LOG_FILE]");
  node.app->set_help_flag("-h,--help");
  node.note("Common", "-h,--help", "", "this text");
}

void add_plugin_options(Node& node, Options& options) {
  node.list("Plugins", "--plugin-path", "DIR|FILE", options.plugin_path,
            "look here first; may be repeated [none; MOERT_PLUGIN_PATH]");
  node.text("Plugins", "--plugins", "NAMES", options.plugins,
            "use only these, separated by commas [all; MOERT_PLUGINS]");
  node.text("Plugins", "--threads", "N", options.threads,
            "threads of the core's pool, 0 for one a processor [0; MOERT_NUM_THREADS]");
  node.text(
      "Plugins", "--cpu-isa", "LEVEL", options.cpu_isa,
      "highest level of instructions that cpu.simd uses: portable, avx2, avx512, avx512_bf16 or, "
      "by its name alone, amx_bf16 [the processor's; MOERT_CPU_ISA]");
}

void add_families(Node& node, Options& options) {
  node.list("Input", "--families", "DIR", options.families,
            "more family files; may be repeated [those beside the program]");
}

void add_quantize_options(Node& node, Options& options) {
  add_families(node, options);
  node.text(
      "Quantization", "--scheme", "SCHEME", options.scheme,
      "what experts become: fp8.block128x128 (or other blocks), fp8.channel, fp8.tensor, mxfp8, "
      "mxfp4, nvfp4, int8.channel, int4.g32, int4.g64, int4.g128; bf16 or f32 to decode");
  node.list(
      "Quantization", "--exclude", "PATTERN", options.exclude,
      "leave these modules as they are: a name or words of it, a glob with '*', an expression "
      "after 're:'; may be repeated [none]");
  node.text("Quantization", "--experts", "FILE", options.experts,
            "a file of kind Experts: which experts get another scheme [none]");
  node.text("Quantization", "--hidden-states", "FILE", options.hidden_states,
            "run both checkpoints on these rows, and report what changed [none]");
  node.text("Output", "--shard-size", "SIZE", options.shard_size,
            "most data in one file, as in 500MB [5GB]");
}

void add_experts_options(Node& node, Options& options) {
  static const std::string shapes = "what layer: " + joined(bench_shape_names()) +
                                    ", or HxIxExk: hidden and intermediate size, experts, experts "
                                    "of a token [olmoe]";
  static const std::string schemes =
      "formats of the weights, separated by commas: a scheme of `moert quantize`, f16, " +
      bench_scheme_aliases() + ", or a quant method's own name [bf16]";
  node.text("Bench", "--shape", "NAME|HxIxExk", options.shape, shapes.c_str());
  node.text("Bench", "--scheme", "S[,S...]", options.scheme, schemes.c_str());
  node.text("Bench", "--tokens", "N[,N...]", options.tokens,
            "tokens of a forward [1,4,32,128,512]");
  node.text("Bench", "--device", "DEVICE", options.device,
            "where: cpu, cuda:0, hip:0, auto [cpu; MOERT_DEVICE]");
  node.text("Bench", "--candidates", "all|NAME[,NAME...]", options.candidates,
            "who is measured; they take turns [all of the device but the oracle, cpu.ref, and "
            "null's]");
  node.list("Bench", "--option", "KEY=VALUE", options.option,
            "an option of the candidates, such as gemm=wgmma of a GPU's; may be repeated [none]");
  node.text("Bench", "--seconds", "S", options.seconds,
            "time for each candidate at each number of tokens; three forwards at least [1]");
  node.text("Bench", "--repeat", "N", options.repeat, "so many forwards instead [by time]");
  node.text("Bench", "--layers", "N", options.layers,
            "layers that take turns [as many as exceed the last cache four times]");
  node.text("Bench", "--cache-mb", "N", options.cache_mb,
            "size of the last cache; memory for the probe of bandwidth is four times that [the "
            "system's, or 67 on a device; the probe's then 512 MB at least, 2048 on a device]");
  node.flag("Bench", "--no-graph", options.no_graph,
            "call each forward, where a device could launch it as a recorded graph [off]");
  node.flag("Bench", "--no-probes", options.no_probes,
            "leave out what the machine gives at most, before and after each point [off]");
}

void add_segment_options(Node& node, Options& options) {
  node.text("Capture", "--folder", "DIR", options.folder, "where segments are [/dev/shm]");
  if (node.info->name == "capture attach") {
    node.text("Capture", "--wait", "SECONDS", options.wait,
              "how long to wait for the segment to be made [0]");
    node.text("Output", "-o,--output", "FILE", options.output, "the capture file [none: required]");
  } else {
    node.flag("Capture", "--remove-stale", options.remove_stale,
              "remove those whose owner is gone, with the rows that wait there [off]");
  }
}

void add_capture_options(Node& node, Options& options) {
  const std::string_view name = node.info->name;
  if (name == "capture attach" || name == "capture segments")
    return add_segment_options(node, options);
  if (name == "capture show")
    node.text("Output", "--rows", "N", options.rows, "show the experts of so many tokens [0]");
  if (name != "capture diff")
    node.text(
        "Capture", "--sequence", "S", options.sequence,
        name == "capture convert"
            ? "which sequence is written, or what the one that is read is called [the only one; 0]"
            : "only this sequence [all]");
  if (name == "capture stats")
    node.text("Capture", "--pairs", "N", options.pairs, "so many pairs of experts a layer [3]");
  if (name == "capture stats" || name == "capture diff")
    node.text("Capture", "--near-tie", "MARGIN", options.near_tie,
              "a smaller margin between the last expert chosen and the best left out is a near tie "
              "[0.001]");
  if (name != "capture convert") return;
  node.text("Capture", "--from", "FORMAT", options.from,
            "IN is vllm, sglang, tensorrt-llm, megatron or prime-rl [a capture file]");
  node.text("Capture", "--to", "FORMAT", options.to, "OUT is one of these [a capture file]");
  node.text("Capture", "--encoding", "WORD", options.encoding,
            "of the other format: raw or base64 [as the format is usually sent]");
  node.text("Capture", "--first-position", "P", options.first_position,
            "position of the first row of the other format [0]");
  node.text("Capture", "--model", "DIR|Model.yaml", options.model,
            "with --from: the model whose routing it is [none]");
  node.text("Capture", "--like", "FILE", options.like,
            "with --from: a capture of the same model, instead of --model [none]");
  add_families(node, options);
}

void add_own_options(Node& node, Options& options) {
  const std::string_view name = node.info->name;
  if (name == "quantize") add_quantize_options(node, options);
  if (name == "bench experts") add_experts_options(node, options);
  if (name.starts_with("capture ")) add_capture_options(node, options);
  if (name == "report")
    node.text("Output", "-o,--output", "FILE", options.output, "the page [none: required]");
  if (name == "run" || name == "explain") {
    add_families(node, options);
    node.list("Run", "--set", "KEY=VALUE", options.set,
              "overrides a key of the YAML, such as layers.router=cpu.ref; may be repeated [none]");
  }
  if (name == "run") {
    node.text("Run", "--replay", "FILE", options.replay,
              "take the experts that this capture file names [the run's `replay`]");
    node.flag("Run", "--verify", options.verify,
              "force nothing; compare the model's own choices with the replay's file [off]");
  }
  if (name == "run" || name == "explain" || name == "bench load")
    node.text("Run", "--device", "DEVICE", options.device,
              "cpu, cuda:0, hip:0, auto [auto; MOERT_DEVICE]");
  if (name == "bench load")
    node.text(
        "Run", "--experts", "CANDIDATE", options.experts,
        "who packs the routed experts, such as cpu.simd [as in a run: the best that accepts]");
  if (name.starts_with("model ") || name == "bench overhead" || name == "bench load" ||
      name == "bench index")
    add_families(node, options);
  if (name == "plugins list")
    node.flag("Output", "--all", options.all,
              "every file that was looked at, and what became of it [off]");
  if (name == "model list")
    node.flag("Output", "--markdown", options.markdown, "as a table for a page [off]");
  if (name == "model describe")
    node.text("Output", "-o,--output", "FILE", options.output, "write the YAML here [stdout]");
  if (!name.starts_with("model") && !name.starts_with("capture") && name != "report" &&
      name != "bench index" && node.info->run != nullptr)
    add_plugin_options(node, options);
}

class CommandLine {
 public:
  explicit CommandLine(Options& options) : options_(options) {
    for (const CommandInfo& info : commands()) add(info);
  }

  CLI::App& root() { return *root_; }
  // The innermost command that was named.
  const Node& reached() const {
    const CLI::App* app = root_.get();
    for (auto named = app->get_subcommands(); !named.empty(); named = app->get_subcommands())
      app = named.front();
    return nodes_.at(app);
  }
  // What may follow `node`: its flags, or its subcommands.
  static std::vector<std::string> known_after(const Node& node, bool flags) {
    std::vector<std::string> names;
    if (flags)
      for (const CLI::Option* option : node.app->get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    else
      for (const CLI::App* child : node.app->get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(child->get_name());
    return names;
  }

 private:
  CLI::App* make_app(const std::string& name) {
    if (name.empty()) {
      root_ = std::make_unique<CLI::App>("", "moert");
      return root_.get();
    }
    const size_t blank = name.rfind(' ');
    if (blank == std::string::npos) return root_->add_subcommand(name);
    return root_->get_subcommand(name.substr(0, blank))->add_subcommand(name.substr(blank + 1));
  }

  void add(const CommandInfo& info) {
    CLI::App* app = make_app(std::string(info.name));
    Node& node = nodes_[app];
    node.app = app;
    node.info = &info;
    if (info.run == nullptr) app->require_subcommand(1);
    if (!info.target.empty())
      app->add_option("target", options_.target)->required(info.target_required);
    if (info.target_many) app->add_option("more", options_.more);
    if (!info.second.empty()) app->add_option("destination", options_.destination)->required();
    add_own_options(node, options_);
    add_common(node, options_);
    if (!info.name.empty()) return;
    app->set_version_flag("--version", "moert " MOERT_VERSION " (ABI " +
                                           std::to_string(MOERT_ABI_MAJOR) + "." +
                                           std::to_string(MOERT_ABI_MINOR) + ")");
    node.note("Common", "--version", "", "version of the program and of the plugin ABI");
  }

  Options& options_;
  std::unique_ptr<CLI::App> root_;
  std::map<const CLI::App*, Node> nodes_;
};

std::string full_name(const Node& node) {
  return node.info->name.empty() ? "moert" : "moert " + std::string(node.info->name);
}

[[noreturn]] void fail_unknown(const Node& node, const std::string& word) {
  const bool is_flag = word.size() > 1 && word.front() == '-';
  const std::string name = is_flag ? word.substr(0, word.find('=')) : word;
  const std::vector<std::string> known = CommandLine::known_after(node, is_flag);
  const std::string help = "`" + full_name(node) + " --help`";
  if (known.empty())
    throw Error(Fault::usage, "'" + word + "' is one argument too many", full_name(node),
                "see " + help);
  throw Error(Fault::usage,
              std::string("unknown ") + (is_flag ? "flag" : "command") + " '" + name + "'",
              full_name(node), suggestion(name, known) + " (" + help + " has them all)");
}

[[noreturn]] void fail_parse(CommandLine& line, const CLI::ParseError& error) {
  const Node& node = line.reached();
  const std::vector<std::string> rest = line.root().remaining(true);
  if (!rest.empty()) fail_unknown(node, rest.front());
  const std::string help = "see `" + full_name(node) + " --help`";
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (is_missing && node.info->run == nullptr)
    throw Error(Fault::usage, "a command is missing", full_name(node),
                "one of: " + joined(CommandLine::known_after(node, false)) + "; " + help);
  if (is_missing) {
    const bool first = node.info->second.empty() || node.app->get_option("target")->empty();
    throw Error(Fault::usage,
                "the argument " + std::string(first ? node.info->target : node.info->second) +
                    " is missing",
                full_name(node),
                "give " + std::string(first ? node.info->target_text : node.info->second_text) +
                    ", as in: " + std::string(node.info->examples.front()));
  }
  throw Error(Fault::usage, error.what(), full_name(node), help);
}

// A variable of the shell that is not set, mostly: never meant as "not given".
void refuse_empty(const Node& node) {
  for (const CLI::Option* option : node.app->get_options())
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      const bool is_target = option->get_positional();
      const bool is_first = option->get_name() == "target";
      throw Error(Fault::usage, "the argument is empty",
                  full_name(node) + " " +
                      (is_target ? std::string(is_first ? node.info->target : node.info->second)
                                 : "--" + option->get_lnames().front()),
                  is_target ? "give " + std::string(is_first ? node.info->target_text
                                                             : node.info->second_text)
                            : "give a value, or leave the flag out");
    }
}

}  // namespace

void parse_arguments(int argc, const char* const* argv, Arguments& arguments) {
  // A mistake may hide --json from the parser; whoever asked for JSON gets the error as JSON.
  for (int i = 1; i < argc; ++i) arguments.options.json |= std::string_view(argv[i]) == "--json";
  CommandLine line(arguments.options);
  arguments.options.command = "moert";
  try {
    line.root().parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const Node& node = line.reached();
    arguments.text = help_text(*node.info, node.help);
    return;
  } catch (const CLI::CallForVersion& version) {
    arguments.text = std::string(version.what()) + "\n";
    return;
  } catch (const CLI::ParseError& error) {
    arguments.options.command = full_name(line.reached());
    fail_parse(line, error);
  }
  const Node& node = line.reached();
  arguments.options.command = full_name(node);
  refuse_empty(node);
  arguments.run = node.info->run;
}

}  // namespace moert::tool
