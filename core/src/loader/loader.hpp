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

// Flag entries, MOERT_PLUGIN_PATH, $XDG_DATA_HOME/moert/plugins-1 (else ~/.local/share), then the
// folder that belongs to the running program or library. Absolute only: a flag is made absolute, a
// relative entry of the environment is ignored and logged. The environment is ignored in a privileged
// process. Never the working directory. Folders of the last three need not exist. Throws Error(usage)
// for a flag that is not an existing path.
std::vector<SearchEntry> search_path(const std::vector<std::string>& flags,
                                     const LogSink& log = ignore_log);

enum class Outcome {
  loaded,
  not_a_library,    // no ELF, damaged, another machine's
  no_note,          // an ELF library, but no MoERT plugin
  incompatible,     // ABI major, minimum host, sanitizer, processor
  refused,          // policy: not allowed, unsafe owner or mode
  shadowed,         // same file, id or short name came earlier in the search
  failed_to_open,   // missing dependency, undefined symbol
  bad_descriptor,   // no entry function, it returned NULL, or a rule of entry.h is broken
  failed_to_start,  // init returned an error
};
const char* outcome_name(Outcome outcome);

// What became of one file that was looked at.
struct FileReport {
  std::filesystem::path path;
  std::string origin;
  Outcome outcome = Outcome::not_a_library;
  std::string detail;       // one line; empty when loaded
  std::string id, version;  // from the note, where it was readable
};

// An opened plugin. The library stays mapped until the process ends.
struct Plugin {
  std::filesystem::path path;
  moert_plugin_t descriptor{};  // full size, checked; pointers into the library
  bool third_party = true;      // false: lies in the installed folder, however it was found
  bool started = false;
};

struct Options {
  std::vector<SearchEntry> search;
  // Short names or ids; empty: all. Before a file is opened its id is known but its short name is not:
  // until then the name of the file, libmoert_<name>.so, stands for it.
  std::vector<std::string> allow;
  // plugin short name -> options handed to init
  std::map<std::string, std::map<std::string, std::string>> plugin_options;
};

struct Result {
  std::vector<Plugin> plugins;      // in search order
  std::vector<FileReport> reports;  // every file looked at
};

// Opens what can be opened; one bad file never stops the others. Does not call init. Of a folder every
// name that begins with "libmoert_" or ends in ".so" is looked at, in bytewise order, and those of the
// form libmoert_<name>.so are opened; an entry that is a file is taken as it is. Checks, in order: a
// sound ELF library, the note, policy (allow list, owner and mode of file and folder), duplicates;
// only then is the file mapped, its entry called and its descriptor checked. What was mapped stays
// mapped. The calling thread's floating-point environment is kept. Files that were damaged on the way
// here are caught; a plugin that was made to do harm runs in this process and is not.
Result load(const Options& options, const LogSink& log);

// Calls init of every plugin; on failure its report becomes failed_to_start and it leaves `plugins`.
// `host` must outlive stop(). Main thread.
void start(Result& result, const Options& options, const moert_host_t* host, const LogSink& log);
// Calls deinit of started plugins in reverse order. Libraries stay mapped.
void stop(Result& result);

}  // namespace moert::loader
