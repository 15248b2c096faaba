// Goes through the search path and judges file after file.
// SPDX-License-Identifier: Apache-2.0
#include "loader/loader.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <moert/error.hpp>

#include "loader/checks.hpp"
#include "loader/dependencies.hpp"
#include "loader/descriptor.hpp"
#include "loader/elf_file.hpp"
#include "loader/open.hpp"
#include "loader/search.hpp"

namespace moert::loader {
namespace fs = std::filesystem;

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::loaded: return "loaded";
    case Outcome::not_a_library: return "not a library";
    case Outcome::no_note: return "no plugin";
    case Outcome::incompatible: return "incompatible";
    case Outcome::refused: return "refused";
    case Outcome::shadowed: return "shadowed";
    case Outcome::failed_to_open: return "failed to open";
    case Outcome::bad_descriptor: return "bad descriptor";
    case Outcome::failed_to_start: return "failed to start";
  }
  return "unknown";
}

namespace {

// What tells one file's contents from another's without reading them.
struct Identity {
  uint64_t device, inode, size;
  int64_t seconds, nanoseconds;
  auto contents() const { return std::tie(device, inode, size, seconds, nanoseconds); }
  bool same_file(const Identity& o) const { return device == o.device && inode == o.inode; }
};

std::optional<Identity> identity(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
                  status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// Why a file is not taken.
struct Refusal {
  Outcome outcome;
  std::string detail;
  bool asked_for = false;  // the user's own list left it out: nothing to warn of
};
using Verdict = std::optional<Refusal>;

Verdict refuse_if(Outcome outcome, std::string detail) {
  if (detail.empty()) return std::nullopt;
  return Refusal{outcome, std::move(detail), false};
}

class Search {
 public:
  Search(const Options& options, const LogSink& log)
      : options_(options), log_(log), isa_(available_isa()) {}

  Result run() {
    for (const SearchEntry& entry : options_.search) {
      std::error_code error;
      if (fs::is_directory(entry.path, error))
        look_at_folder(entry);
      else if (fs::exists(fs::symlink_status(entry.path, error)))
        look_at(entry.path, entry.origin);
      else if (entry.origin != kInstalled && entry.origin != "user")
        log_(LogLevel::warn, "loader",
             entry.origin + ": no such folder or file: " + entry.path.string());
    }
    return std::move(result_);
  }

 private:
  void look_at_folder(const SearchEntry& entry) {
    std::error_code error;
    std::vector<std::string> names;
    for (auto it = fs::directory_iterator(entry.path, error);
         !error && it != fs::directory_iterator(); it.increment(error)) {
      std::string name = it->path().filename().string();
      if (name.starts_with("libmoert_") || name.ends_with(".so")) names.push_back(std::move(name));
    }
    if (error)
      log_(LogLevel::warn, "loader", "cannot list " + entry.path.string() + ": " + error.message());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      if (!name_of_file(name).empty()) {
        look_at(entry.path / name, entry.origin);
        continue;
      }
      FileReport report{entry.path / name,
                        entry.origin,
                        Outcome::no_note,
                        "left alone: plugins are named libmoert_<name>.so",
                        {},
                        {}};
      log_(LogLevel::debug, "loader", report.path.string() + ": " + report.detail);
      result_.reports.push_back(std::move(report));
    }
  }

  void look_at(const fs::path& path, const std::string& origin) {
    FileReport report;
    report.path = path;
    report.origin = origin;
    const Verdict verdict = judge(report);
    report.outcome = verdict ? verdict->outcome : Outcome::loaded;
    report.detail = verdict ? verdict->detail : "";
    const LogLevel level = !verdict             ? LogLevel::debug
                           : verdict->asked_for ? LogLevel::info
                                                : LogLevel::warn;
    log_(level, "loader",
         path.string() + ": " + outcome_name(report.outcome) +
             (verdict ? ": " + report.detail : ""));
    result_.reports.push_back(std::move(report));
  }

  Verdict judge(FileReport& report) {
    std::error_code error;
    const fs::path path = fs::canonical(report.path, error);
    if (error) return Refusal{Outcome::not_a_library, "cannot open: " + error.message()};
    const auto file = identity(path);
    if (!file) return Refusal{Outcome::not_a_library, "cannot open: it is gone"};
    for (const auto& [other, other_path] : seen_)
      if (other.same_file(*file))
        return Refusal{Outcome::shadowed, "the same file as " + other_path.string()};
    seen_.emplace_back(*file, report.path);

    ElfFile elf;
    try {
      elf = read_elf(path);
    } catch (const Error& e) {
      return Refusal{Outcome::not_a_library, e.problem()};
    }
    if (!elf.note)
      return Refusal{Outcome::no_note, "a library without the MoERT note (section .note.moert)"};
    if (Verdict verdict = judge_note(*elf.note, report)) return verdict;
    if (Verdict verdict = judge_policy(path, report)) return verdict;
    return open(path, *file, elf, report);
  }

  Verdict judge_note(const Note& note, FileReport& report) const {
    const std::string incompatible = incompatible_note(note, isa_);
    const std::string malformed = malformed_note(note);
    if (malformed.empty() && note.size >= kNoteRevision1) {
      report.id = note.desc.id;
      report.version = note.desc.version;
    }
    if (!incompatible.empty()) return Refusal{Outcome::incompatible, incompatible};
    return refuse_if(Outcome::bad_descriptor, malformed);
  }

  Verdict judge_policy(const fs::path& path, const FileReport& report) const {
    if (!allowed(options_.allow, report.id, name_of_file(report.path)))
      return Refusal{Outcome::refused, "'" + report.id + "' is not in the list of allowed plugins",
                     true};
    if (Verdict verdict = refuse_if(Outcome::refused, unsafe_file(path, report.path)))
      return verdict;
    for (const Plugin& plugin : result_.plugins)
      if (report.id == plugin.descriptor.id)
        return Refusal{Outcome::shadowed,
                       "'" + report.id + "' was found earlier, at " + plugin.path.string()};
    return std::nullopt;
  }

  Verdict open(const fs::path& path, const Identity& before, const ElfFile& elf,
               const FileReport& report) {
    const Opened opened = open_library(path);
    if (!opened.mapped) {
      const std::string missing = missing_libraries(path, elf);
      return Refusal{Outcome::failed_to_open,
                     one_line(opened.error.c_str()) + (missing.empty() ? "" : "; " + missing)};
    }
    const auto after = identity(path);
    if (!after || after->contents() != before.contents())
      return Refusal{Outcome::refused, "the file was changed while it was being opened"};
    if (opened.query == nullptr)
      return Refusal{Outcome::bad_descriptor,
                     std::string("it exports no function ") + MOERT_ENTRY_SYMBOL};
    Plugin plugin;
    plugin.path = path;
    plugin.third_party = !installed(path, report.origin);
    if (Verdict verdict =
            refuse_if(Outcome::bad_descriptor,
                      read_descriptor(opened.query, elf.note->desc, plugin.descriptor)))
      return verdict;
    if (Verdict verdict = judge_name(plugin)) return verdict;
    result_.plugins.push_back(std::move(plugin));
    return std::nullopt;
  }

  Verdict judge_name(const Plugin& plugin) const {
    const std::string name = plugin.descriptor.name;
    if (!allowed(options_.allow, plugin.descriptor.id, name))
      return Refusal{Outcome::refused,
                     "its short name '" + name + "' is not in the list of allowed plugins", true};
    for (const Plugin& other : result_.plugins)
      if (name == other.descriptor.name)
        return Refusal{Outcome::shadowed, "the short name '" + name + "' belongs to '" +
                                              other.descriptor.id + "', at " + other.path.string()};
    return std::nullopt;
  }

  bool installed(const fs::path& path, const std::string& origin) const {
    if (origin == kInstalled) return true;
    return std::any_of(
        options_.search.begin(), options_.search.end(), [&](const SearchEntry& entry) {
          std::error_code none;
          return entry.origin == kInstalled && fs::equivalent(entry.path, path.parent_path(), none);
        });
  }

  const Options& options_;
  const LogSink& log_;
  const uint32_t isa_;
  std::vector<std::pair<Identity, fs::path>> seen_;
  Result result_;
};

}  // namespace

Result load(const Options& options, const LogSink& log) { return Search(options, log).run(); }

}  // namespace moert::loader
