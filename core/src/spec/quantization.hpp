// What a config announces about the formats of weights, as data. What the files hold decides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moert::spec {

// Empty words are not said. `kind`: "fp8", "mxfp8", "mxfp4", "nvfp4", "int8", "int4_packed",
// "int4_gptq", "int4_awq"; another word is a scheme that some plugin may know.
struct WeightFormat {
  std::string kind;
  std::string blocks;       // of one scale: "tensor", "channel", "block128x128", "g128"
  std::string activations;  // the quant method's word: "none", "static", "token", "group128" ...
  std::string global;       // how a second-level scale enters: "multiply", "divide"
  std::string zeros;        // of int4: "none", "stored", "plus_one"
  // Of mxfp4 and nvfp4, which half of a byte holds the first code: "low", "high"; not said is "low".
  std::string nibbles = {};
  // Of int4, "stored": the groups of columns lie in no order of their own, and a tensor names them.
  std::string column_groups = {};

  bool operator==(const WeightFormat&) const = default;
};

// Modules of which a format is announced. A module is a tensor's name without its last word. A target
// is its name or a run of whole words of it, a glob with '*', or a regular expression after "re:"; what
// fits a module above fits too. No targets: every weight.
struct FormatGroup {
  std::vector<std::string> targets;
  WeightFormat format;

  bool operator==(const FormatGroup&) const = default;
};

struct Quantization {
  std::string method;                 // as the config calls it
  std::vector<FormatGroup> groups;    // the first that fits a module holds
  std::vector<std::string> excluded;  // targets that are announced to be plain floats

  bool operator==(const Quantization&) const = default;
};

// A format as a tensor has it: a scheme, and the options of the quant method's object.
struct Scheme {
  std::string name;  // "bf16", "fp8_e4m3fn.block128x128.f32"
  std::vector<std::pair<std::string, std::string>> options;

  bool operator==(const Scheme&) const = default;
  // "fp8_e4m3fn.block128x128.f32, activations group128"
  std::string text() const {
    std::string all = name;
    for (const auto& [key, value] : options) all.append(", ").append(key).append(" ").append(value);
    return all;
  }
};

}  // namespace moert::spec
