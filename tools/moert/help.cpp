// SPDX-License-Identifier: Apache-2.0
#include "help.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace moert::tool {

namespace {

constexpr size_t kWidth = 80, kTextColumn = 26;

constexpr const char* kExitCodes = R"(
Exit codes:
    0  done, and every check passed
    1  everything ran, but a check failed
    2  asked wrongly: a flag, a YAML file, a config.json, a place for output
       that cannot be written
    3  a plugin could not be loaded, or broke a rule
    4  no candidate accepts a layer; the table is printed
    5  a device, memory or the writing of an output failed (a full disk, a limit
       on the size of files), or the program has a defect
    6  an input file is damaged, or does not hold what it must
  130  interrupted

Results go to stdout, everything else to stderr. MOERT_* variables are ignored
in a privileged process. Order of authority: flag, --set, environment, YAML,
default.
)";

// Words put behind `line`; further lines begin with `margin` blanks.
std::string wrapped(std::string_view text, std::string line, size_t margin) {
  std::string lines;
  std::istringstream words{std::string(text)};
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n";
      line.assign(margin, ' ');
      first = true;
    }
    line += (first ? "" : " ") + word;
  }
  return lines + line + "\n";
}

// "  name        text that is wrapped at the right"
std::string entry(std::string_view name, std::string_view text) {
  std::string above, line = "  " + std::string(name);
  if (line.size() + 2 > kTextColumn) {
    above = line + "\n";
    line.clear();
  }
  line.resize(kTextColumn, ' ');
  return above + wrapped(text, line, kTextColumn);
}

// "list" of "plugins list" below "plugins"; empty where it stands elsewhere or deeper.
std::string_view child_name(std::string_view parent, std::string_view name) {
  if (!parent.empty()) {
    if (!name.starts_with(parent) || name.size() <= parent.size() || name[parent.size()] != ' ')
      return {};
    name.remove_prefix(parent.size() + 1);
  }
  return name.find(' ') == std::string_view::npos ? name : std::string_view();
}

