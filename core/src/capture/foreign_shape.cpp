// SPDX-License-Identifier: Apache-2.0
#include "capture/foreign_shape.hpp"

#include <algorithm>

#include "util/nearest.hpp"

namespace moert::capture {
namespace {

constexpr IdType kTypes[] = {
    {"|u1", 1, false}, {"<u2", 2, false}, {"<i2", 2, true}, {"<i4", 4, true}};

struct Rule {
  Foreign format;
  std::string_view type;  // of ids
  std::string_view wide;  // of ids of more experts than the type holds; "": refused
  bool all_layers, npy, absent;
};

constexpr Rule kRules[] = {
    {Foreign::vllm, "|u1", "<u2", true, true, false},
    {Foreign::sglang, "<i4", "", true, false, false},
    {Foreign::tensorrt_llm, "<i2", "", false, false, true},
    {Foreign::megatron, "<i4", "", false, false, false},
    {Foreign::prime_rl, "|u1", "", true, false, false},
};

const Rule& rule_of(Foreign format) {
  return *std::find_if(std::begin(kRules), std::end(kRules),
                       [format](const Rule& rule) { return rule.format == format; });
}

}  // namespace

const std::vector<ForeignFormat>& foreign_formats() {
  static const std::vector<ForeignFormat> kFormats = {
      {Foreign::vllm, "vllm", Encoding::base64,
       "a .npy file of u8, of u16 above 256 experts; all hidden layers, dense ones zero"},
      {Foreign::sglang, "sglang", Encoding::base64, "i32; all hidden layers, dense ones zero"},
      {Foreign::tensorrt_llm, "tensorrt-llm", Encoding::raw, "i16; MoE layers, -1 where absent"},
      {Foreign::megatron, "megatron", Encoding::raw, "i32; MoE layers"},
      {Foreign::prime_rl, "prime-rl", Encoding::raw,
       "u8, at most 256 experts; all hidden layers, dense ones zero"},
  };
  return kFormats;
}

const ForeignFormat& foreign_format(Foreign format) {
  const std::vector<ForeignFormat>& all = foreign_formats();
  return *std::find_if(all.begin(), all.end(),
                       [format](const ForeignFormat& entry) { return entry.format == format; });
}

const ForeignFormat& foreign_format(std::string_view name) {
  std::vector<std::string> names;
  for (const ForeignFormat& format : foreign_formats()) {
    if (format.name == name) return format;
    names.emplace_back(format.name);
  }
  throw Error(Fault::usage, "no format of routing is called '" + std::string(name) + "'", "format",
              suggestion(name, names));
}

int64_t IdType::load(const char* from) const {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(from[i]);
  const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
  return is_signed && (value & sign) != 0
             ? static_cast<int64_t>(value) - static_cast<int64_t>(sign * 2)
             : static_cast<int64_t>(value);
}

void IdType::store(int64_t id, char* to) const {
  for (size_t i = 0; i < bytes; ++i)
    to[i] = static_cast<char>(static_cast<uint64_t>(id) >> (8 * i));
}

std::optional<IdType> id_type(std::string_view descr) {
  for (const IdType& type : kTypes)
    if (type.descr == descr) return type;
  return {};
}

ForeignShape foreign_shape(Foreign format, const CaptureInfo& info, Fault fault,
                           const std::string& place) {
  const Rule& rule = rule_of(format);
  const std::string name(foreign_format(format).name);
  const auto fail = [&](const std::string& problem, const std::string& remedy) {
    throw Error(fault, problem, place, remedy);
  };
  int64_t experts = 0;
  for (const CapturedLayer& layer : info.layers) {
    experts = std::max(experts, layer.num_experts);
    if (layer.top_k != info.layers.front().top_k)
      fail("the layers' top_k differ (" + std::to_string(info.layers.front().top_k) + ", layer " +
               std::to_string(layer.layer_id) + " has " + std::to_string(layer.top_k) + "), but " +
               name + " has one for all",
           "use a capture file, which holds layers of any top_k");
  }
  ForeignShape shape;
  shape.type = *id_type(rule.type);
  if (experts > shape.type.most() && !rule.wide.empty()) shape.type = *id_type(rule.wide);
  if (experts > shape.type.most())
    fail(std::to_string(experts) + " experts, but ids of " + name + " hold " +
             std::to_string(shape.type.most()),
         "use a capture file, or a format with wider ids");
  shape.top_k = info.layers.front().top_k;
  shape.npy = rule.npy;
  shape.has_absent = rule.absent;
  if (rule.all_layers && info.hidden_layers == 0)
    fail("the number of hidden layers is not known, but " + name + " has a place for each",
         "give the model, or capture with a version that keeps it");
  if (rule.all_layers) shape.layers.resize(static_cast<size_t>(info.hidden_layers));
  for (size_t i = 0; i < info.layers.size(); ++i) {
    if (rule.all_layers)
      shape.layers[static_cast<size_t>(info.layers[i].layer_id)] = i;
    else
      shape.layers.emplace_back(i);
  }
  return shape;
}

}  // namespace moert::capture
