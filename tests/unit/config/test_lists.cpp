// Numbers that differ from layer to layer, and what is read of files that say too little or too much.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

using Json = nlohmann::json;

const std::string kHead = "apiVersion: moert/v1\nkind: Family\nmetadata: { name: ";

// A family on the shipped base whose spellings are the quantities' own names.
const std::string kLists = kHead + R"(lists }
spec:
  extends: common
  match: { model_type: [lists] }
  layers: [first_dense, layer_freq, moe_list, layer_words]
  spellings:
    activation_limit: [limits]
    limited_activation: [limited]
    shared_count: [shared_count]
    shared_width: [shared_width]
    shared_each: [shared_each]
    shared_limit: [shared_limits]
    selection_bias: [bias]
    grouped: [grouped]
    group_score: [group_score]
    renormalize_least_k: [least_k]
    renormalize_eps: [eps]
    renormalize_floor: [floor]
    expert_norm: [norm]
    expert_norm_eps: [norm_eps]
    moe_list: [moe_list]
  words:
    limited_activation: { step: swiglustep }
    group_score: { max: max, top2_sum: top2_sum }
    expert_norm: { in: in, out: out, none: none }
  defaults: { renormalize: false }
  tensors:
    experts:
      - layout: split
        prefixes: ["{root}layers.{layer}."]
        rules:
          - { name: "{expert}.gate", parts: [gate] }
          - { name: "{expert}.up", parts: [up] }
          - { name: "{expert}.down", parts: [down] }
    router: [{ name: "{root}layers.{layer}.router", tensor: gate_weight }]
)";

// The shipped families and `more` of them.
Families with(const std::vector<std::string>& more) {
  const TempFolder folder;
  for (size_t i = 0; i < more.size(); ++i)
    folder.write("more" + std::to_string(i) + ".yaml", more[i]);
  return Families::load({source_folder() / "configs/families", folder.path()});
}

spec::Model resolve(const Json& config, const Families& families, const char* file) {
  const TempFolder folder;
  folder.write(file, config.dump());
  return families.resolve(folder.path());
}

// Four layers of eight experts; the keys of `patch` replace the file's.
Json config_with(const char* patch) {
  Json config = Json::parse(
      R"({"model_type":"lists","hidden_size":64,"num_hidden_layers":4,"num_experts":8,
          "num_experts_per_tok":2,"moe_intermediate_size":32})");
  config.update(Json::parse(patch));
  return config;
}
spec::Model lists(const char* patch) {
  static const Families families = with({kLists});
  return resolve(config_with(patch), families, "config.json");
}
void expect_fault(const std::vector<std::string>& parts, const char* patch) {
  SCOPED_TRACE(patch);
  std::vector<std::string> all = parts;
  all.emplace_back("config.json");
  expect_error(Fault::usage, all, [&] { lists(patch); });
}

// --- entries of a list --------------------------------------------------------------------------

// A list of five for four layers, and what it is read as.
struct TooLong {
  const char* name;
  const char* key;
  const char* list;
};
void PrintTo(const TooLong& c, std::ostream* out) { *out << c.name; }

class ExtraLayers : public ::testing::TestWithParam<TooLong> {
 protected:
  static std::string patch(const std::string& more) {
    return std::string("{\"") + GetParam().key + "\":" + GetParam().list + more + "}";
  }
};

TEST_P(ExtraLayers, HaveEntriesWhereThereAreSuchLayers) {
  const std::string fault = "is a list of 5 entries, but there are 4 layers";
  expect_fault({GetParam().key, fault}, patch("").c_str());
  expect_fault({fault}, patch(",\"num_nextn_predict_layers\":0").c_str());
  expect_fault({fault}, patch(",\"num_nextn_predict_layers\":2").c_str());
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}) {
    const spec::Model model = lists(patch(std::string(",\"") + key + "\":1").c_str());
    EXPECT_EQ(model.num_layers, 4) << key;
    EXPECT_EQ(model.extra_layers, 1) << key;
    EXPECT_EQ(model.layers.size() + model.dense_layers.size(), 4u) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lists, ExtraLayers,
    ::testing::Values(TooLong{"counts", "num_experts_per_tok", "[1,2,3,4,5]"},
                      TooLong{"experts", "num_experts", "[8,8,8,8,8]"},
                      TooLong{"widths", "moe_intermediate_size", "[1,2,3,4,5]"},
                      TooLong{"limits", "limits", "[0,0,7,7,7.5]"},
                      TooLong{"shared_limits", "shared_limits", "[0,0,7,7,7.5]"},
                      TooLong{"shared", "shared_width", "[1,2,3,4,5]"},
                      TooLong{"mask", "moe_layer_freq", "[0,1,1,1,1]"},
                      TooLong{"words", "mlp_layer_types", R"(["dense","moe","moe","moe","moe"])"}),
    case_name<TooLong>);

