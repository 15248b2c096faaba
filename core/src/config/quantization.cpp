// SPDX-License-Identifier: Apache-2.0
#include "config/quantization.hpp"

#include <algorithm>
#include <cstdint>

#include <moert/error.hpp>

#include "config/json_config.hpp"
#include "util/text.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::json;
using spec::FormatGroup;
using spec::Quantization;
using spec::WeightFormat;

constexpr int64_t kLargestBlock = 65536;

// A section of the file; every getter names the key that has the wrong type.
class Section {
 public:
  Section(const Json& json, std::string path, std::string place)
      : json_(json), path_(std::move(path)), place_(std::move(place)) {
    if (!json.is_object()) fail("", json, "an object");
  }

  std::string text(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) fail(key, *value, "a word");
    return value->get<std::string>();
  }
  int64_t number(const char* key, int64_t otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number_integer()) fail(key, *value, "a whole number");
    const auto number = value->get<int64_t>();
    const bool wraps = value->is_number_unsigned() && number < 0;
    if (wraps || number < -1 || number > kLargestBlock) fail(key, *value, "a number up to 65536");
    return number;
  }
  bool flag(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (value->is_string()) return true;  // compressed-tensors: "local"
    if (!value->is_boolean()) fail(key, *value, "true or false");
    return value->get<bool>();
  }
  // The word, or the `true` of older files.
  bool says(const char* key, const char* word) const {
    const Json* value = find(key);
    return value != nullptr && (*value == word || *value == true);
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> list;
    const Json* value = find(key);
    if (value == nullptr) return list;
    if (!value->is_array()) fail(key, *value, "a list of names");
    for (const Json& item : *value) {
      if (!item.is_string()) fail(key, item, "a list of names");
      if (!item.get<std::string>().empty()) list.push_back(item.get<std::string>());
    }
    return list;
  }
  // "block128x128" from [128, 128] or "128x128"; empty: not there.
  std::string blocks(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (value->is_string()) return "block" + value->get<std::string>();
    const bool pair = value->is_array() && value->size() == 2 &&
                      std::all_of(value->begin(), value->end(), [](const Json& size) {
                        return size.is_number_integer() && size > 0 && size <= kLargestBlock;
                      });
    if (!pair) fail(key, *value, "two sizes, rows and columns");
    return "block" + (*value)[0].dump() + "x" + (*value)[1].dump();
  }
  bool has(const char* key) const { return find(key) != nullptr; }
  Section section(const char* key) const { return {*find(key), path_ + "." + key, place_}; }
  std::vector<std::pair<std::string, Section>> sections(const char* key) const {
    std::vector<std::pair<std::string, Section>> list;
    if (!has(key)) return list;
    const Section map = section(key);
    for (const auto& [name, value] : map.json_.items())
      list.emplace_back(name, Section(value, map.path_ + "." + name, place_));
    return list;
  }

 private:
  const Json* find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  [[noreturn]] void fail(const std::string& key, const Json& value, const char* expected) const {
    throw Error(Fault::usage,
                path_ + (key.empty() ? "" : "." + key) + " is " + shortened(value.dump(), 60) +
                    ", expected " + expected,
                place_, "correct the file, or fetch it again");
  }

  const Json& json_;
  std::string path_, place_;
};

std::string group_text(int64_t size) { return size > 0 ? "g" + std::to_string(size) : "channel"; }

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// DeepSeek's way, which many follow.
WeightFormat fp8_format(const Section& s) {
  WeightFormat format;
  format.kind = "fp8";
  format.blocks = s.blocks("weight_block_size");
  format.global = "multiply";
  if (s.text("activation_scheme") == "static")
    format.activations = "static";
  else if (format.blocks.empty())
    format.activations = "token";
  else
    format.activations = "group" + format.blocks.substr(format.blocks.find('x') + 1) +
                         (s.text("scale_fmt") == "ue8m0" ? "_ue8m0" : "");
  return format;
}

