// SPDX-License-Identifier: Apache-2.0
#include "runtime/target_scheme.hpp"

#include <algorithm>

#include <moert/error.hpp>

#include "util/nearest.hpp"
#include "weights/formats.hpp"

namespace moert::runtime {

namespace {

TargetScheme fp8(const std::string& word, const std::string& blocks,
                 const weights::BlockSize& size) {
  TargetScheme target;
  target.word = word;
  target.scheme.name = "fp8_e4m3fn." + blocks + ".f32";
  target.format.kind = "fp8";
  target.format.blocks = blocks;
  target.format.activations = blocks == "tensor"    ? "none"
                              : blocks == "channel" ? "token"
                                                    : "group" + std::to_string(size.cols);
  target.block = size;
  return target;
}

TargetScheme microscaled(const std::string& word) {
  TargetScheme target;
  target.word = word;
  target.format.kind = word;
  target.format.activations = "none";
  target.block = {1, word == "nvfp4" ? 16 : 32};
  target.group = target.block.cols;
  target.format.blocks = "g" + std::to_string(target.group);
  if (word == "mxfp8") {
    target.scheme.name = "fp8_e4m3fn.block1x32.e8m0";
    return target;
  }
  target.storage = TargetScheme::nibbles;
  target.scheme.name = word == "nvfp4" ? "nvfp4.g16.e4m3fn" : "mxfp4.g32.e8m0";
  if (word != "nvfp4") return target;
  target.scheme.options = {{"global", "divide"}};
  target.format.global = "divide";
  return target;
}

TargetScheme int8() {
  TargetScheme target;
  target.word = "int8.channel";
  target.scheme.name = "int8.channel.f32";
  target.format.kind = "int8";
  target.format.blocks = "channel";
  target.format.activations = "token";
  target.block = {1, 0};
  return target;
}

TargetScheme int4(const std::string& word, int64_t group) {
  TargetScheme target;
  target.word = word;
  target.scheme = {"int4_packed.g" + std::to_string(group) + ".f32", {{"zeros", "none"}}};
  target.format.kind = "int4_packed";
  target.format.blocks = "g" + std::to_string(group);
  target.format.activations = "none";
  target.format.zeros = "none";
  target.storage = TargetScheme::words;
  target.block = {1, group};
  target.group = group;
  return target;
}

// A scheme's name without the type of its scales, where that is a matter of taste: "int8.channel".
std::string_view kind_of(std::string_view name) {
  for (const std::string_view scale : {".f32", ".bf16", ".f16"})
    if (name.ends_with(scale)) return name.substr(0, name.size() - scale.size());
  return name;
}

}  // namespace

bool is_of_scheme(const spec::Scheme& scheme, const TargetScheme& target) {
  // What numbers mean hangs on all of them but for how rows are rounded.
  const auto are_in = [](const spec::Scheme& some, const spec::Scheme& others) {
    return std::all_of(some.options.begin(), some.options.end(), [&](const auto& option) {
      return option.first == "activations" ||
             std::count(others.options.begin(), others.options.end(), option) != 0;
    });
  };
  return kind_of(scheme.name) == kind_of(target.scheme.name) && are_in(scheme, target.scheme) &&
         are_in(target.scheme, scheme);
}

const std::vector<std::string>& target_scheme_words() {
  static const std::vector<std::string> words = {
      "fp8.block128x128", "fp8.channel", "fp8.tensor", "mxfp8",     "mxfp4", "nvfp4",
      "int8.channel",     "int4.g32",    "int4.g64",   "int4.g128", "bf16",  "f32"};
  return words;
}

TargetScheme plain_scheme(const std::string& dtype) {
  TargetScheme target;
  target.word = target.scheme.name = dtype;
  target.format.kind = "none";
  return target;
}

TargetScheme target_scheme(const std::string& word, const std::string& place) {
  if (word == "bf16" || word == "f32") return plain_scheme(word);
  if (word == "mxfp8" || word == "mxfp4" || word == "nvfp4") return microscaled(word);
  if (word == "int8.channel") return int8();
  if (word.starts_with("fp8.")) {
    const std::string blocks = word.substr(4);
    if (const auto size = weights::block_size_of(blocks); size && !blocks.starts_with("g"))
      return fp8(word, blocks, *size);
  }
  for (const int64_t group : {32, 64, 128})
    if (word == "int4.g" + std::to_string(group)) return int4(word, group);
  throw Error(Fault::usage, "unknown scheme '" + word + "'", place,
              suggestion(word, target_scheme_words()) + " (known are " +
                  joined(target_scheme_words()) + "; fp8 also of other blocks)");
}

}  // namespace moert::runtime
