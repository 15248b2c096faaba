// What all kinds share: verdicts, options, reading of growable records, and the functions that turn
// a C++ class into the supports/create/destroy of a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <moert/abi/entry.h>
#include <moert/abi/problem.h>
#include <moert/sdk/host.hpp>

namespace moert {

// A class's entry in the descriptor. `name` begins with the plugin's short name: "fast.mxfp4".
struct FeatureInfo {
  const char* name;
  int32_t rank = MOERT_RANK_GOOD;
  uint32_t flags = 0;  // MOERT_FEATURE_*
  const moert_kv_t* caps = nullptr;
  uint32_t n_caps = 0;
};

// Answer to supports(). A "no" always has a reason.
struct Support {
  static Support yes(uint32_t flags = 0, int32_t score = 0) {
    return Support{true, score, flags, 0, {}, {}};
  }
  static Support no(std::string reason) { return Support{false, 0, 0, 0, {}, std::move(reason)}; }

  bool verdict;
  int32_t score;
  uint32_t flags;  // MOERT_SUPPORT_*
  uint64_t persistent_bytes;
  std::string layout;  // empty: canonical
  std::string reason;
};

// Options of an implementation from YAML; views valid during the call.
class Options {
 public:
  Options(const moert_kv_t* entries, uint32_t count) : entries_(entries), count_(count) {}
  // Value of `key`, or `fallback`.
  std::string_view get(std::string_view key, std::string_view fallback = {}) const {
    for (uint32_t i = 0; i < count_; ++i)
      if (key == entries_[i].key) return entries_[i].value;
    return fallback;
  }
  // Throws MOERT_INVALID_ARGUMENT for a key that is not in `known`.
  void allow(std::initializer_list<std::string_view> known) const {
    for (uint32_t i = 0; i < count_; ++i)
      if (std::find(known.begin(), known.end(), entries_[i].key) == known.end())
        throw PluginError(
            MOERT_INVALID_ARGUMENT,
            "unknown option '" + std::string(entries_[i].key) + "', there " + list(known));
  }

 private:
  static std::string list(std::initializer_list<std::string_view> known) {
    if (known.size() == 0) return "are none";
    std::string text = known.size() == 1 ? "is" : "are";
    for (const std::string_view& key : known)
      text += (&key == known.begin() ? " " : ", ") + std::string(key);
    return text;
  }

  const moert_kv_t* entries_;
  uint32_t count_;
};

// A full record from one that may be of an older, shorter revision: what is missing reads as zero.
template <class Record>
Record intake(const Record* record) {
  Record full{};
  if (record == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "a record is missing (NULL)");
  if (record->struct_size < sizeof(uint32_t) * 2)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a record's struct_size is not set");
  std::memcpy(&full, record, std::min<size_t>(record->struct_size, sizeof full));
  full.struct_size = sizeof full;
  return full;
}

// Throws MOERT_UNIMPLEMENTED if `flags` has a bit outside `known`.
inline void must_understand(uint32_t flags, uint32_t known, const char* record) {
  if ((flags & ~known) != 0)
    throw PluginError(MOERT_UNIMPLEMENTED, std::string(record) + ": flag bits " +
                                               std::to_string(flags & ~known) +
                                               " are not known here");
}

namespace detail {

inline void write_support(const Support& from, moert_support_t* out) {
  if (out == nullptr || out->struct_size < sizeof(moert_support_t))
    throw PluginError(MOERT_INVALID_ARGUMENT, "moert_support is missing or too small");
  out->verdict = from.verdict ? 1 : 0;
  out->score = from.score;
  out->flags = from.flags;
  out->persistent_bytes = from.persistent_bytes;
  copy_text(out->layout, sizeof out->layout, from.layout);
  copy_text(out->reason, sizeof out->reason, from.reason);
}

// supports, create and destroy for a class T with a static supports(Host, Spec) and a constructor
// T(Host, Spec, Options). Base is the kind's base class: `self` points to it.
template <class T, class Base, class Spec>
struct Lifecycle {
  static moert_code_t supports(const moert_host_t* host, const Spec* spec, moert_support_t* out,
                               moert_error_t* error) noexcept {
    return guarded(error, T::kFeature.name,
                   [&] { write_support(T::supports(Host(host), intake(spec)), out); });
  }
  static moert_code_t create(const moert_host_t* host, const Spec* spec, const moert_kv_t* options,
                             uint32_t n_options, void** self, moert_error_t* error) noexcept {
    return guarded(error, T::kFeature.name, [&] {
      Base* base = new T(Host(host), intake(spec), Options(options, n_options));
      *self = base;
    });
  }
  static void destroy(void* self) noexcept { delete static_cast<Base*>(self); }
};

// Calls a method of the object behind `self`.
template <class T, class Base, class Body>
moert_code_t call(void* self, moert_error_t* error, Body&& body) noexcept {
  return guarded(error, T::kFeature.name, [&] {
    if (self == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "the object is NULL");
    body(*static_cast<Base*>(self));
  });
}

}  // namespace detail
}  // namespace moert
