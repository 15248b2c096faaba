// The config files of public models, and small changes to them, against tables that were written from
// the files and the families' own code: tests/data/configs/README.md.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

using Json = nlohmann::json;

const fs::path& data() {
  static const fs::path folder = source_folder() / "tests/data/configs";
  return folder;
}

std::string ranges(const std::vector<spec::MoELayer>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1].layer_id == layers[last].layer_id + 1)
      ++last;
    text += (text.empty() ? "" : ",") + std::to_string(layers[i].layer_id);
    if (last > i) text += "-" + std::to_string(layers[last].layer_id);
    i = last + 1;
  }
  return text;
}

// One MoE layer in the words of the tables.
Json facts_of(const spec::MoELayer& layer) {
  const spec::Routing& r = layer.routing;
  return {{"num_experts", r.num_experts},
          {"top_k", r.top_k},
          {"intermediate_size", layer.intermediate_size},
          {"shared_count", layer.shared ? layer.shared->count : 0},
          {"shared_width", layer.shared ? layer.shared->intermediate_size : 0},
          {"shared_sigmoid_gate", layer.shared && layer.shared->sigmoid_gate},
          {"shared_limit", layer.shared ? layer.shared->activation.limit : 0},
          {"shared_combine", layer.shared && layer.shared->average ? "average" : "sum"},
          {"scoring", r.scoring},
          {"method", r.method},
          {"renormalize", r.renormalize},
          {"routed_scale", r.routed_scale},
          {"scale_on", r.scale_on_output ? "output" : "weights"},
          {"selection_bias", r.selection_bias},
          {"gate_bias", r.gate_bias},
          {"num_groups", r.num_groups},
          {"top_groups", r.top_groups},
          {"group_score", r.group_score},
          {"activation", layer.activation.name},
          {"activation_alpha", layer.activation.alpha},
          {"activation_beta", layer.activation.beta},
          {"activation_limit", layer.activation.limit},
          {"gated", layer.gated},
          {"bias", layer.bias},
          {"weight_on_input", layer.weight_on_input},
          {"expert_scale", r.expert_scale},
          {"router_input", r.unit_input ? "unit" : "plain"},
          {"zero_experts", r.zero_experts},
          {"latent_size", layer.latent_size}};
}

// "experts: mxfp4, activations group128; fp8 block128x128, activations group128"
std::string announced(const std::optional<spec::Quantization>& quantization) {
  std::string text;
  if (!quantization) return text;
  for (const spec::FormatGroup& group : quantization->groups) {
    if (!text.empty()) text += "; ";
    if (group.targets.size() > 2)
      text += std::to_string(group.targets.size()) + " targets: ";
    else
      for (const std::string& target : group.targets) text += target + ": ";
    const spec::WeightFormat& f = group.format;
    text += f.kind;
    if (!f.blocks.empty()) text += " " + f.blocks;
    if (!f.activations.empty()) text += ", activations " + f.activations;
    if (!f.global.empty()) text += ", global " + f.global;
    if (!f.zeros.empty()) text += ", zeros " + f.zeros;
  }
  return text;
}

Json facts_of(const spec::Model& model) {
  Json facts = facts_of(model.layers.front());
  const auto hashed = [](const spec::MoELayer& l) { return l.routing.method == "hash"; };
  facts["hash_layers"] = std::count_if(model.layers.begin(), model.layers.end(), hashed);
  facts["scheme"] = announced(model.quantization);
  facts["family"] = model.family;
  facts["num_layers"] = model.num_layers;
  facts["hidden_size"] = model.hidden_size;
  facts["moe_layers"] = ranges(model.layers);
  facts["runs"] = model.unsupported.empty();
  return facts;
}

void expect_per_layer(const Json& expected, const spec::Model& model) {
  for (const auto& [key, values] : expected.items()) {
    ASSERT_EQ(values.size(), model.layers.size()) << key;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(facts_of(model.layers[i]).at(key), values[i])
          << key << " of layer " << model.layers[i].layer_id;
  }
}