// ModelOpt's words for a whole format.
WeightFormat algorithm_format(const std::string& algorithm, int64_t group_size) {
  struct Known {
    const char* word;
    WeightFormat format;
  };
  const Known known[] = {
      {"FP8", {"fp8", "tensor", "static", "multiply", {}}},
      {"FP8_PER_CHANNEL_PER_TOKEN", {"fp8", "channel", "token", "multiply", {}}},
      {"FP8_PB_WO", {"fp8", "block128x128", "none", "multiply", {}}},
      {"FP8_PB_REAL", {"fp8", "block128x128", "group128", "multiply", {}}},
      {"MXFP8", {"mxfp8", "g32", "mxfp8", {}, {}}},
      {"NVFP4", {"nvfp4", "g16", "nvfp4", "multiply", {}}},
      {"NVFP4_AWQ", {"nvfp4", "g16", "nvfp4", "multiply", {}}},
      {"W4A16_NVFP4", {"nvfp4", "g16", "none", "multiply", {}}},
      {"MXFP4", {"mxfp4", "g32", "none", {}, {}}},
  };
  for (const Known& each : known)
    if (algorithm == each.word) return each.format;
  WeightFormat other;
  other.kind = algorithm.empty() ? "unknown" : algorithm;
  if (group_size > 0) other.blocks = group_text(group_size);
  return other;
}

std::string weight_kind(const Section& weights, const std::string& format) {
  const int64_t bits = weights.number("num_bits", 0), group = weights.number("group_size", 0);
  const std::string type = weights.text("type");
  if (type == "float" && bits == 8) return group == 32 ? "mxfp8" : "fp8";
  if (type == "float" && bits == 4) return group == 32 ? "mxfp4" : "nvfp4";
  if (type == "int" && bits == 8 && format != "pack-quantized") return "int8";
  if (type == "int" && bits == 4) return "int4_packed";
  return type + std::to_string(bits) + (format.empty() ? "" : "_" + format);
}

// How a group's scales lie; of the formats with a group of their own that is no choice.
std::string weight_blocks(const Section& weights, const std::string& kind) {
  const int64_t group = weights.number("group_size", 0);
  const std::string strategy = weights.text("strategy");
  if (strategy == "block") return weights.blocks("block_structure");
  if (is_one_of(kind, {"mxfp8", "mxfp4", "nvfp4"})) return group_text(group);
  if (kind == "fp8" && group > 0) return "block1x" + std::to_string(group);
  if (strategy == "group" || group > 0) return group_text(group);
  return is_one_of(strategy, {"tensor", "channel"}) ? strategy : "";
}

std::string activation_word(const Section& group, const std::string& kind) {
  if (!group.has("input_activations")) return "none";
  const Section input = group.section("input_activations");
  const int64_t bits = input.number("num_bits", 0);
  const std::string type = input.text("type");
  if (!type.empty() && (type == "int") != (kind == "int8")) return type + std::to_string(bits);
  if (bits == 4 && kind == "nvfp4") return "nvfp4";
  if (bits == 4) return "mxfp4";
  if (input.number("group_size", 0) == 32) return "mxfp8";
  if (!input.flag("dynamic", false)) return "static";
  if (input.text("strategy") == "group")
    return "group" + std::to_string(input.number("group_size", 128));
  return is_one_of(kind, {"mxfp4", "nvfp4"}) ? "fp8" : "token";
}

// Of compressed-tensors, and of ModelOpt since it writes the same.
FormatGroup config_group(const Section& group, const std::string& format, bool divides) {
  FormatGroup result;
  result.targets = group.texts("targets");
  // The name of a class of layers; what is looked at here are all linear.
  if (std::count(result.targets.begin(), result.targets.end(), "Linear") != 0)
    result.targets.clear();
  WeightFormat& to = result.format;
  if (!group.has("weights")) {
    to.kind = "none";
    return result;
  }
  const Section weights = group.section("weights");
  const std::string own = group.text("format");
  to.kind = weight_kind(weights, own.empty() ? format : own);
  to.blocks = weight_blocks(weights, to.kind);
  to.activations = activation_word(group, to.kind);
  to.global = divides ? "divide" : "multiply";
  if (to.kind == "int4_packed") {
    to.zeros = weights.flag("symmetric", true) ? "none" : "stored";
    if (weights.says("actorder", "group")) to.column_groups = "stored";
  }
  return result;
}

WeightFormat method_format(const Section& s, const std::string& method) {
  WeightFormat format;
  if (is_one_of(method, {"fp8", "deepseek_v4_fp8"})) return fp8_format(s);
  if (is_one_of(method, {"mxfp4", "gpt_oss_mxfp4"})) return {"mxfp4", "g32", "none", {}, {}};
  if (method == "mxfp8") return {"mxfp8", "g32", "mxfp8", {}, {}};
  if (method == "fbgemm_fp8") return {"fp8", "channel", "token", "multiply", {}};
  if (is_one_of(method, {"modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed"}))
    return algorithm_format(s.text("quant_algo"), s.number("group_size", 0));
  const bool awq = is_one_of(method, {"awq", "auto_awq", "awq_marlin"});
  const bool gptq = is_one_of(method, {"gptq", "auto_gptq", "gptq_marlin"});
  const std::string version = s.text("version");
  const bool known = s.number("bits", 4) == 4 && (version.empty() || version == "gemm" || gptq);
  if ((!awq && !gptq) || !known) {
    format.kind = method + (known ? "" : "_" + std::to_string(s.number("bits", 4)) + version);
    return format;
  }
  format.kind = awq ? "int4_awq" : "int4_gptq";
  format.blocks = group_text(s.number("group_size", 128));
  format.activations = "none";
  format.zeros = gptq ? (s.text("checkpoint_format") == "gptq_v2" ? "stored" : "plus_one")
                      : (s.flag("zero_point", true) ? "stored" : "none");
  if (gptq && s.flag("desc_act", false)) format.column_groups = "stored";
  return format;
}

