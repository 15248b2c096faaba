// `moert plugins list` and `moert plugins show`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>

#include <moert/abi/capturer.h>
#include <moert/abi/device.h>
#include <moert/abi/moe_runner.h>
#include <moert/abi/pluggable_layer.h>
#include <moert/abi/quant_method.h>
#include <moert/abi/routed_experts.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>
#include <moert/error.hpp>

#include "commands.hpp"
#include "error_text.hpp"
#include "json.hpp"
#include "runtime/device_list.hpp"
#include "setup.hpp"
#include "text_table.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

using loader::FileReport;
using loader::Outcome;
using registry::Candidate;

constexpr std::array kKinds = {MOERT_KIND_DEVICE,         MOERT_KIND_MOE_RUNNER,
                               MOERT_KIND_ROUTER,         MOERT_KIND_ROUTED_EXPERTS,
                               MOERT_KIND_SHARED_EXPERTS, MOERT_KIND_QUANT_METHOD,
                               MOERT_KIND_CAPTURER,       MOERT_KIND_PLUGGABLE_LAYER};

// A plugin that is in use; the core's own layers are one too.
struct Entry {
  std::string id, name, version, vendor, build, path;
  bool third_party = false;
  std::vector<const Candidate*> features;
};

std::string or_empty(const char* text) { return text == nullptr ? "" : text; }