void expect_facts(const Json& expected, const spec::Model& model) {
  if (expected.value("dense", false)) {
    EXPECT_TRUE(model.layers.empty());
    EXPECT_EQ(model.num_layers, expected.value("num_layers", model.num_layers));
    EXPECT_EQ(model.hidden_size, expected.value("hidden_size", model.hidden_size));
    return;
  }
  ASSERT_FALSE(model.layers.empty()) << "is taken for a dense model";
  const Json facts = facts_of(model);
  for (const auto& [key, value] : expected.items()) {
    if (key == "note") continue;
    if (key == "per_layer") {
      expect_per_layer(value, model);
    } else if (key == "why_not") {
      ASSERT_FALSE(model.unsupported.empty());
      EXPECT_NE(model.unsupported.front().find(value.get<std::string>()), std::string::npos)
          << model.unsupported.front();
    } else {
      EXPECT_EQ(facts.value(key, Json("no such fact")), value) << key;
    }
  }
}

void expect_outcome(const Json& expected, const fs::path& folder) {
  if (!expected.contains("error")) {
    expect_facts(expected, shipped().resolve(folder));
    return;
  }
  const auto texts = expected["error"].get<std::vector<std::string>>();
  expect_error(Fault::usage, texts, [&] { shipped().resolve(folder); });
}

std::string test_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

Json read_json(const fs::path& file) { return Json::parse(read_file(file)); }

// Cases are found by folder names and lines of text: every test is a process of its own, and to parse the
// tables in each would take longer than the test.
std::vector<std::string> published() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(data())) {
    const std::string file = entry.path().filename();
    if (file == "config.json" || file == "params.json")
      names.push_back(entry.path().parent_path().lexically_relative(data()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

class PublishedConfig : public ::testing::TestWithParam<std::string> {};

TEST_P(PublishedConfig, IsReadAsItsTableSays) {
  const Json expected = read_json(data() / "expected.json");
  ASSERT_TRUE(expected.contains(GetParam())) << "the table has no entry for it";
  expect_outcome(expected[GetParam()], data() / GetParam());
}

INSTANTIATE_TEST_SUITE_P(Published, PublishedConfig, ::testing::ValuesIn(published()),
                         [](const auto& each) { return test_name(each.param); });

TEST(Published, EveryEntryHasAFile) {
  EXPECT_EQ(published().size(), read_json(data() / "expected.json").size());
}

constexpr std::string_view kNameBegins = "{\"name\": \"";

std::vector<std::string> variants() {
  const std::string text = read_file(data() / "variants.json");
  std::vector<std::string> names;
  for (size_t at = text.find(kNameBegins); at != std::string::npos;
       at = text.find(kNameBegins, at)) {
    at += kNameBegins.size();
    names.push_back(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

Json::json_pointer pointer_to(std::string key) {
  std::replace(key.begin(), key.end(), '.', '/');
  return Json::json_pointer("/" + key);
}

// The base file with keys removed and set; raw texts are put in for marks, since JSON cannot hold them.
std::string varied(const Json& what) {
  const fs::path base = data() / what["base"].get<std::string>();
  Json config = read_json(base / "config.json");
  for (const Json& key : what.value("remove", Json::array())) {
    const Json::json_pointer at = pointer_to(key);
    config.at(at.parent_pointer()).erase(at.back());
  }
  const Json set = what.value("set", Json::object());
  for (const auto& [key, value] : set.items()) config[pointer_to(key)] = value;
  const Json raw = what.value("raw", Json::object());
  for (const auto& [key, value] : raw.items()) config[pointer_to(key)] = "raw " + key;
  std::string text = config.dump();
  for (const auto& [key, value] : raw.items()) {
    const std::string mark = "\"raw " + key + "\"";
    text.replace(text.find(mark), mark.size(), value.get<std::string>());
  }
  return text;
}

class VariedConfig : public ::testing::TestWithParam<std::string> {};

TEST_P(VariedConfig, IsReadAsItsTableSays) {
  const Json table = read_json(data() / "variants.json");
  const auto found = std::find_if(table.begin(), table.end(),
                                  [](const Json& each) { return each["name"] == GetParam(); });
  ASSERT_NE(found, table.end());
  const TempFolder folder;
  folder.write("config.json", varied(*found));
  expect_outcome((*found)["expect"], folder.path());
}

TEST(Published, EveryVariantIsACase) {
  EXPECT_EQ(variants().size(), read_json(data() / "variants.json").size());
}

INSTANTIATE_TEST_SUITE_P(Published, VariedConfig, ::testing::ValuesIn(variants()),
                         [](const auto& each) { return test_name(each.param); });

}  // namespace
}  // namespace moert::config::test
