// Kind Run: values, overrides, provenance, faults.
// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"
#include "config/table.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

const std::string kRunHead = "apiVersion: moert/v1\nkind: Run\nmetadata: { name: t }\nspec:\n";
const std::string kSmall =
    kRunHead + "  model: { checkpoint: ../ckpt }\n  inputs: { hidden_states: in.safetensors }\n";

spec::Run read(const std::string& text, const std::vector<Override>& overrides = {}) {
  const TempFolder folder;
  return read_run(folder.write("r/run.yaml", text), overrides);
}

TEST(Run, ShippedOneReadsAsDesigned) {
  const fs::path root = source_folder();
  const spec::Run run = read_run(root / "configs/runs/olmoe-tiny.yaml");
  EXPECT_EQ(run.name, "olmoe-tiny");
  EXPECT_EQ(run.checkpoint, (root / "tests/data/olmoe-tiny").lexically_normal());
  EXPECT_TRUE(run.description.empty());
  EXPECT_EQ(run.device, "auto");
  EXPECT_EQ(run.prefer, (std::vector<std::string>{"cuda", "hip", "cpu"}));
  EXPECT_EQ(run.layers.at("quant"), "from-checkpoint");
  EXPECT_EQ(run.layers.at("runner"), "auto");
  EXPECT_EQ(run.fallback, "error");
  EXPECT_EQ(run.output, "out/olmoe-tiny.safetensors");
  ASSERT_EQ(run.capture.size(), 1u);
  EXPECT_EQ(run.capture[0].to, "memory");
  EXPECT_EQ(run.capture[0].path, "out/olmoe-tiny.routes.safetensors");
  EXPECT_EQ(run.capture[0].what, (std::vector<std::string>{"ids", "weights"}));
  ASSERT_TRUE(run.expect.has_value());
  EXPECT_EQ(run.expect->file,
            (root / "tests/data/olmoe-tiny/golden.safetensors").lexically_normal());
  EXPECT_FALSE(run.expect->output_tolerance.has_value());
}

TEST(Run, EveryShippedOneReads) {
  int count = 0;
  for (const auto& file : fs::directory_iterator(source_folder() / "configs/runs")) {
    const spec::Run run = read_run(file.path());
    EXPECT_EQ(run.name, file.path().stem().string());
    ++count;
  }
  EXPECT_GE(count, 8);
}

// The defaults that docs and schema show are those that the program has.
TEST(Run, DefaultsInTheTableAreTheDefaults) {
  std::string full = kSmall;
  std::string layers;
  for (const Key& key : run_table()) {
    if (key.fallback.empty() || key.path.find('[') != std::string::npos) continue;
    const std::string name = key.path.substr(5);
    if (name.starts_with("simulate.")) continue;  // a map that is all or nothing
    if (name.starts_with("layers."))
      layers += "    " + name.substr(7) + ": " + key.fallback + "\n";
    else
      full += "  " + name + ": " + key.fallback + "\n";
  }
  const spec::Run a = read(kSmall), b = read(full + "  layers:\n" + layers);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.prefer, b.prefer);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.fallback, b.fallback);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.repeat, b.repeat);
  EXPECT_EQ(a.capture.size(), b.capture.size());
  EXPECT_EQ(a.layers.size(), 5u);
}

