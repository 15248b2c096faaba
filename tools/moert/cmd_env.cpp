// `moert env`: what a report of a defect needs.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/entry.h>
#include <moert/sdk/plugin.hpp>

#include "commands.hpp"
#include "environment.hpp"
#include "instructions.hpp"
#include "json.hpp"
#include "machine.hpp"
#include "runtime/call.hpp"
#include "runtime/device.hpp"
#include "runtime/explain.hpp"
#include "setup.hpp"
#include "text_table.hpp"
#include "util/self.hpp"

#ifndef MOERT_BUILD_TYPE
#define MOERT_BUILD_TYPE "unknown"
#endif

namespace moert::tool {

namespace {

struct DeviceLine {
  std::string candidate, device, name, architecture, driver, why_not;
  uint64_t memory_bytes = 0;
};

void add_devices(const runtime::Session& session, const registry::Candidate& candidate,
                 std::vector<DeviceLine>& lines) {
  const auto* table = registry::table_of<moert_device_t>(candidate);
  runtime::Call call;
  int32_t count = 0;
  if (table->count(session.host(), &count, call.out()) != MOERT_OK) {
    lines.push_back({candidate.name, "", "", "", "", call.message(), 0});
    return;
  }
  if (count == 0) lines.push_back({candidate.name, "", "", "", "", "it has none", 0});
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    moert_device_info_t info{};
    info.struct_size = sizeof info;
    if (table->info(ordinal, &info, call.out()) != MOERT_OK) {
      lines.push_back({candidate.name, "", "", "", "", call.message(), 0});
      continue;
    }
    lines.push_back({candidate.name,
                     runtime::device_word(candidate) + ":" + std::to_string(ordinal), info.name,
                     info.architecture, info.driver_version, "", info.memory_bytes});
  }
}

std::vector<DeviceLine> devices_of(const runtime::Session& session) {
  std::vector<DeviceLine> lines;
  for (const registry::Candidate* candidate : session.registry().candidates(MOERT_KIND_DEVICE))
    add_devices(session, *candidate, lines);
  return lines;
}

std::vector<std::pair<std::string, std::string>> program_facts(const runtime::Session& session) {
  const std::string sanitizers = MOERT_SANITIZERS;
  return {{"version", MOERT_VERSION},
          {"plugin abi", std::to_string(MOERT_ABI_MAJOR) + "." + std::to_string(MOERT_ABI_MINOR)},
          {"compiler", MOERT_COMPILER_TEXT},
          {"build type",
           MOERT_BUILD_TYPE + std::string(sanitizers.empty() ? "" : ", sanitizers: " + sanitizers)},
          {"program", running_object().string()},
          {"families", runtime::installed_families().string()},
          {"processor", processor_name()},
          {"extensions", processor_extensions()},
          {"threads", std::to_string(session.host()->num_threads(session.host()->ctx))},
          {"privileged", privileged() ? "yes: MOERT_* variables are ignored" : "no"}};
}

std::string path_state(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? "there" : "absent";
}

std::string variable_state(const Variable& seen) {
  if (!seen.known) return "unknown to moert itself, a plugin may read it";
  return privileged() ? "ignored" : "used";
}

void print_text(Console& console, const runtime::Session& session) {
  TextTable program({"moert", "value"});
  for (const auto& [name, value] : program_facts(session)) program.add({name, value});
  program.print(console);
  console.line();
  TextTable search({"plugins are looked for in", "because of", "state"});
  for (const loader::SearchEntry& entry : session.search())
    search.add({entry.path.string(), entry.origin, path_state(entry.path)});
  search.print(console);
  console.line();
  TextTable variables({"variable", "value", "state"});
  for (const Variable& seen : moert_variables())
    variables.add({seen.name, seen.value, variable_state(seen)});
  if (variables.empty())
    console.line("no MOERT_* variable is set");
  else
    variables.print(console);
  console.line();
  TextTable devices({"device", "from", "name", "architecture", "driver", ">memory", "why not"});
  for (const DeviceLine& line : devices_of(session))
    devices.add({line.device, line.candidate, line.name, line.architecture, line.driver,
                 line.memory_bytes == 0 ? "" : bytes_text(line.memory_bytes), line.why_not});
  if (devices.empty())
    console.line("no plugin offers a device");
  else
    devices.print(console);
}

Json document(const runtime::Session& session) {
  Json json = json_document("moert env");
  for (const auto& [name, value] : program_facts(session)) {
    std::string key = name;
    for (char& c : key) c = c == ' ' ? '_' : c;
    json[key] = value;
  }
  json["threads"] = session.host()->num_threads(session.host()->ctx);
  json["privileged"] = privileged();
  json["search"] = Json::array();
  for (const loader::SearchEntry& entry : session.search())
    json["search"].push_back({{"path", entry.path.string()},
                              {"because_of", entry.origin},
                              {"state", path_state(entry.path)}});
  json["variables"] = Json::array();
  for (const Variable& seen : moert_variables())
    json["variables"].push_back(
        {{"name", seen.name}, {"value", seen.value}, {"known", seen.known}});
  json["devices"] = Json::array();
  for (const DeviceLine& line : devices_of(session))
    json["devices"].push_back({{"device", line.device},
                               {"from", line.candidate},
                               {"name", line.name},
                               {"architecture", line.architecture},
                               {"driver", line.driver},
                               {"memory_bytes", line.memory_bytes},
                               {"why_not", line.why_not}});
  return json;
}

}  // namespace

int cmd_env(const Options& options, Console& console) {
  const runtime::Session session(session_options(options, make_log(options), threads_of(options)));
  require_named_plugins(session);
  require_instructions(options, session);
  if (options.json)
    print_json(console, document(session));
  else
    print_text(console, session);
  return 0;
}

}  // namespace moert::tool
