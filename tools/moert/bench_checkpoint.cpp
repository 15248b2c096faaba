// SPDX-License-Identifier: Apache-2.0
#include "bench_checkpoint.hpp"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <moert/abi/router.h>
#include <moert/error.hpp>
#include <nlohmann/json.hpp>

#include "weights/safetensors.hpp"

namespace moert::tool {

namespace {

constexpr const char* kRouter = "model.layers.{layer}.mlp.gate.weight";
constexpr const char* kGate = "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight";
constexpr const char* kUp = "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight";
constexpr const char* kDown = "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight";

std::string filled(std::string pattern, int64_t layer, int64_t expert) {
  const auto put = [&](const std::string& word, int64_t value) {
    const size_t at = pattern.find(word);
    if (at != std::string::npos) pattern.replace(at, word.size(), std::to_string(value));
  };
  put("{layer}", layer);
  put("{expert}", expert);
  return pattern;
}

std::string shard_name(int64_t shard, int64_t shards) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05ld-of-%05ld.safetensors", static_cast<long>(shard + 1),
                static_cast<long>(shards));
  return name;
}

spec::TensorRule rule(spec::Target target, const char* pattern, uint32_t part) {
  spec::TensorRule made;
  made.target = target;
  made.pattern = pattern;
  made.parts = {part};
  return made;
}

spec::Model make_model(const std::filesystem::path& folder, const SyntheticSize& size) {
  spec::Model model;
  model.name = "synthetic";
  model.family = "synthetic";
  model.checkpoint = folder;
  model.hidden_size = size.hidden_size;
  model.num_layers = size.layers;
  model.dtype = "bf16";
  for (int64_t i = 0; i < size.layers; ++i) {
    spec::MoELayer layer;
    layer.layer_id = i;
    layer.intermediate_size = size.intermediate_size;
    layer.routing.num_experts = size.experts;
    layer.routing.top_k = size.top_k;
    model.layers.push_back(layer);
  }
  return model;
}

// The tensors of a range of layers; all of them are views of the same zeros.
std::vector<std::string> write_shard(const std::filesystem::path& file, const SyntheticSize& size,
                                     int64_t first, int64_t last) {
  const int64_t largest = std::max(size.experts, size.intermediate_size) * size.hidden_size;
  const std::vector<uint16_t> zeros(static_cast<size_t>(largest));
  std::vector<std::string> names;
  weights::SafetensorsWriter writer;
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
    names.push_back(name);
    writer.add(name, MOERT_DTYPE_BF16, {rows, columns}, zeros.data());
  };
  for (int64_t layer = first; layer < last; ++layer) {
    add(filled(kRouter, layer, 0), size.experts, size.hidden_size);
    for (int64_t expert = 0; expert < size.experts; ++expert) {
      add(filled(kGate, layer, expert), size.intermediate_size, size.hidden_size);
      add(filled(kUp, layer, expert), size.intermediate_size, size.hidden_size);
      add(filled(kDown, layer, expert), size.hidden_size, size.intermediate_size);
    }
  }
  writer.write(file);
  return names;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "moert-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(Fault::device,
                std::string("cannot make a temporary folder: ") + std::strerror(errno), name,
                "set TMPDIR to a folder that can be written");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Synthetic write_synthetic(const std::filesystem::path& folder, const SyntheticSize& size) {
  if (size.shards == 1) {
    write_shard(folder / "model.safetensors", size, 0, size.layers);
  } else {
    nlohmann::json index = {{"metadata", nlohmann::json::object()},
                            {"weight_map", nlohmann::json::object()}};
    for (int64_t shard = 0; shard < size.shards; ++shard) {
      const std::string name = shard_name(shard, size.shards);
      for (const std::string& tensor :
           write_shard(folder / name, size, size.layers * shard / size.shards,
                       size.layers * (shard + 1) / size.shards))
        index["weight_map"][tensor] = name;
    }
    write_text_file(folder / "model.safetensors.index.json", index.dump());
  }
  spec::Layout layout{"per_expert",
                      {rule(spec::Target::expert, kGate, MOERT_PART_GATE),
                       rule(spec::Target::expert, kUp, MOERT_PART_UP),
                       rule(spec::Target::expert, kDown, MOERT_PART_DOWN)}};
  spec::Tensors rules;
  rules.experts.push_back(std::move(layout));
  rules.others.push_back(rule(spec::Target::router, kRouter, MOERT_ROUTER_GATE_WEIGHT));
  return {make_model(folder, size), std::move(rules)};
}

}  // namespace moert::tool
