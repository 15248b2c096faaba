// Calls moert_plugin_query_v1 and holds its answer against entry.h and the note.
// SPDX-License-Identifier: Apache-2.0
#include "loader/descriptor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "loader/checks.hpp"
#include "loader/open.hpp"

namespace moert::loader {

namespace {

constexpr uint32_t kRevision1 = offsetof(moert_plugin_t, deinit) + sizeof(moert_plugin_t::deinit);
constexpr uint32_t kLargest = 64u << 10;  // a larger struct_size is garbage
constexpr uint32_t kMostFeatures = 64u << 10;
constexpr size_t kLongestText = 256;

// Of texts that were not written for a machine: no control characters, not too long.
std::string text_problem(const char* name, const char* text, bool required) {
  if (text == nullptr) return required ? std::string("its ") + name + " is NULL" : "";
  const size_t size = ::strnlen(text, kLongestText + 1);
  if (size > kLongestText) return std::string("its ") + name + " is longer than 256 bytes";
  if (required && size == 0) return std::string("its ") + name + " is empty";
  const bool control =
      std::any_of(text, text + size, [](char c) { return static_cast<unsigned char>(c) < 32; });
  return control ? std::string("its ") + name + " has control characters" : "";
}

std::string texts_problem(const moert_plugin_t& plugin, const moert_note_desc_t& note) {
  const std::string problems[] = {
      text_problem("id", plugin.id, true), text_problem("name", plugin.name, true),
      text_problem("vendor", plugin.vendor, true), text_problem("version", plugin.version, true),
      text_problem("build_info", plugin.build_info, false)};
  for (const std::string& problem : problems)
    if (!problem.empty()) return problem;
  if (!is_short_name(plugin.name))
    return "its name '" + one_line(plugin.name) + "' is not made of a-z, 0-9 and _";
  if (std::strcmp(plugin.id, note.id) != 0)
    return "its descriptor has the id '" + one_line(plugin.id) + "', its note '" + note.id + "'";
  if (std::strcmp(plugin.version, note.version) != 0)
    return "its descriptor has the version '" + one_line(plugin.version) + "', its note '" +
           note.version + "'";
  return {};
}

std::string numbers_problem(const moert_plugin_t& plugin) {
  if (plugin.abi_major != MOERT_ABI_MAJOR)
    return "its descriptor is of ABI " + std::to_string(plugin.abi_major) +
           ", its entry function of ABI " + std::to_string(MOERT_ABI_MAJOR);
  if (plugin.min_host_minor > MOERT_ABI_MINOR)
    return "its descriptor needs a host with ABI minor " + std::to_string(plugin.min_host_minor) +
           ", its note did not say so";
  if (plugin.n_features == 0 || plugin.n_features > kMostFeatures)
    return "it lists " + std::to_string(plugin.n_features) + " features, which cannot be";
  if (plugin.features == nullptr) return "its list of features is NULL";
  for (uint32_t i = 0; i < plugin.n_features; ++i)
    if (plugin.features[i] == nullptr) return "feature number " + std::to_string(i) + " is NULL";
  return {};
}

}  // namespace

std::string one_line(const char* text) {
  constexpr size_t kLongest = 512;
  std::string line(text == nullptr ? "" : text, text == nullptr ? 0 : ::strnlen(text, kLongest));
  std::replace_if(
      line.begin(), line.end(),
      [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }, ' ');
  return line;
}

std::string read_descriptor(moert_plugin_query_fn query, const moert_note_desc_t& note,
                            moert_plugin_t& out) {
  constexpr moert_host_info_t kHost = {sizeof(moert_host_info_t), MOERT_ABI_MAJOR, MOERT_ABI_MINOR,
                                       0, MOERT_CORE_VERSION};
  const moert_plugin_t* given = nullptr;
  try {
    const FloatGuard guard;
    given = query(&kHost);
  } catch (...) {
    return std::string(MOERT_ENTRY_SYMBOL) + " threw an exception";
  }
  if (given == nullptr)
    return std::string(MOERT_ENTRY_SYMBOL) + " returned NULL: it cannot serve this host";
  if (reinterpret_cast<uintptr_t>(given) % alignof(moert_plugin_t) != 0)
    return "its descriptor is not aligned";
  const uint32_t size = given->struct_size;
  if (size < kRevision1 || size > kLargest)
    return "its descriptor has struct_size " + std::to_string(size) + ", revision 1 has " +
           std::to_string(kRevision1);
  out = {};
  std::memcpy(&out, given, std::min<size_t>(size, sizeof out));
  out.struct_size = sizeof out;
  const std::string numbers = numbers_problem(out);
  return numbers.empty() ? texts_problem(out, note) : numbers;
}

}  // namespace moert::loader