TEST(Lists, ExtraEntriesAreNotRead) {
  EXPECT_EQ(lists(R"({"num_experts_per_tok":[1,2,3,4,5],"num_nextn_predict_layers":1})")
                .layers.back()
                .routing.top_k,
            4);
  EXPECT_EQ(lists(R"({"num_nextn_predict_layers":1,"moe_layer_freq":[1,1,1,0,1]})").dense_layers,
            std::vector<int64_t>{3});
}

TEST(Lists, EmptyEntriesAreForLayersWithoutExperts) {
  const spec::Model model = lists(R"({"first_k_dense_replace":2,"num_experts":[null,0,8,16],
                "num_experts_per_tok":[0,null,2,3],"moe_intermediate_size":[null,null,32,48]})");
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_EQ(model.layers[0].layer_id, 2);
  EXPECT_EQ(model.layers[1].routing.num_experts, 16);
  EXPECT_EQ(model.layers[1].routing.top_k, 3);
  EXPECT_EQ(model.layers[1].intermediate_size, 48);
  for (const char* empty : {"0", "null"}) {
    for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
      const std::string patch = std::string("{\"") + key + "\":[4,4," + empty + ",4]}";
      expect_fault({key, "has no value for layer 2, which has experts"}, patch.c_str());
    }
  }
  // Nothing but empty entries is no value at all.
  expect_fault({"nothing gives top_k", "num_experts_per_tok"},
               R"({"num_experts_per_tok":[null,0,null,0],"top_k":3})");
}

TEST(Lists, EntriesOfTheWrongKind) {
  expect_fault({"num_experts_per_tok", "is -1", "expected 0 to"},
               R"({"num_experts_per_tok":[2,-1,2,2]})");
  expect_fault({"num_experts_per_tok", "\"2\"", "whole number"},
               R"({"num_experts_per_tok":[2,"2",2,2]})");
  expect_fault({"num_experts_per_tok", "2.5", "whole number"},
               R"({"num_experts_per_tok":[2,2.5,2,2]})");
  expect_fault({"limits", "is -7", "a number from 0"}, R"({"limits":[0,-7,0,0]})");
  expect_fault({"limits", "\"7\"", "expected a number"}, R"({"limits":[0,"7",0,0]})");
  expect_fault({"top_k 9 is above num_experts 8", "layer 3"},
               R"({"num_experts_per_tok":[2,2,2,9]})");
}

// --- limits -------------------------------------------------------------------------------------

std::vector<std::pair<std::string, double>> activations(const spec::Model& model) {
  std::vector<std::pair<std::string, double>> result;
  for (const spec::MoELayer& layer : model.layers)
    result.emplace_back(layer.activation.name, layer.activation.limit);
  return result;
}
std::vector<std::pair<std::string, double>> shared_activations(const spec::Model& model) {
  std::vector<std::pair<std::string, double>> result;
  for (const spec::MoELayer& layer : model.layers)
    result.emplace_back(layer.shared->activation.name, layer.shared->activation.limit);
  return result;
}
using Activations = std::vector<std::pair<std::string, double>>;

TEST(Lists, LimitsNameAnotherFunctionWhereTheyAre) {
  const spec::Model model = lists(R"({"limits":[0,null,7,16.5],"limited":"step"})");
  EXPECT_EQ(activations(model),
            (Activations{{"silu", 0}, {"silu", 0}, {"swiglustep", 7}, {"swiglustep", 16.5}}));
  EXPECT_EQ(model.origin.at("activation_limit"), "config.json: limits (one for each layer)");
  EXPECT_EQ(activations(lists(R"({"limits":[0,null,7,16.5]})")),
            (Activations{{"silu", 0}, {"silu", 0}, {"silu", 7}, {"silu", 16.5}}))
      << "no other function: the limit is one of the function";
  EXPECT_EQ(activations(lists(R"({"limits":7,"limited":"step","first_k_dense_replace":3})")),
            (Activations{{"swiglustep", 7}}));
  EXPECT_EQ(activations(lists(R"({"limits":0,"limited":"step","first_k_dense_replace":3})")),
            (Activations{{"silu", 0}}));
}

