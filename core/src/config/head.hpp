// What the kinds of documents have in common: their head, and names that are known everywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/table.hpp"
#include "spec/model.hpp"

namespace moert::config {

// apiVersion, kind, metadata and spec.
Table head_table(const std::string& kind);
// A word, then dots between words: names of candidates.
inline constexpr const char* kNamePattern = "[A-Za-z0-9][A-Za-z0-9_.+-]*";
inline constexpr const char* kShortName = "[a-z][a-z0-9_]*";
inline constexpr const char* kRanges = "[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*";

// Names that abi/problem.h and abi/router.h give.
std::vector<std::string> activation_names();
std::vector<std::string> scoring_names();
std::vector<std::string>
method_names();  // those that a model may have; "hash" follows from its keys
std::vector<std::string> group_score_names();
std::vector<std::string> dtype_names();

// Bounds on sizes: far above what exists, and low enough that products fit 64 bits and that a
// hostile file cannot ask for unbounded memory.
inline constexpr int64_t kMaxLayers = 10'000;
inline constexpr int64_t kMaxExtraLayers = 64;
inline constexpr int64_t kMaxExperts = 1 << 20;
inline constexpr int64_t kMaxWidth = 1 << 24;

// Checks apiVersion and kind before anything else, so that a file of another kind or version gets
// one clear error. Throws Error(usage).
void check_head(const YamlNode& document, const std::string& kind);

// What is wrong with a layer's numbers taken together, or an empty text. One rule for a config.json
// and a Model YAML.
std::string layer_fault(const spec::MoELayer& layer);

}  // namespace moert::config
