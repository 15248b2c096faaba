// SPDX-License-Identifier: Apache-2.0
#include "error_text.hpp"

#include <new>

namespace moert::tool {

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return {Fault::device, "memory ran out", "this process",
            "use fewer tokens or a smaller model, or raise the limit of memory"};
  }
  return {Fault::device, std::string("unexpected: ") + exception.what(), "the program itself",
          "this is a defect: report it with the command and the output of `moert env`"};
}

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::check: return "check";
    case Fault::usage: return "usage";
    case Fault::plugin: return "plugin";
    case Fault::refused: return "refused";
    case Fault::device: return "device";
    case Fault::input: return "input";
  }
  return "unknown";
}

Json error_json(const Error& error) {
  Json json;
  json["fault"] = fault_name(error.fault());
  json["what"] = error.problem();
  json["where"] = error.place();
  json["remedy"] = error.remedy();
  json["exit_code"] = error.exit_code();
  return json;
}

void show_error(Console& console, const Error& error, bool json, const std::string& command) {
  console.say(printable(error.what()));
  if (!json) return;
  console.discard();
  Json document = json_document(command);
  document["error"] = error_json(error);
  print_json(console, document);
}

}  // namespace moert::tool