TEST(Lists, SharedExpertsHaveTheirOwnLimits) {
  EXPECT_EQ(shared_activations(
                lists(R"({"shared_width":16,"limits":[0,5,0,7],"shared_limits":[3,0,null,9],
                          "limited":"step"})")),
            (Activations{{"swiglustep", 3}, {"silu", 0}, {"silu", 0}, {"swiglustep", 9}}));
  EXPECT_EQ(shared_activations(lists(R"({"shared_width":16,"limits":[0,5,0,7],"limited":"step"})")),
            (Activations{{"silu", 0}, {"swiglustep", 5}, {"silu", 0}, {"swiglustep", 7}}))
      << "without a value they share the routed ones'";
  const spec::Model model = lists(R"({"shared_width":16,"limits":5,"shared_limits":0})");
  EXPECT_EQ(shared_activations(model).front(), (std::pair<std::string, double>{"silu", 0}))
      << "0 is a value: none";
  EXPECT_EQ(activations(model).front(), (std::pair<std::string, double>{"silu", 5}));
}

// --- shared experts -----------------------------------------------------------------------------

std::vector<int64_t> shared_widths(const char* patch) {
  std::vector<int64_t> result;
  for (const spec::MoELayer& layer : lists(patch).layers)
    result.push_back(layer.shared ? layer.shared->intermediate_size : 0);
  return result;
}
using Widths = std::vector<int64_t>;

TEST(Lists, WidthOfTheSharedExperts) {
  EXPECT_EQ(shared_widths(R"({"shared_count":2})"), Widths(4, 64)) << "2 x intermediate_size";
  EXPECT_EQ(shared_widths(R"({"shared_count":2,"shared_each":10})"), Widths(4, 20));
  EXPECT_EQ(shared_widths(R"({"shared_each":10})"), Widths(4, 10)) << "one";
  EXPECT_EQ(shared_widths(R"({"shared_count":2,"shared_width":10})"), Widths(4, 10)) << "of both";
  EXPECT_EQ(shared_widths(R"({"shared_count":2,"shared_width":10,"shared_each":7})"),
            Widths(4, 10));
  EXPECT_EQ(shared_widths(R"({"shared_count":0,"shared_each":10})"), Widths(4, 0));
  EXPECT_EQ(shared_widths(R"({"shared_width":0,"shared_count":1})"), Widths(4, 0));
  EXPECT_EQ(shared_widths("{}"), Widths(4, 0));
  EXPECT_EQ(shared_widths(R"({"shared_count":[1,0,null,3],"shared_each":[10,10,10,4]})"),
            (Widths{10, 0, 0, 12}));
  EXPECT_EQ(shared_widths(R"({"shared_count":[1,2,1,2],"moe_intermediate_size":[1,2,3,4]})"),
            (Widths{1, 4, 3, 8}));
  EXPECT_EQ(lists(R"({"shared_count":2,"shared_each":10})").origin.at("shared_width"),
            "shared_count x shared_each");
}

// --- latent widths, norms -----------------------------------------------------------------------

TEST(Lists, LatentWidth) {
  for (const char* key : {"moe_latent_size", "routed_expert_hidden_size"}) {
    const std::string patch = std::string("{\"") + key + "\":16,\"norm\":\"out\",\"norm_eps\":0.5}";
    for (const spec::MoELayer& layer : lists(patch.c_str()).layers) {
      EXPECT_EQ(layer.latent_size, 16) << key;
      EXPECT_EQ(layer.expert_norm, "out");
      EXPECT_EQ(layer.expert_norm_eps, 0.5);
    }
  }
  const spec::Model none = lists(R"({"moe_latent_size":null,"norm_eps":0.5})");
  EXPECT_EQ(none.layers[0].latent_size, 0);
  EXPECT_EQ(none.layers[0].expert_norm_eps, 0) << "an eps of no norm";
  expect_fault({"moe_latent_size", "is -1"}, R"({"moe_latent_size":-1})");
  expect_fault({"norm_eps", "is below 0"}, R"({"norm":"in","norm_eps":-1})");
}

// --- layers that route by token ids -------------------------------------------------------------

