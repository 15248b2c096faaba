// SPDX-License-Identifier: Apache-2.0
#include "config/quantization_write.hpp"

#include <set>
#include <utility>

#include <moert/error.hpp>

#include "config/json_config.hpp"
#include "util/file.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::ordered_json;
using spec::FormatGroup;
using spec::Quantization;
using spec::WeightFormat;

constexpr const char* kSections[] = {"quantization_config", "compression_config"};
constexpr const char* kExpertWord = "expert_dtype";
// Where a release keeps the language model's part.
constexpr const char* kNested[] = {"text_config", "llm_config", "language_config",
                                   "thinker_config"};
constexpr const char* kExclusions[] = {"ignore", "modules_to_not_convert", "ignored_layers",
                                       "exclude_modules"};
constexpr std::string_view kPythonMark = R"(\u0001python:)";  // no text of a file begins like that

[[noreturn]] void refuse(const WeightFormat& format, const std::string& method) {
  throw Error(Fault::usage,
              "the format '" + format.kind + "' of '" + format.blocks +
                  "' cannot be said in a quantization_config of method '" + method + "'",
              "quantization_config", "choose another scheme");
}

// A config file, its keys in their order.
class File {
 public:
  explicit File(const std::filesystem::path& path) : path_(path) {
    read_config_json(path);  // refuses what is damaged, or nested too deep
    json_ = Json::parse(quote_python_numbers(read_text_file(path, kMaxConfigBytes), kPythonMark));
  }

  // The objects that may speak of quantization, the outer first.
  std::vector<Json*> scopes() {
    std::vector<Json*> list = {&json_};
    for (size_t i = 0; i < list.size(); ++i)
      for (const char* key : kNested)
        if (const auto at = list[i]->find(key); at != list[i]->end() && at->is_object())
          list.push_back(&*at);
    return list;
  }

  std::string text() const {
    std::string text = json_.dump(2) + "\n";
    const std::string quoted = '"' + std::string(kPythonMark);
    for (size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at)) {
      text.erase(at, quoted.size());
      text.erase(text.find('"', at), 1);
    }
    return text;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Json json_;
};

std::pair<int64_t, int64_t> sizes_of(const WeightFormat& format, const std::string& method) {
  const size_t cross = format.blocks.find('x');
  if (!format.blocks.starts_with("block") || cross == std::string::npos) refuse(format, method);
  return {std::stoll(format.blocks.substr(5)), std::stoll(format.blocks.substr(cross + 1))};
}

Json quantizer(int bits, const char* type, const std::string& strategy) {
  return {{"num_bits", bits},           {"type", type},       {"symmetric", true},
          {"strategy", strategy},       {"dynamic", false},   {"group_size", nullptr},
          {"block_structure", nullptr}, {"actorder", nullptr}};
}

Json grouped(int bits, const char* type, const char* strategy, int64_t size, const char* scale) {
  Json json = quantizer(bits, type, strategy);
  json["group_size"] = size;
  if (scale != nullptr) json["scale_dtype"] = json["zp_dtype"] = scale;
  return json;
}

// What compressed-tensors calls a format, and how it describes its weights.
std::pair<const char*, Json> described(const WeightFormat& format) {
  const auto blocks = [&](const char* word) { return format.blocks == word; };
  if (format.kind == "fp8" && format.blocks.starts_with("block")) {
    const auto [rows, cols] = sizes_of(format, "compressed-tensors");
    Json json = quantizer(8, "float", "block");
    json["block_structure"] = {rows, cols};
    return {"float-quantized", json};
  }
  if (format.kind == "fp8" && (blocks("channel") || blocks("tensor")))
    return {"float-quantized", quantizer(8, "float", format.blocks)};
  if (format.kind == "int8" && (blocks("channel") || blocks("tensor")))
    return {"int-quantized", quantizer(8, "int", format.blocks)};
  if (format.kind == "int4_packed" && format.blocks.starts_with("g") && format.zeros == "none")
    return {"pack-quantized",
            grouped(4, "int", "group", std::stoll(format.blocks.substr(1)), nullptr)};
  if (format.kind == "nvfp4" && format.global == "divide")
    return {"nvfp4-pack-quantized", grouped(4, "float", "tensor_group", 16, "torch.float8_e4m3fn")};
  if (format.kind == "mxfp4")
    return {"mxfp4-pack-quantized", grouped(4, "float", "group", 32, "torch.uint8")};
  if (format.kind == "mxfp8")
    return {"mxfp8-quantized", grouped(8, "float", "group", 32, "torch.uint8")};
  refuse(format, "compressed-tensors");
}