constexpr CommandInfo kCommands[] = {
    {"",
     "COMMAND [OPTION]...",
     "Runs the Mixture-of-Experts layers of a checkpoint with plugins.",
     {"moert run configs/runs/olmoe-tiny.yaml", "moert explain tests/data/mixtral-f32"},
     "",
     "",
     false,
     nullptr},
    {"run",
     "RUN.yaml [OPTION]...",
     "Loads a model's MoE layers, runs them, checks them and says which experts the tokens went "
     "to.",
     {"moert run configs/runs/olmoe-tiny.yaml",
      "moert run configs/runs/olmoe-tiny.yaml --set repeat=3 --device cpu --json"},
     "RUN.yaml",
     "a file of kind Run",
     true,
     cmd_run},
    {"explain",
     "RUN.yaml|DIR [OPTION]...",
     "Shows, for every layer, which candidates there are, which one is chosen and why the others "
     "are not.",
     {"moert explain configs/runs/olmoe-tiny.yaml",
      "moert explain tests/data/deepseek-v3-f32 --device cpu"},
     "RUN.yaml|DIR",
     "a file of kind Run or Model, or a checkpoint folder",
     true,
     cmd_explain},
    {"plugins",
     "list|show [OPTION]...",
     "Shows plugins: what was found, and what is in it.",
     {"moert plugins list", "moert plugins show cpu"},
     "",
     "",
     false,
     nullptr},
    {"plugins list",
     "[OPTION]...",
     "Lists the plugins that are there, and the files that could not be used.",
     {"moert plugins list", "moert plugins list --all --json"},
     "",
     "",
     false,
     cmd_plugins_list},
    {"plugins show",
     "NAME [OPTION]...",
     "Shows one plugin: its descriptor and its features.",
     {"moert plugins show cpu", "moert plugins show quant --json"},
     "NAME",
     "a plugin's short name or id",
     true,
     cmd_plugins_show},
    {"model",
     "inspect|describe|list [DIR] [OPTION]...",
     "Shows what is in a checkpoint, writes it down as YAML, or lists the families that are known.",
     {"moert model inspect tests/data/mixtral-f32", "moert model list"},
     "",
     "",
     false,
     nullptr},
    {"model inspect",
     "DIR|FILE [OPTION]...",
     "Shows a model's facts and where they come from, and accounts for every tensor of its "
     "checkpoint.",
     {"moert model inspect tests/data/mixtral-f32",
      "moert model inspect tests/data/olmoe-tiny/golden.safetensors"},
     "DIR|FILE",
     "a checkpoint folder, a file of kind Model, or any safetensors file",
     true,
     cmd_model_inspect},
    {"model describe",
     "DIR [OPTION]...",
     "Writes the model YAML of a checkpoint folder.",
     {"moert model describe tests/data/olmoe-tiny",
      "moert model describe tests/data/qwen3-moe-bf16 -o out/qwen3-moe.yaml"},
     "DIR",
     "a checkpoint folder",
     true,
     cmd_model_describe},
    {"model list",
     "[OPTION]...",
     "Lists the families: how they are recognised, whether their models run, and how they are "
     "tested.",
     {"moert model list", "moert model list --json"},
     "",
     "",
     false,
     cmd_model_list},
    {"quantize",
     "SRC DST --scheme SCHEME [OPTION]...",
     "Writes a checkpoint anew with its experts in another format, or decodes one.",
     {"moert quantize tests/data/olmoe-tiny out/olmoe-mxfp4 --scheme mxfp4",
      "moert quantize tests/data/qwen3-moe-fp8 out/qwen3-bf16 --scheme bf16"},
     "SRC",
     "a checkpoint folder",
     true,
     cmd_quantize,
     "DST",
     "a folder that is not there yet, or empty; it appears when it is whole"},
    {"capture",
     "show|stats|diff|convert|attach|segments [OPTION]...",
     "Looks into captures of routing, compares them, and turns them into other programs' shapes.",
     {"moert capture stats out/olmoe-tiny.routes.safetensors",
      "moert capture diff out/a.safetensors out/b.safetensors"},
     "",
     "",
     false,
     nullptr},
    {"capture show",
     "FILE [OPTION]...",
     "Shows what a capture is of, whether it is complete, and some of its rows.",
     {"moert capture show out/olmoe-tiny.routes.safetensors",
      "moert capture show out/olmoe-tiny.routes.safetensors --rows 4 --json"},
     "FILE",
     "a capture file",
     true,
     cmd_capture_show},
    {"capture stats",
     "FILE [OPTION]...",
     "Shows each layer's load, its dead experts, its entropy, and experts that are chosen "
     "together.",
     {"moert capture stats out/olmoe-tiny.routes.safetensors",
      "moert capture stats out/olmoe-tiny.routes.safetensors --sequence 0 --pairs 10 --json"},
     "FILE",
     "a capture file",
     true,
     cmd_capture_stats},
    {"capture diff",
     "FILE OTHER [OPTION]...",
     "Compares the routing of the tokens that both captures have; exit code 1 where it differs.",
     {"moert capture diff out/a.safetensors out/b.safetensors",
      "moert capture diff out/a.safetensors out/b.safetensors --near-tie 0.01 --json"},
     "FILE",
     "a capture file; margins are taken from it",
     true,
     cmd_capture_diff,
     "OTHER",
     "the capture file that it is compared with"},
    {"capture convert",
     "IN OUT --from|--to FORMAT [OPTION]...",
     "Reads or writes routing as other programs have it: vllm, sglang, tensorrt-llm, megatron, "
     "prime-rl.",
     {"moert capture convert out/a.safetensors out/a.npy64 --to vllm --sequence 0",
      "moert capture convert out/a.npy64 out/b.safetensors --from vllm --model "
      "tests/data/olmoe-tiny"},
     "IN",
     "with --to a capture file, with --from a file of the other format",
     true,
     cmd_capture_convert,
     "OUT",
     "the file that is written"},
    {"capture attach",
     "NAME -o FILE [OPTION]...",
     "Takes the routing that another process captures to shared memory, and writes a capture file "
     "when it ends.",
     {"moert capture attach my-run -o out/live.safetensors",
      "moert capture attach /dev/shm/moert.0.my-run -o out/live.safetensors --json"},
     "NAME",
     "the segment's name, or its path",
     true,
     cmd_capture_attach},
    {"capture segments",
     "[OPTION]...",
     "Lists the shared segments of captures, whose they are, and what waits in them.",
     {"moert capture segments", "moert capture segments --remove-stale"},
     "",
     "",
     false,
     cmd_capture_segments},
    {"report",
     "CAPTURE... -o FILE [OPTION]...",
     "Writes one self-contained page about captures: heatmaps, load, dead experts, tables.",
     {"moert report out/olmoe-tiny.routes.safetensors -o out/report.html",
      "moert report out/a.safetensors out/b.safetensors -o out/report.html"},
     "CAPTURE...",
     "capture files",
     true,
     cmd_report,
     {},
     {},
     true},
    {"env",
     "[OPTION]...",
     "Shows what the program is, where it looks for plugins, and which devices it sees.",
     {"moert env", "moert env --json"},
     "",
     "",
     false,
     cmd_env},
    {"bench",
     "overhead|experts|capture|plugins|index|load [OPTION]...",
     "Measures the runtime itself on this machine.",
     {"moert bench overhead", "moert bench load tests/data/olmoe-tiny"},
     "",
     "",
     false,
     nullptr},
    {"bench overhead",
     "[DIR] [OPTION]...",
     "Measures what a layer costs beside its computation: one token through plugins/null.",
     {"moert bench overhead", "moert bench overhead tests/data/olmoe-tiny --json"},
     "DIR",
     "a checkpoint folder; default: the smallest possible layer, made up",
     false,
     cmd_bench_overhead},
    {"bench experts",
     "[OPTION]...",
     "Measures one layer's experts with made-up weights, beside what the machine gives: time, "
     "bytes "
     "read, arithmetic.",
     {"moert bench experts --scheme bf16,mxfp4 --tokens 1,32,512",
      "moert bench experts --shape 2048x768x16x4 --scheme fp8 --candidates all --json"},
     "",
     "",
     false,
     cmd_bench_experts},
    {"bench capture",
     "[OPTION]...",
     "Measures what capturing routing costs a layer: off, to memory, to a file.",
     {"moert bench capture", "moert bench capture --json"},
     "",
     "",
     false,
     cmd_bench_capture},
    {"bench plugins",
     "[OPTION]...",
     "Measures how long it takes to find, check and open all plugins.",
     {"moert bench plugins", "moert bench plugins --json"},
     "",
     "",
     false,
     cmd_bench_plugins},
    {"bench index",
     "[OPTION]...",
     "Measures how long it takes to open and account for a checkpoint of 100,100 tensors, made "
     "up.",
     {"moert bench index", "moert bench index --json"},
     "",
     "",
     false,
     cmd_bench_index},
    {"bench load",
     "DIR [OPTION]...",
     "Measures how fast a checkpoint is loaded, and the memory it takes at most.",
     {"moert bench load tests/data/olmoe-tiny",
      "moert bench load tests/data/mixtral-bf16 --experts cpu.simd"},
     "DIR",
     "a checkpoint folder",
     true,
     cmd_bench_load},
};

}  // namespace