std::vector<std::string> methods(const spec::Model& model) {
  std::vector<std::string> result;
  for (const spec::MoELayer& layer : model.layers) result.push_back(layer.routing.method);
  return result;
}
using Words = std::vector<std::string>;

TEST(Lists, HashLayersByNumber) {
  EXPECT_EQ(methods(lists(R"({"num_hash_layers":2})")), (Words{"hash", "hash", "topk", "topk"}));
  EXPECT_EQ(methods(lists(R"({"num_hash_layers":1,"first_k_dense_replace":2})")),
            (Words{"hash", "topk"}))
      << "layers with experts are counted";
  EXPECT_EQ(methods(lists(R"({"num_hash_layers":9})")), Words(4, "hash"));
}

TEST(Lists, HashLayersByWords) {
  EXPECT_EQ(methods(lists(R"({"mlp_layer_types":["dense","hash_moe","moe","hash_moe"]})")),
            (Words{"hash", "topk", "hash"}));
  // Words say it all: a count of dense layers that files keep beside them says nothing more.
  const spec::Model model =
      lists(R"({"mlp_layer_types":["hash_moe","hash_moe","moe","moe"],"first_k_dense_replace":1})");
  EXPECT_EQ(methods(model), (Words{"hash", "hash", "topk", "topk"}));
  EXPECT_EQ(model.dense_layers, std::vector<int64_t>{});
  EXPECT_EQ(methods(lists(R"({"mlp_layer_types":["moe","moe","hash_moe","moe"],
                              "num_hash_layers":1})")),
            (Words{"hash", "topk", "hash", "topk"}))
      << "either way";
  expect_fault({"mlp_layer_types", "'hashed'", "words known"},
               R"({"mlp_layer_types":["moe","moe","hashed","moe"]})");
}

TEST(Lists, ADenseLayersIgnoreRuleSpellsOutWhatComesBefore) {
  const auto with_rule = [](const std::string& name) {
    return with({kLists + "    ignore: [{ names: [\"" + name + "\"], reason: tested }]\n"});
  };
  EXPECT_NO_THROW(with_rule("{root}layers.{dense_layer}.mlp.*"));
  EXPECT_NO_THROW(with_rule("layers.{dense_layer}.mlp.up"));
  for (const std::string name : {"*.{dense_layer}.mlp", "l.{layer}.{dense_layer}.up"})
    expect_error(Fault::usage, {"{dense_layer}", "spell out"}, [&] { with_rule(name); });
}

TEST(Lists, ATableLeavesNothingToChoose) {
  const spec::Model model = lists(R"({"num_hash_layers":1,"bias":true,"n_group":4,"topk_group":2,
                "group_score":"top2_sum","norm_topk_prob":true})");
  const spec::Routing &hash = model.layers[0].routing, &other = model.layers[1].routing;
  EXPECT_FALSE(hash.selection_bias);
  EXPECT_EQ(hash.num_groups, 1);
  EXPECT_EQ(hash.top_groups, 1);
  EXPECT_EQ(hash.group_score, "");
  EXPECT_TRUE(hash.renormalize) << "weights are made as elsewhere";
  EXPECT_TRUE(other.selection_bias);
  EXPECT_EQ(other.num_groups, 4);
  EXPECT_EQ(other.group_score, "top2_sum");
}

// --- rules that depend on numbers ---------------------------------------------------------------

TEST(Lists, FewExpertsAreNotRenormalised) {
  const spec::Model model = lists(R"({"norm_topk_prob":true,"least_k":3,"eps":0.25,"floor":0.5,
                                      "num_experts_per_tok":[1,2,3,4]})");
  for (const spec::MoELayer& layer : model.layers) {
    const bool divides = layer.routing.top_k >= 3;
    EXPECT_EQ(layer.routing.renormalize, divides) << layer.layer_id;
    EXPECT_EQ(layer.routing.renormalize_eps, divides ? 0.25 : 0);
    EXPECT_EQ(layer.routing.renormalize_floor, divides ? 0.5 : 0);
  }
  EXPECT_TRUE(
      lists(R"({"norm_topk_prob":true,"num_experts_per_tok":1})").layers[0].routing.renormalize)
      << "one is enough unless a family says otherwise";
  EXPECT_FALSE(lists(R"({"norm_topk_prob":false,"least_k":1})").layers[0].routing.renormalize);
}