TEST(Run, AllValuesArrive) {
  const spec::Run run = read(
      kSmall +
      "  device: cuda:1\n  fallback: next\n  threads: 7\n  repeat: 3\n"
      "  layers: { routed_experts: cpu.ref, quant: mxfp4.g32.e8m0 }\n"
      "  options: { routed_experts: { gemm: wgmma, tiles: 4 }, runner: { fast: true } }\n"
      "  capture: [ {}, { to: file, what: [margins], options: { buffer_mb: 4, when_full: drop } } "
      "]\n"
      "  replay: /r.safetensors\n  verify: true\n"
      "  expect: { file: /g.safetensors, tolerance: { output: 1e-5, weights: 0 } }\n");
  EXPECT_EQ(run.device, "cuda:1");
  EXPECT_EQ(run.fallback, "next");
  EXPECT_EQ(run.threads, 7);
  EXPECT_EQ(run.repeat, 3);
  EXPECT_EQ(run.layers.at("routed_experts"), "cpu.ref");
  EXPECT_EQ(run.layers.at("quant"), "mxfp4.g32.e8m0");
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(run.options,
            (std::map<std::string, Values>{{"routed_experts", {{"gemm", "wgmma"}, {"tiles", "4"}}},
                                           {"runner", {{"fast", "true"}}}}));
  ASSERT_EQ(run.capture.size(), 2u);
  EXPECT_EQ(run.capture[0].to, "memory");
  EXPECT_EQ(run.capture[0].what, (std::vector<std::string>{"ids"}));
  EXPECT_EQ(run.capture[1].what, (std::vector<std::string>{"ids", "margins"}));  // ids always
  EXPECT_EQ(run.capture[1].options,
            (std::map<std::string, std::string>{{"buffer_mb", "4"}, {"when_full", "drop"}}));
  EXPECT_EQ(run.replay, "/r.safetensors");
  EXPECT_TRUE(run.verify);
  EXPECT_EQ(run.expect->file, "/g.safetensors");
  EXPECT_EQ(run.expect->output_tolerance, 1e-5);
  EXPECT_EQ(run.expect->weight_tolerance, 0.0);
}

TEST(Run, ACapturerOfAnotherPluginIsNamedInFull) {
  EXPECT_EQ(read(kSmall + "  capture: [ { to: acme.trace } ]\n").capture.at(0).to, "acme.trace");
  EXPECT_THROW(read(kSmall + "  capture: [ { to: acme. } ]\n"), Error);
}

TEST(Run, PathsStartFromTheFileAndOverridesFromTheWorkingDirectory) {
  const TempFolder folder;
  const fs::path file = folder.write("a/b/run.yaml", kSmall);
  const spec::Run run = read_run(file);
  EXPECT_EQ(run.checkpoint, folder.path() / "a/ckpt");
  EXPECT_EQ(run.hidden_states, folder.path() / "a/b/in.safetensors");
  const spec::Run changed = read_run(file, {{"inputs.hidden_states", "x.safetensors", "--set"}});
  EXPECT_EQ(changed.hidden_states, fs::current_path() / "x.safetensors");
  EXPECT_EQ(changed.checkpoint, folder.path() / "a/ckpt");
}

TEST(Run, LaterOverridesWinAndSayWhoTheyAre) {
  const TempFolder folder;
  const fs::path file =
      folder.write("run.yaml", kSmall +
                                   "  device: cpu\n"
                                   "  options: { routed_experts: { gemm: wgmma, tiles: 4 } }\n");
  const spec::Run run =
      read_run(file, {{"spec.device", "cuda:0", "environment MOERT_DEVICE"},
                      {"device", "hip:1", "--device"},
                      {"layers.router", "cpu.ref", "--set"},
                      {"options.routed_experts.gemm", "native", "--set"},
                      {"capture[0].path", "out/r.safetensors", "--set"},
                      {"expect", "{file: g.safetensors, tolerance: {output: 0.5}}", "--set"}});
  EXPECT_EQ(run.device, "hip:1");
  EXPECT_EQ(run.origin.at("device"), "--device");
  EXPECT_EQ(run.layers.at("router"), "cpu.ref");
  EXPECT_EQ(run.origin.at("layers.router"), "--set");
  EXPECT_EQ(run.origin.at("layers.routed_experts"), "default");
  EXPECT_EQ(run.options.at("routed_experts").at("gemm"), "native");
  EXPECT_EQ(run.origin.at("options.routed_experts.gemm"), "--set");
  EXPECT_EQ(run.origin.at("options.routed_experts.tiles"), file.string() + ":8:52");
  ASSERT_EQ(run.capture.size(), 1u);
  EXPECT_EQ(run.capture[0].path, "out/r.safetensors");
  EXPECT_EQ(run.origin.at("capture[0].path"), "--set");
  EXPECT_EQ(run.expect->output_tolerance, 0.5);
  EXPECT_EQ(run.expect->file, fs::current_path() / "g.safetensors");
  EXPECT_EQ(run.origin.at("model.checkpoint"), file.string() + ":5:24");
  EXPECT_EQ(run.origin.at("repeat"), "default");
}