std::span<const CommandInfo> commands() { return kCommands; }

std::string help_text(const CommandInfo& command, const std::vector<OptionInfo>& options) {
  const std::string name = command.name.empty() ? "moert" : "moert " + std::string(command.name);
  std::string text = "usage: " + name + " " + std::string(command.usage) + "\n\n" +
                     wrapped(command.summary, {}, 0) + "\nExamples:\n";
  for (const std::string_view example : command.examples)
    text += "  " + std::string(example) + "\n";
  std::string children;
  for (const CommandInfo& other : commands()) {
    const std::string_view child = child_name(command.name, other.name);
    if (!child.empty()) children += entry(child, other.summary);
  }
  if (!children.empty()) text += "\nCommands:\n" + children;
  if (!command.target.empty())
    text += (command.second.empty() ? "\nArgument:\n" : "\nArguments:\n") +
            entry(command.target, command.target_text);
  if (!command.second.empty()) text += entry(command.second, command.second_text);
  std::vector<std::string> groups;
  for (const OptionInfo& option : options)
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  for (const std::string& group : groups) {
    text += "\n" + group + ":\n";
    for (const OptionInfo& option : options)
      if (option.group == group) text += entry(option.names, option.text);
  }
  return text + (command.name.empty() ? kExitCodes : "\nExit codes: see `moert --help`.\n");
}

}  // namespace moert::tool
