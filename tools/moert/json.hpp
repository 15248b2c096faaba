// The --json side of the output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "console.hpp"

namespace moert::tool {

using Json = nlohmann::ordered_json;

// Raised when a field changes its meaning or goes away; new fields do not raise it.
inline constexpr int kJsonSchemaVersion = 1;

// An object that begins with schema_version and the command.
Json json_document(const std::string& command);
// JSON has no NaN and no infinity: they become the texts "nan", "inf" and "-inf".
Json json_number(double value);
// Bytes that are no UTF-8 are replaced.
void print_json(Console& console, const Json& document);

}  // namespace moert::tool