TEST(Run, NullTakesAKeyOut) {
  const std::string text =
      kSmall + "  device: cpu\n  expect: { file: g }\n  capture: [ { to: a }, { to: b } ]\n";
  const spec::Run run = read(text, {{"device", "", "environment"},
                                    {"expect", "null", "--set"},
                                    {"capture[0]", "~", "--set"},
                                    {"outputs.file", "null", "--set"}});
  EXPECT_EQ(run.device, "auto");
  EXPECT_EQ(run.origin.at("device"), "default");
  EXPECT_FALSE(run.expect.has_value());
  ASSERT_EQ(run.capture.size(), 1u);
  EXPECT_EQ(run.capture[0].to, "b");
}

struct OverrideFault {
  const char* name;
  const char *key, *value;
  std::vector<std::string> parts;
};
void PrintTo(const OverrideFault& f, std::ostream* out) { *out << f.name; }

class OverrideFaults : public ::testing::TestWithParam<OverrideFault> {};

TEST_P(OverrideFaults, NameTheOverride) {
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("--set (");
  expect_error(Fault::usage, parts,
               [] { read(kSmall, {{GetParam().key, GetParam().value, "--set"}}); });
}

INSTANTIATE_TEST_SUITE_P(
    Run, OverrideFaults,
    ::testing::Values(
        OverrideFault{"misspelt", "devcie", "cpu", {"devcie", "did you mean 'device'?"}},
        OverrideFault{"deeper", "layers.ruter", "x.y", {"ruter", "did you mean 'router'?"}},
        OverrideFault{"through_scalar", "metadata.name.x", "1", {"the text 't'", "has no keys"}},
        OverrideFault{"gap", "capture[2].to", "memory", {"0 items", "item 2"}},
        OverrideFault{"no_list", "model[0]", "x", {"a map", "no items"}},
        OverrideFault{
            "type", "repeat", "often", {"'spec.repeat'", "the text 'often'", "an integer"}},
        OverrideFault{"range", "repeat", "0", {"'spec.repeat' is 0", "1 to 1000000"}},
        OverrideFault{"empty_step", "layers..router", "a.b", {"no path of keys"}},
        OverrideFault{"no_key", "", "x", {"no path of keys"}},
        OverrideFault{"bad_index", "capture[x]", "{}", {"no path of keys"}},
        OverrideFault{"huge_index", "capture[99999999999999999999]", "{}", {"no path of keys"}},
        OverrideFault{"syntax", "prefer", "[cpu, \"x]", {"this is no YAML"}},
        OverrideFault{"block", "outputs", "file: x", {"block style"}},
        OverrideFault{"both_models", "model.description", "m.yaml", {"2 entries", "exactly 1"}},
        OverrideFault{"kind", "kind", "Model", {"'kind'", "none of: Run"}}),
    case_name<OverrideFault>);

struct RunFault {
  const char* name;
  std::string text;  // whole document, or more lines of spec
  std::vector<std::string> parts;
};
void PrintTo(const RunFault& f, std::ostream* out) { *out << f.name; }

class RunFaults : public ::testing::TestWithParam<RunFault> {};

TEST_P(RunFaults, AreSaidWithTheirPlace) {
  const bool whole =
      GetParam().text.find("apiVersion") != std::string::npos || GetParam().text[0] != ' ';
  expect_error(Fault::usage, GetParam().parts,
               [&] { read(whole ? GetParam().text : kSmall + GetParam().text); });
}

