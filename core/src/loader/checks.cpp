// The note's numbers, the processor, and who may write the file.
// SPDX-License-Identifier: Apache-2.0
#include "loader/checks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace moert::loader {
namespace fs = std::filesystem;

static_assert(sizeof(moert_note_desc_t) >= kNoteRevision1);

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool consists_of(std::string_view text, std::initializer_list<std::string_view> sets) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::any_of(sets.begin(), sets.end(),
                       [&](std::string_view set) { return set.find(c) != std::string_view::npos; });
  });
}

template <size_t N>
bool has_end(const char (&text)[N]) {
  return std::memchr(text, '\0', N) != nullptr;
}

const char* sanitizer_name(uint32_t sanitizer) {
  switch (sanitizer) {
    case MOERT_SANITIZER_NONE: return "no sanitizer";
    case MOERT_SANITIZER_ADDRESS: return "the address sanitizer";
    case MOERT_SANITIZER_THREAD: return "the thread sanitizer";
    default: return "an unknown sanitizer";
  }
}

// Names of the bits of `isa`.
std::string isa_names(uint32_t isa) {
  std::string text;
  const auto add = [&](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
  if ((isa & MOERT_ISA_AVX2_FMA) != 0) add("AVX2 with FMA");
  if ((isa & MOERT_ISA_AVX512) != 0) add("AVX-512 (F, BW, VL, DQ)");
  const uint32_t unknown = isa & ~uint32_t{MOERT_ISA_AVX2_FMA | MOERT_ISA_AVX512};
  if (unknown != 0) add("features with unknown bits " + std::to_string(unknown));
  return text;
}

std::string unsafe_entry(const fs::path& path, const char* what) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    return std::string("cannot look at the ") + what + ": " + std::strerror(errno);
  if ((status.st_mode & S_IWOTH) != 0)
    return std::string("everybody may write the ") + what + " " + path.string() +
           "; run chmod o-w on it";
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return std::string("the ") + what + " " + path.string() + " belongs to user " +
           std::to_string(status.st_uid) + ", neither root nor the one who runs this";
  return {};
}

}  // namespace

bool is_version(const std::string& text) {
  const size_t core_end = std::min(text.find_first_of("-+"), text.size());
  size_t numbers = 0, at = 0;
  while (at <= core_end) {
    const size_t dot = std::min(text.find('.', at), core_end);
    if (!consists_of(std::string_view(text).substr(at, dot - at), {kDigits})) return false;
    ++numbers;
    at = dot + 1;
  }
  return numbers == 3 &&
         (core_end == text.size() || consists_of(std::string_view(text).substr(core_end + 1),
                                                 {kDigits, kLower, kUpper, ".-+"}));
}

bool is_id(const std::string& text) {
  return text.size() < 64 && consists_of(text, {kDigits, kLower, kUpper, "._-"});
}

bool is_short_name(const std::string& text) {
  return text.size() < 64 && consists_of(text, {kDigits, kLower, "_"});
}

std::string malformed_note(const Note& note) {
  if (note.size < kNoteRevision1 || note.desc.desc_size < kNoteRevision1)
    return {};  // incompatible
  if (note.desc.desc_size > note.size) return "its note is shorter than it says";
  if (!has_end(note.desc.id) || !is_id(note.desc.id)) return "its note has no well-formed id";
  if (!has_end(note.desc.version) || !is_version(note.desc.version))
    return "its note has no version of the form 1.2.3";
  return {};
}

std::string incompatible_note(const Note& note, uint32_t isa) {
  const moert_note_desc_t& desc = note.desc;
  const uint32_t size = std::min(note.size, desc.desc_size);
  if (size < kNoteRevision1)
    return "its note has " + std::to_string(size) + " bytes, revision 1 has " +
           std::to_string(kNoteRevision1);
  if (desc.abi_major != MOERT_ABI_MAJOR)
    return "built for ABI " + std::to_string(desc.abi_major) + ", this host has ABI " +
           std::to_string(MOERT_ABI_MAJOR);
  if (desc.min_host_minor > MOERT_ABI_MINOR)
    return "needs a host with ABI " + std::to_string(MOERT_ABI_MAJOR) + "." +
           std::to_string(desc.min_host_minor) + " or later, this one has " +
           std::to_string(MOERT_ABI_MAJOR) + "." + std::to_string(MOERT_ABI_MINOR);
  if (desc.sanitizer != MOERT_BUILD_SANITIZER)
    return std::string("built with ") + sanitizer_name(desc.sanitizer) + ", this host with " +
           sanitizer_name(MOERT_BUILD_SANITIZER);
  const uint32_t missing = desc.isa & ~isa;
  if (missing != 0) return "needs a processor and system with " + isa_names(missing);
  return {};
}

uint32_t available_isa() {
  uint32_t isa = 0;
#if defined(__x86_64__)
  // These builtins read XCR0 too: a feature whose registers the system does not save is absent.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isa |= MOERT_ISA_AVX2_FMA;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    isa |= MOERT_ISA_AVX512;
#endif
  return isa;
}

std::string unsafe_file(const fs::path& path, const fs::path& found) {
  std::string problem = unsafe_entry(path, "file");
  if (problem.empty()) problem = unsafe_entry(path.parent_path(), "folder");
  if (problem.empty()) problem = unsafe_entry(found.parent_path(), "folder");
  return problem;
}

bool allowed(const std::vector<std::string>& list, const std::string& id, const std::string& name) {
  return list.empty() || std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
           return entry == id || (!name.empty() && entry == name);
         });
}

std::string name_of_file(const fs::path& path) {
  constexpr std::string_view kBegin = "libmoert_", kEnd = ".so";
  const std::string file = path.filename().string();
  if (file.size() <= kBegin.size() + kEnd.size() || !file.starts_with(kBegin) ||
      !file.ends_with(kEnd))
    return {};
  return file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size());
}

}  // namespace moert::loader
