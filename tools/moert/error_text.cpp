// SPDX-License-Identifier: Apache-2.0
#include "error_text.hpp"

#include <filesystem>
#include <new>
#include <system_error>

namespace moert::tool {

namespace {

// A working directory that was removed, a path that cannot be followed: asked wrongly. The rest: a
// device that failed.
Error file_error(const std::filesystem::filesystem_error& error) {
  constexpr std::errc kAskedWrongly[] = {std::errc::no_such_file_or_directory,
                                         std::errc::not_a_directory,
                                         std::errc::permission_denied,
                                         std::errc::operation_not_permitted,
                                         std::errc::filename_too_long,
                                         std::errc::too_many_symbolic_link_levels,
                                         std::errc::is_a_directory,
                                         std::errc::read_only_file_system};
  Fault fault = Fault::device;
  for (const std::errc code : kAskedWrongly)
    if (error.code() == code) fault = Fault::usage;
  const std::string place = error.path1().string();
  return {fault, error.what(), place.empty() ? "the working directory" : place,
          "check that this path and the working directory exist and can be reached"};
}

}  // namespace

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return {Fault::device, "memory ran out", "this process",
            "use fewer tokens or a smaller model, or raise the limit of memory"};
  }
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return file_error(*error);
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
