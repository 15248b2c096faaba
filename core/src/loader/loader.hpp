// Finds, checks, opens and negotiates with plugin libraries. Knows nothing of layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <moert/abi/entry.h>

#include "util/log.hpp"

namespace moert::loader {

// A folder (or file) to look in, and why: "--plugin-path", "MOERT_PLUGIN_PATH", "user", "installed".
struct SearchEntry {
  std::filesystem::path path;
  std::string origin;
};

// Flag entries, MOERT_PLUGIN_PATH, $XDG_DATA_HOME/moert/plugins-1, then the folder that belongs to the
// running library. Absolute only; environment ignored in a privileged process; never the working
// directory. Throws Error(usage) for a flag that is not an existing path.
std::vector<SearchEntry> search_path(const std::vector<std::string>& flags);

enum class Outcome {
  loaded,
  not_a_library,      // no ELF, damaged, another machine's
  no_note,            // an ELF library, but no MoERT plugin
  incompatible,       // ABI major, minimum host, sanitizer, processor
  refused,            // policy: not allowed, unsafe owner or mode
  shadowed,           // same id came earlier in the search
  failed_to_open,     // missing dependency, undefined symbol
  bad_descriptor,     // no entry function, it returned NULL, or a rule of entry.h is broken
  failed_to_start,    // init returned an error
};
const char* outcome_name(Outcome outcome);

// What became of one file that was looked at.
struct FileReport {
  std::filesystem::path path;
  std::string origin;
  Outcome outcome = Outcome::not_a_library;
  std::string detail;  // one line; empty when loaded
  std::string id, version;  // from the note, where it was readable
};

// An opened plugin. The library stays mapped until the process ends.
struct Plugin {
  std::filesystem::path path;
  moert_plugin_t descriptor{};  // full size, checked; pointers into the library
  bool third_party = true;      // false: from the installed folder
  bool started = false;
};

struct Options {
  std::vector<SearchEntry> search;
  std::vector<std::string> allow;  // short names or ids; empty: all
  // plugin short name -> options handed to init
  std::map<std::string, std::map<std::string, std::string>> plugin_options;
};

struct Result {
  std::vector<Plugin> plugins;      // in search order
  std::vector<FileReport> reports;  // every file looked at
};

// Opens what can be opened; one bad file never stops the others. Does not call init.
Result load(const Options& options, const LogSink& log);

// Calls init; on failure the plugin's report becomes failed_to_start and it leaves `plugins`.
void start(Result& result, const Options& options, const moert_host_t* host, const LogSink& log);
// Calls deinit of started plugins in reverse order. Libraries stay mapped.
void stop(Result& result);

}  // namespace moert::loader