INSTANTIATE_TEST_SUITE_P(
    Run, RunFaults,
    ::testing::Values(
        RunFault{"no_version", "kind: Run\n", {"apiVersion", "missing"}},
        RunFault{"other_version",
                 "apiVersion: moert/v2\nkind: Run\n",
                 {"moert/v2", "moert/v1", ":1:13"}},
        RunFault{"other_kind",
                 "apiVersion: moert/v1\nkind: Rum\n",
                 {"'Rum'", "did you mean 'Run'?", ":2:7"}},
        RunFault{"model_file",
                 "apiVersion: moert/v1\nkind: Model\n",
                 {"this is a Model, a Run is needed"}},
        RunFault{"list", "[1]", {"a list, expected a map"}},
        RunFault{"unknown",
                 "  devise: cpu\n",
                 {"unknown key 'devise'", "did you mean 'device'?", "run.yaml:7:3"}},
        RunFault{"unknown_far",
                 "  qqqqqqqqqq: cpu\n",
                 {"unknown key 'qqqqqqqqqq'", "known are: model, device"}},
        RunFault{
            "yes", "  capture: yes\n", {"'spec.capture' is the text 'yes'", "a list", ":7:12"}},
        RunFault{"null_", "  device:\n", {"'spec.device' is nothing", "leave the key out"}},
        RunFault{"integer_device", "  device: 0\n", {"the integer 0", "put it in quotes"}},
        RunFault{"device_form", "  device: CUDA 0\n", {"'CUDA 0'", "has not the form"}},
        RunFault{"device_index", "  device: cuda:99999\n", {"has not the form"}},
        RunFault{"fallback", "  fallback: nxt\n", {"'nxt'", "did you mean 'next'?"}},
        RunFault{"prefer_twice", "  prefer: [cpu, cpu]\n", {"'cpu' twice", ":7:17"}},
        RunFault{"what",
                 "  capture: [ { what: [id] } ]\n",
                 {"'spec.capture[0].what[0]' is 'id'", "did you mean 'ids'?"}},
        RunFault{"what_empty", "  capture: [ { what: [] } ]\n", {"0 entries", "at least 1"}},
        RunFault{"option_list",
                 "  capture: [ { options: { a: [1] } } ]\n",
                 {"'spec.capture[0].options.a' is a list", "a text, a number, true or false"}},
        RunFault{"option_nothing",
                 "  capture: [ { options: { a: } } ]\n",
                 {"'spec.capture[0].options.a' is nothing", "leave the key out"}},
        RunFault{"option_empty",
                 "  capture: [ { options: { a: \"\" } } ]\n",
                 {"'spec.capture[0].options.a' is an empty text"}},
        RunFault{"options_of_no_kind",
                 "  options: { quant: { a: 1 } }\n",
                 {"unknown key 'quant' in 'spec.options'", ":7:14"}},
        RunFault{"options_of_nothing",
                 "  options: { router: fast }\n",
                 {"'spec.options.router' is the text 'fast'", "a map", ":7:22"}},
        RunFault{"options_deeper",
                 "  options: { router: { a: [1] } }\n",
                 {"'spec.options.router.a' is a list", "a text, a number, true or false"}},
        RunFault{
            "verify_alone", "  verify: true\n", {"nothing to compare with", "--replay", ":7:11"}},
        RunFault{"replay_made_up",
                 "  replay: r\n  simulate: { routing: zipf }\n",
                 {"made-up routing and a replay", ":8:13"}},
        RunFault{"float_repeat", "  repeat: 2.0\n", {"the number 2.0", "an integer"}},
        RunFault{"negative_tolerance",
                 "  expect: { file: g, tolerance: { output: -1 } }\n",
                 {"is -1", "0 to 1000000"}},
        RunFault{"same_output",
                 "  outputs: { file: o }\n  capture: [ { path: ./o } ]\n",
                 {"written twice", ":8:22"}},
        RunFault{"expect_no_file", "  expect: {}\n", {"'spec.expect.file' is missing", ":7:11"}},
        RunFault{"merge_key", "  <<: { device: cpu }\n", {"unknown key '<<'"}},
        RunFault{
            "no_model", kRunHead + "  inputs: { hidden_states: x }\n", {"'spec.model' is missing"}},
        RunFault{"empty_model",
                 kRunHead + "  model: {}\n  inputs: { hidden_states: x }\n",
                 {"0 entries", "checkpoint, description"}},
        RunFault{"empty_path",
                 kRunHead + "  model: { checkpoint: \"\" }\n  inputs: { hidden_states: x }\n",
                 {"empty text"}}),
    case_name<RunFault>);

}  // namespace
}  // namespace moert::config::test