TEST(Lists, GroupsThatAreSwitchedOff) {
  const char* kGroups = R"({"n_group":4,"topk_group":2,"group_score":"max","grouped":true})";
  EXPECT_EQ(lists(kGroups).layers[0].routing.num_groups, 4);
  const spec::Routing off =
      lists(R"({"n_group":4,"topk_group":2,"group_score":"max","grouped":false})")
          .layers[0]
          .routing;
  EXPECT_EQ(off.num_groups, 1);
  EXPECT_EQ(off.top_groups, 1);
  EXPECT_EQ(off.group_score, "");
  // Numbers that make no groups do not matter then.
  EXPECT_NO_THROW(lists(R"({"n_group":3,"topk_group":9,"grouped":false})"));
  expect_fault({"3"}, R"({"n_group":3,"topk_group":2,"group_score":"max"})");
}

// --- lists of layers ----------------------------------------------------------------------------

TEST(Lists, AListOfLayersOutweighsCountsAndSteps) {
  const spec::Model model =
      lists(R"({"moe_list":[0,3],"first_k_dense_replace":2,"moe_layer_freq":2})");
  EXPECT_EQ(model.dense_layers, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(lists(R"({"moe_list":null,"first_k_dense_replace":2})").dense_layers,
            (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(
      lists(R"({"moe_list":"0, 3","mlp_layer_types":["moe","moe","moe","dense"]})").dense_layers,
      (std::vector<int64_t>{1, 2, 3}))
      << "words still hold";
  expect_fault({"moe_list", "entry 4", "no layer below 4"}, R"({"moe_list":[0,4]})");
}

// --- what must be said --------------------------------------------------------------------------

std::string strict(const std::string& name, const std::string& required) {
  return kHead + name + " }\nspec:\n  extends: common\n  match: { model_type: [" + name +
         "] }\n  layers: [first_dense, layer_words]\n  required: [" + required +
         "]\n  defaults: { renormalize: true, routed_scale: 3 }\n" +
         kLists.substr(kLists.find("  tensors:"));
}

TEST(Lists, RequiredQuantitiesHaveNoDefault) {
  const Families families = with({strict("strict", "routed_scale, num_groups")});
  Json config = config_with(R"({"model_type":"strict","n_group":1})");
  const auto read = [&] { return resolve(config, families, "config.json"); };
  expect_error(Fault::usage, {"nothing gives routed_scale", "routed_scaling_factor", "strict"},
               read);
  config["routed_scaling_factor"] = nullptr;
  EXPECT_EQ(read().layers[0].routing.routed_scale, 1) << "null has a meaning for this quantity";
  config["routed_scaling_factor"] = 2;
  EXPECT_EQ(read().layers[0].routing.routed_scale, 2);
  config.erase("n_group");
  expect_error(Fault::usage, {"nothing gives num_groups", "n_group"}, read);
}

TEST(Lists, RequiredLayersAreSaidByAnyOfTheRules) {
  const Families families = with({strict("strict", "layers")});
  Json config = config_with(R"({"model_type":"strict"})");
  const auto read = [&] { return resolve(config, families, "config.json"); };
  expect_error(
      Fault::usage,
      {"nothing says which layers have experts", "first_k_dense_replace", "mlp_layer_types"}, read);
  config["mlp_layer_types"] = {"dense", "moe", "moe", "moe"};
  EXPECT_EQ(read().layers.size(), 3u);
  config.erase("mlp_layer_types");
  config["first_k_dense_replace"] = 0;
  EXPECT_EQ(read().layers.size(), 4u);
  config["first_k_dense_replace"] = nullptr;
  expect_error(Fault::usage, {"nothing says which layers have experts"}, read);
}

// --- which family, and which file ---------------------------------------------------------------

std::string keyed(const std::string& name, const std::string& keys) {
  return kHead + name + " }\nspec:\n  extends: common\n  match: { keys: [" + keys +
         "] }\n  defaults: { renormalize: true }\n" + kLists.substr(kLists.find("  tensors:"));
}

TEST(Lists, KeysRecogniseFilesWithoutAName) {
  const Families families = with({keyed("one", "alpha.beta, gamma"), keyed("two", "delta")});
  Json config = config_with(R"({"alpha":{"beta":0},"gamma":null})");
  config.erase("model_type");
  const auto read = [&] { return resolve(config, families, "config.json"); };
  EXPECT_EQ(read().family, "one") << "keys must be there, whatever they say";
  config["delta"] = 1;
  expect_error(Fault::usage, {"both family 'one' and family 'two'", "model_type"}, read);
  config.erase("gamma");
  EXPECT_EQ(read().family, "two") << "all keys of a family must be there";
  config["model_type"] = "nobodys";  // a name outweighs keys, even one that nobody knows
  EXPECT_EQ(read().family, "");
  config["model_type"] = "olmoe";
  config["intermediate_size"] = 32;
  config["norm_topk_prob"] = false;
  config.erase("moe_intermediate_size");
  EXPECT_EQ(read().family, "olmoe");
}

TEST(Lists, ParamsJsonIsReadWhereConfigJsonIsNoKnownModels) {
  const Families families = with({kLists});
  const Json params = config_with(R"({"num_experts_per_tok":3})");
  EXPECT_EQ(resolve(params, families, "params.json").layers[0].routing.top_k, 3);
  const TempFolder both;
  both.write("params.json", params.dump());
  both.write("config.json", config_with(R"({"num_experts_per_tok":5})").dump());
  EXPECT_EQ(families.resolve(both.path()).layers[0].routing.top_k, 5);
  both.write("config.json", R"({"model_type":"a_picture_encoder"})");
  EXPECT_EQ(families.resolve(both.path()).layers[0].routing.top_k, 3) << "nobody knows the other";
  both.write("params.json", R"({"dim":16})");
  EXPECT_EQ(families.resolve(both.path()).family, "") << "nobody knows either";
  const TempFolder none;
  expect_error(Fault::input, {"config.json"}, [&] { families.resolve(none.path()); });
  const Json broken = config_with(R"({"num_experts_per_tok":99})");
  expect_error(Fault::usage, {"params.json"}, [&] { resolve(broken, families, "params.json"); });
}

// --- models that are described, but not run -----------------------------------------------------

TEST(Lists, AnUnknownFamilyIsDescribedByItsNumbers) {
  const spec::Model model = lists(
      R"({"model_type":"nobodys","architectures":["NobodysMoE"],"norm_topk_prob":true,
          "first_k_dense_replace":1,"num_hash_layers":1})");
  EXPECT_EQ(model.family, "");
  EXPECT_EQ(model.dense_layers, std::vector<int64_t>{0}) << "every rule about layers is tried";
  ASSERT_EQ(model.layers.size(), 3u);
  EXPECT_EQ(model.layers[0].routing.method, "hash");
  EXPECT_EQ(model.layers[2].routing.num_experts, 8);
  ASSERT_EQ(model.unsupported.size(), 1u);
  for (const char* part : {"'nobodys'", "NobodysMoE", "no family matches"})
    EXPECT_NE(model.unsupported[0].find(part), std::string::npos) << model.unsupported[0];
  // What cannot be read even so is said together with the reason.
  expect_fault({"'nobodys'", "nothing gives intermediate_size", "known families"},
               R"({"model_type":"nobodys","moe_intermediate_size":null,"norm_topk_prob":true})");
}

TEST(Lists, ReasonsSurviveADescription) {
  const Families families =
      with({kHead + "talked_of }\nspec:\n  extends: common\n  match: { model_type: [talked_of] }\n"
                    "  unsupported: \"a \\\"router\\\": of its own # kind\"\n"
                    "  refuse: [{ key: odd, reason: odd numbers, unless: [\"[1]\", '\"x\"'] }]\n"
                    "  defaults: { renormalize: true }\n"});
  const spec::Model model =
      resolve(config_with(R"({"model_type":"talked_of","odd":[1,3]})"), families, "config.json");
  ASSERT_EQ(model.unsupported, (Words{"family talked_of: a \"router\": of its own # kind",
                                      "odd is [1,3], which asks for odd numbers"}));
  const TempFolder folder;
  const spec::Model read = read_model(folder.write("model.yaml", write_model(model)));
  EXPECT_EQ(read.unsupported, model.unsupported);
  EXPECT_EQ(read.layers, model.layers);
  // A key that says nothing asks for nothing.
  for (const char* patch :
       {R"({"model_type":"talked_of","odd":[]})", R"({"model_type":"talked_of","odd":false})",
        R"({"model_type":"talked_of","odd":[1]})", R"({"model_type":"talked_of","odd":"x"})"})
    EXPECT_EQ(resolve(config_with(patch), families, "config.json").unsupported.size(), 1u) << patch;
}

}  // namespace
}  // namespace moert::config::test