std::vector<Entry> entries_of(const runtime::Session& session) {
  std::vector<Entry> entries;
  const auto entry_of = [&](const Candidate& candidate) -> Entry& {
    for (Entry& entry : entries)
      if (entry.id == candidate.plugin_id) return entry;
    return entries.emplace_back(Entry{candidate.plugin_id,
                                      candidate.plugin_name,
                                      candidate.plugin_version,
                                      "MoERT",
                                      "",
                                      candidate.origin,
                                      false,
                                      {}});
  };
  for (const loader::Plugin& plugin : session.plugins()) {
    const moert_plugin_t& d = plugin.descriptor;
    entries.push_back({or_empty(d.id),
                       or_empty(d.name),
                       or_empty(d.version),
                       or_empty(d.vendor),
                       or_empty(d.build_info),
                       plugin.path.string(),
                       plugin.third_party,
                       {}});
  }
  for (const char* kind : kKinds)
    for (const Candidate* candidate : session.registry().candidates(kind))
      entry_of(*candidate).features.push_back(candidate);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

// "moert.routed_experts/1" -> "routed_experts"
std::string short_kind(const std::string& kind) {
  const size_t begin = kind.find('.') + 1;
  return kind.substr(begin, kind.find('/') - begin);
}

std::string features_text(const Entry& entry) {
  std::string text;
  for (const Candidate* feature : entry.features)
    text += (text.empty() ? "" : ", ") + short_kind(feature->kind) + " " + feature->name;
  return text;
}

std::string flags_text(uint32_t flags) {
  return (flags & MOERT_FEATURE_PIN_ONLY) != 0 ? "pin-only" : "";
}

std::string caps_text(const Candidate& feature) {
  std::string text;
  for (const auto& [key, value] : feature.caps) {
    if (!text.empty()) text += ", ";
    text.append(key).append("=").append(value);
  }
  return text;
}

Json feature_json(const Candidate& feature) {
  Json json = {
      {"kind", feature.kind},   {"name", feature.name},
      {"rank", feature.rank},   {"pin_only", (feature.flags & MOERT_FEATURE_PIN_ONLY) != 0},
      {"flags", feature.flags}, {"caps", Json::object()}};
  for (const auto& [key, value] : feature.caps) json["caps"][key] = value;
  return json;
}

Json entry_json(const Entry& entry) {
  Json json = {{"name", entry.name},
               {"id", entry.id},
               {"version", entry.version},
               {"vendor", entry.vendor},
               {"build", entry.build},
               {"path", entry.path},
               {"third_party", entry.third_party},
               {"features", Json::array()}};
  for (const Candidate* feature : entry.features)
    json["features"].push_back(feature_json(*feature));
  return json;
}

Json report_json(const FileReport& report) {
  return {{"path", report.path.string()},
          {"found_by", report.origin},
          {"outcome", loader::outcome_name(report.outcome)},
          {"detail", report.detail},
          {"id", report.id},
          {"version", report.version}};
}

// What somebody would miss: files that are no plugins, or that an earlier one replaced, are not.
bool is_failure(const FileReport& report) {
  return report.outcome != Outcome::loaded && report.outcome != Outcome::shadowed;
}

std::optional<Error> named_file_error(const runtime::Session& session) {
  try {
    require_named_plugins(session);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void print_files(Console& console, const runtime::Session& session) {
  TextTable table({"file", "found by", "outcome", "detail"});
  for (const FileReport& report : session.reports())
    table.add(
        {path_text(report.path.string()), report.origin,
         Cell(loader::outcome_name(report.outcome), is_failure(report) ? Cell::bad : Cell::plain),
         report.detail});
  console.line();
  if (table.empty())
    console.line("no file was looked at");
  else
    table.print(console);
  for (const registry::Rejection& rejection : session.registry().rejections())
    console.line(printable("not taken: " + rejection.kind + " " + rejection.name + " of " +
                           rejection.plugin_id + ": " + rejection.reason));
}

void print_failures(Console& console, const runtime::Session& session) {
  bool first = true;
  for (const FileReport& report : session.reports()) {
    if (!is_failure(report)) continue;
    if (std::exchange(first, false)) console.line();
    console.line(console.bad("not used: ") +
                 printable(path_text(report.path.string()) + ": " +
                           loader::outcome_name(report.outcome) +
                           (report.detail.empty() ? "" : ": " + report.detail)));
  }
}

std::string device_name(const runtime::BackendDevices& backend, const moert_device_info_t& info) {
  return backend.word + ":" + std::to_string(info.id.ordinal);
}

void print_devices(Console& console, const std::vector<runtime::BackendDevices>& backends) {
  TextTable table({"device", "name", "architecture", ">memory", "driver"});
  for (const runtime::BackendDevices& backend : backends)
    for (const moert_device_info_t& info : backend.devices)
      table.add({device_name(backend, info), printable(info.name), printable(info.architecture),
                 bytes_text(info.memory_bytes), printable(info.driver_version)});
  console.line();
  if (!table.empty()) table.print(console);
  for (const runtime::BackendDevices& backend : backends)
    if (!backend.reason.empty())
      console.line(printable(backend.word +
                             (backend.devices.empty() ? ": no device: " : ": no more devices: ") +
                             backend.reason));
}

Json devices_json(const std::vector<runtime::BackendDevices>& backends) {
  Json json = Json::array();
  for (const runtime::BackendDevices& backend : backends) {
    Json one = {{"feature", backend.candidate->name},
                {"word", backend.word},
                {"reason", backend.reason},
                {"devices", Json::array()}};
    for (const moert_device_info_t& info : backend.devices)
      one["devices"].push_back({{"device", device_name(backend, info)},
                                {"name", info.name},
                                {"architecture", info.architecture},
                                {"memory_bytes", info.memory_bytes},
                                {"memory_free_bytes", info.memory_free_bytes},
                                {"compute_units", info.compute_units},
                                {"warp_size", info.warp_size},
                                {"driver", info.driver_version}});
    json.push_back(one);
  }
  return json;
}

void print_list(Console& console, const Options& options, const runtime::Session& session) {
  TextTable table({"name", "id", "version", "path", "features"});
  for (const Entry& entry : entries_of(session))
    table.add({entry.name, entry.id, entry.version, path_text(entry.path), features_text(entry)});
  table.print(console);
  print_devices(console, runtime::list_devices(session));
  if (options.all)
    print_files(console, session);
  else
    print_failures(console, session);
}

Json list_json(const runtime::Session& session, const std::optional<Error>& error) {
  Json json = json_document("moert plugins list");
  json["plugins"] = Json::array();
  for (const Entry& entry : entries_of(session)) json["plugins"].push_back(entry_json(entry));
  json["backends"] = devices_json(runtime::list_devices(session));
  json["files"] = Json::array();
  for (const FileReport& report : session.reports()) json["files"].push_back(report_json(report));
  json["rejections"] = Json::array();
  for (const registry::Rejection& rejection : session.registry().rejections())
    json["rejections"].push_back({{"plugin", rejection.plugin_id},
                                  {"kind", rejection.kind},
                                  {"name", rejection.name},
                                  {"reason", rejection.reason}});
  if (error) json["error"] = error_json(*error);
  return json;
}

void print_entry(Console& console, const Entry& entry) {
  TextTable facts({"plugin", entry.name});
  facts.add({"id", entry.id});
  facts.add({"version", entry.version});
  facts.add({"vendor", entry.vendor});
  facts.add({"built by", entry.build});
  facts.add({"path", path_text(entry.path)});
  facts.add({"third party", entry.third_party ? "yes: ranks are at most 128" : "no"});
  facts.print(console);
  console.line();
  TextTable features({"feature", "kind", ">rank", "flags", "caps"});
  for (const Candidate* feature : entry.features)
    features.add({feature->name, feature->kind, std::to_string(feature->rank),
                  flags_text(feature->flags), caps_text(*feature)});
  features.print(console);
}

// Why a plugin of this name is not there, if a file of that name was looked at.
std::string seen_but_failed(const runtime::Session& session, const std::string& name) {
  for (const FileReport& report : session.reports())
    if (is_failure(report) && (report.id == name || report.path.stem() == "libmoert_" + name))
      return report.path.string() + ": " + loader::outcome_name(report.outcome) + ": " +
             report.detail;
  return {};
}

}  // namespace

int cmd_plugins_list(const Options& options, Console& console) {
  const runtime::Session session(session_options(options, make_log(options), threads_of(options)));
  const std::optional<Error> error = named_file_error(session);
  if (options.json)
    print_json(console, list_json(session, error));
  else
    print_list(console, options, session);
  if (!error) return 0;
  console.flush();
  console.say(printable(error->what()));
  return error->exit_code();
}

int cmd_plugins_show(const Options& options, Console& console) {
  const runtime::Session session(session_options(options, make_log(options), threads_of(options)));
  require_named_plugins(session);
  std::vector<std::string> names;
  for (const Entry& entry : entries_of(session)) {
    names.push_back(entry.name);
    if (entry.name != options.target && entry.id != options.target) continue;
    if (options.json) {
      Json json = json_document("moert plugins show");
      json["plugin"] = entry_json(entry);
      print_json(console, json);
    } else {
      print_entry(console, entry);
    }
    return 0;
  }
  const std::string seen = seen_but_failed(session, options.target);
  throw Error(Fault::plugin, "no plugin '" + options.target + "' is loaded",
              seen.empty() ? searched_text(session) : seen,
              suggestion(options.target, names) +
                  "\n  `moert plugins list --all` shows every file that was looked at");
}

}  // namespace moert::tool
