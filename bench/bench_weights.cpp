// Indexing a checkpoint of 60,000 tensors: one file, sharded, and the plan over it.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <moert/abi/problem.h>
#include <moert/abi/router.h>

#include "util/file.hpp"
#include "weights/plan.hpp"
#include "weights/safetensors.hpp"

namespace {

namespace fs = std::filesystem;
using moert::spec::Target;
using moert::spec::TensorRule;

constexpr int64_t kHidden = 4, kIntermediate = 2, kLayers = 60, kExperts = 333;

// One family's names with as many experts as give 60,000 tensors, each of a few bytes.
struct Checkpoints {
  fs::path folder =
      fs::temp_directory_path() / ("moert_bench_weights." + std::to_string(::getpid()));
  fs::path single = folder / "single", sharded = folder / "sharded";

  Checkpoints() {
    constexpr int kShards = 16;
    const std::vector<char> data(2 * kHidden * kExperts, 0);
    moert::weights::SafetensorsWriter whole;
    std::vector<moert::weights::SafetensorsWriter> shards(kShards);
    std::string index = "{\"metadata\":{},\"weight_map\":{";
    size_t count = 0;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      const size_t shard = count++ * kShards / (kLayers * (3 * kExperts + 1));
      whole.add(name, MOERT_DTYPE_BF16, shape, data.data());
      shards[shard].add(name, MOERT_DTYPE_BF16, std::move(shape), data.data());
      index += (count > 1 ? ",\"" : "\"") + name + "\":\"" + shard_name(shard) + "\"";
    };
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string stem = "model.layers." + std::to_string(layer) + ".mlp.";
      add(stem + "gate.weight", {kExperts, kHidden});
      for (int64_t expert = 0; expert < kExperts; ++expert) {
        const std::string one = stem + "experts." + std::to_string(expert) + ".";
        add(one + "gate_proj.weight", {kIntermediate, kHidden});
        add(one + "up_proj.weight", {kIntermediate, kHidden});
        add(one + "down_proj.weight", {kHidden, kIntermediate});
      }
    }
    whole.write(single / "model.safetensors");
    for (size_t i = 0; i < shards.size(); ++i) shards[i].write(sharded / shard_name(i));
    moert::write_text_file(sharded / "model.safetensors.index.json", index + "}}");
  }
  ~Checkpoints() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  static std::string shard_name(size_t i) {
    return "model-" + std::to_string(i + 1) + "-of-16.safetensors";
  }
};

moert::spec::Model model() {
  moert::spec::Model result;
  result.hidden_size = kHidden;
  result.num_layers = kLayers;
  for (int64_t id = 0; id < kLayers; ++id) {
    moert::spec::MoELayer layer;
    layer.layer_id = id;
    layer.intermediate_size = kIntermediate;
    layer.routing.num_experts = kExperts;
    layer.routing.top_k = 8;
    result.layers.push_back(layer);
  }
  return result;
}

TensorRule rule(Target target, const char* name, uint32_t part) {
  TensorRule result;
  result.target = target;
  result.pattern = std::string("model.layers.{layer}.mlp.") + name;
  result.parts = {part};
  return result;
}

moert::spec::Tensors rules() {
  moert::spec::Tensors tensors;
  tensors.experts = {
      {"per_expert",
       {rule(Target::expert, "experts.{expert}.gate_proj.weight", MOERT_PART_GATE),
        rule(Target::expert, "experts.{expert}.up_proj.weight", MOERT_PART_UP),
        rule(Target::expert, "experts.{expert}.down_proj.weight", MOERT_PART_DOWN)}}};
  tensors.others = {rule(Target::router, "gate.weight", MOERT_ROUTER_GATE_WEIGHT)};
  return tensors;
}

void open_checkpoint(benchmark::State& state, const fs::path& path) {
  size_t tensors = 0;
  for (auto _ : state) {
    const moert::weights::Checkpoint checkpoint(path);
    benchmark::DoNotOptimize(tensors = checkpoint.tensors().size());
  }
  state.counters["tensors"] = static_cast<double>(tensors);
}

void plan_checkpoint(benchmark::State& state, const fs::path& path, bool fits) {
  const moert::weights::Checkpoint checkpoint(path);
  moert::spec::Model wanted = model();
  moert::spec::Tensors tensors = rules();
  // A family with other names: every tensor is a finding.
  if (!fits)
    for (TensorRule& one : tensors.experts[0].rules)
      one.pattern.replace(one.pattern.find(".mlp."), 5, ".moe.");
  size_t findings = 0;
  for (auto _ : state) {
    const moert::weights::Plan plan = moert::weights::make_plan(wanted, tensors, checkpoint);
    benchmark::DoNotOptimize(findings = plan.findings.size());
  }
  state.counters["findings"] = static_cast<double>(findings);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const Checkpoints files;
  const auto add = [](const char* name, auto&& body) {
    benchmark::RegisterBenchmark(name, body)->Unit(benchmark::kMillisecond);
  };
  add("index/one_file", [&](benchmark::State& state) { open_checkpoint(state, files.single); });
  add("index/16_shards", [&](benchmark::State& state) { open_checkpoint(state, files.sharded); });
  add("plan/fits", [&](benchmark::State& state) { plan_checkpoint(state, files.single, true); });
  add("plan/other_names",
      [&](benchmark::State& state) { plan_checkpoint(state, files.single, false); });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