// A release may say of each layer, or of the experts alone, that they are something else.
void add_exceptions(const Section& s, Quantization* to) {
  for (const auto& [name, layer] : s.sections("quantized_layers")) {
    const WeightFormat format =
        algorithm_format(layer.text("quant_algo"), layer.number("group_size", 0));
    const auto same =
        std::find_if(to->groups.begin(), to->groups.end(),
                     [&](const FormatGroup& group) { return group.format == format; });
    if (same != to->groups.end())
      same->targets.push_back(name);
    else
      to->groups.push_back({{name}, format});
  }
  if (const std::string algorithm = s.text("moe_quant_algo"); !algorithm.empty())
    to->groups.push_back({{"experts"}, algorithm_format(algorithm, s.number("group_size", 0))});
}

Quantization read_section(const Section& s) {
  Quantization result;
  result.method = s.text("quant_method");
  if (result.method.empty() && s.has("quant_algo")) result.method = "modelopt";
  if (result.method.empty()) result.method = "unknown";
  for (const char* key : {"ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules"})
    for (std::string& name : s.texts(key)) result.excluded.push_back(std::move(name));
  add_exceptions(s, &result);
  const bool own_words = is_one_of(result.method, {"fp8", "deepseek_v4_fp8"});
  const auto groups = s.sections("config_groups");
  const bool divides = result.method == "compressed-tensors";
  if (!groups.empty() && !(own_words && !result.groups.empty())) {
    // Names before classes, whatever the order in the file.
    for (const bool is_named : {true, false})
      for (const auto& [name, group] : groups)
        if (FormatGroup one = config_group(group, s.text("format"), divides);
            one.targets.empty() != is_named)
          result.groups.push_back(std::move(one));
  } else {
    result.groups.push_back({{}, method_format(s, result.method)});
  }
  return result;
}

// The family's word for the experts. Their activations are quantised as those around them.
void override_experts(const std::string& dtype, Quantization* to) {
  FormatGroup group{{"experts"}, {}};
  const WeightFormat around = to->groups.empty() ? WeightFormat{} : to->groups.back().format;
  group.format.kind = dtype == "fp4" ? "mxfp4" : dtype;
  group.format.activations = around.activations;
  if (dtype == "fp8") group.format = around;
  const auto same = [](const FormatGroup& other) {
    return other.targets == std::vector<std::string>{"experts"};
  };
  // A release that says it in more detail keeps that.
  if (std::none_of(to->groups.begin(), to->groups.end(), same) && to->groups.size() <= 1)
    to->groups.insert(to->groups.begin(), std::move(group));
}

}  // namespace

std::optional<Quantization> read_quantization(const std::vector<Scope>& scopes,
                                              const std::string& expert_dtype,
                                              const std::filesystem::path& config,
                                              std::string* origin) {
  std::optional<Quantization> result;
  for (const Scope& scope : scopes) {
    for (const char* key : {"quantization_config", "compression_config"}) {
      const Json* section = value_at(*scope.object, key);
      if (result || section == nullptr || says_nothing(*section)) continue;
      result = read_section({*section, scope.prefix + key, config.string()});
      *origin = config.filename().string() + ": " + scope.prefix + key;
    }
  }
  const std::filesystem::path beside = config.parent_path() / "hf_quant_config.json";
  if (std::error_code error; !result && std::filesystem::exists(beside, error)) {
    const Json file = read_config_json(beside);
    if (const Json* section = value_at(file, "quantization")) {
      result = read_section({*section, "quantization", beside.string()});
      *origin = beside.filename().string() + ": quantization";
    }
  }
  if (expert_dtype.empty()) return result;
  if (!result) {
    result = Quantization{"expert_dtype", {}, {}};
    *origin = config.filename().string() + ": expert_dtype";
  }
  override_experts(expert_dtype, &*result);
  return result;
}

}  // namespace moert::config