Json activations_of(const WeightFormat& format) {
  if (format.activations.empty() || format.activations == "none") return nullptr;
  const bool token = format.activations == "token";
  const bool group = format.activations.starts_with("group") &&
                     format.activations.find_first_not_of("0123456789", 5) == std::string::npos;
  if (!token && !group) refuse(format, "compressed-tensors");
  Json json = quantizer(8, format.kind == "int8" ? "int" : "float", token ? "token" : "group");
  json["dynamic"] = true;
  if (group) json["group_size"] = std::stoll(format.activations.substr(5));
  return json;
}

Json compressed_tensors(const Quantization& from) {
  Json groups = Json::object();
  std::string format;
  for (const FormatGroup& group : from.groups) {
    const auto [word, weights] = described(group.format);
    format = format.empty() || format == word ? word : "mixed-precision";
    groups["group_" + std::to_string(groups.size())] = {
        {"targets", group.targets.empty() ? std::vector<std::string>{"Linear"} : group.targets},
        {"weights", weights},
        {"input_activations", activations_of(group.format)},
        {"output_activations", nullptr},
        {"format", word}};
  }
  return {{"quant_method", from.method},
          {"format", format},
          {"quantization_status", "compressed"},
          {"config_groups", std::move(groups)},
          {"ignore", from.excluded},
          {"kv_cache_scheme", nullptr},
          {"global_compression_ratio", nullptr}};
}

Json section_of(const Quantization& from) {
  if (from.method == "compressed-tensors") return compressed_tensors(from);
  if (from.groups.size() != 1) refuse({}, from.method);
  const WeightFormat& format = from.groups.front().format;
  if (from.method == "mxfp4" && format.kind == "mxfp4")
    return {{"quant_method", "mxfp4"}, {"modules_to_not_convert", from.excluded}};
  if (from.method != "fp8" || format.kind != "fp8") refuse(format, from.method);
  const auto [rows, cols] = sizes_of(format, from.method);
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {rows, cols}},
          {"modules_to_not_convert", from.excluded}};
}

// The section of the file, or that of the file beside it, taken in; nullptr: there is none.
Json* own_section(File& file, const std::vector<Json*>& scopes) {
  for (Json* scope : scopes)
    for (const char* key : kSections)
      if (const auto at = scope->find(key); at != scope->end() && at->is_object()) return &*at;
  const std::filesystem::path beside = file.path().parent_path() / "hf_quant_config.json";
  if (!std::filesystem::exists(beside)) return nullptr;
  const nlohmann::json other = read_config_json(beside);
  const auto at = other.find("quantization");
  if (at == other.end() || !at->is_object()) return nullptr;
  Json& section = (*scopes.front())["quantization_config"];
  section = Json::parse(at->dump());
  section["quant_method"] = "modelopt";
  return &section;
}

}  // namespace

std::string write_quantization(const std::filesystem::path& config,
                               const Quantization& quantization) {
  File file(config);
  const std::vector<Json*> scopes = file.scopes();
  Json* place = scopes.front();
  for (Json* scope : scopes) {
    for (const char* key : kSections)
      if (scope->erase(key) != 0) place = scope;
    scope->erase(kExpertWord);
  }
  if (!quantization.method.empty()) (*place)["quantization_config"] = section_of(quantization);
  return file.text();
}

std::string write_exclusions(const std::filesystem::path& config,
                             const std::vector<std::string>& modules) {
  File file(config);
  Json* section = own_section(file, file.scopes());
  if (section == nullptr)
    throw Error(Fault::usage, "nothing in the config says what format the weights have",
                config.string(), "leave --exclude out, so that every weight is decoded");
  const char* key = kExclusions[1];
  for (const char* each : kExclusions)
    if (section->contains(each)) key = each;
  if (section->value("quant_method", "") == "compressed-tensors") key = kExclusions[0];
  Json& list = (*section)[key];
  if (!list.is_array()) list = Json::array();
  std::set<std::string> known;
  for (const Json& item : list)
    if (item.is_string()) known.insert(item.get<std::string>());
  for (const std::string& module : modules)
    if (known.insert(module).second) list.push_back(module);
  return file.text();
}

}  // namespace moert::config
