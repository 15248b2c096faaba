// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"

#include <cmath>

namespace moert::tool {

Json json_document(const std::string& command) {
  Json document;
  document["schema_version"] = kJsonSchemaVersion;
  document["command"] = command;
  return document;
}

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

void print_json(Console& console, const Json& document) {
  console.line(document.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace moert::tool
