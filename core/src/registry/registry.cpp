// Takes in the features of plugins.
// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <moert/error.hpp>

#include "registry/tables.hpp"
#include "util/nearest.hpp"

namespace moert::registry {

namespace {

constexpr uint32_t kRevision1 = offsetof(moert_feature_t, table) + sizeof(moert_feature_t::table);
constexpr uint32_t kLargest = 64u << 10;
constexpr uint32_t kMostCaps = 4096;
constexpr size_t kLongestText = 256;

bool is_text(const char* text) {
  return text != nullptr && *text != '\0' && ::strnlen(text, kLongestText + 1) <= kLongestText;
}

bool is_name(std::string_view name, const std::string& plugin) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  return std::all_of(name.begin(), name.end(), fits) && name.size() > plugin.size() + 1 &&
         name.starts_with(plugin + ".") && name.back() != '.';
}

// What a reader of revision 1 needs from a feature of any revision.
class Intake {
 public:
  Intake(const moert_plugin_t& plugin, const std::string& origin, bool third_party)
      : plugin_(plugin), origin_(origin), third_party_(third_party) {}

  moert_feature_t feature(uint32_t index) const {
    const moert_feature_t* given = plugin_.features[index];
    const std::string place = "feature number " + std::to_string(index);
    if (given == nullptr) fail(place, "it is NULL");
    const uint32_t size = given->struct_size;
    if (size < kRevision1 || size > kLargest)
      fail(place, "its struct_size is " + std::to_string(size) + ", revision 1 has " +
                      std::to_string(kRevision1));
    moert_feature_t full{};
    std::memcpy(&full, given, std::min<size_t>(size, sizeof full));
    if (!is_text(full.kind)) fail(place, "its kind is missing or longer than 256 bytes");
    if (!is_text(full.name)) fail(place, "its name is missing or longer than 256 bytes");
    return full;
  }

  std::unique_ptr<Candidate> candidate(const moert_feature_t& feature, const Kind& kind) const {
    const std::string place = std::string(feature.kind) + " '" + feature.name + "'";
    auto made = std::make_unique<Candidate>();
    made->kind = feature.kind;
    made->name = feature.name;
    made->plugin_id = plugin_.id;
    made->plugin_name = plugin_.name;
    made->plugin_version = plugin_.version;
    made->origin = origin_;
    made->rank = third_party_ ? std::min<int32_t>(feature.rank, MOERT_RANK_GOOD) : feature.rank;
    made->flags = feature.flags;
    if (!is_name(feature.name, plugin_.name))
      fail(place, "a name is '" + std::string(plugin_.name) +
                      ".' and then letters of a-z, 0-9, '_' and '.'");
    made->caps = caps(feature, place);
    std::string problem;
    made->table = take_table(kind, feature.table, problem);
    if (made->table == nullptr) fail(place, problem);
    return made;
  }

 private:
  [[noreturn]] void fail(const std::string& place, const std::string& problem) const {
    throw Error(
        Fault::plugin,
        "the plugin '" + std::string(plugin_.id) + "' breaks a rule: " + place + ": " + problem,
        origin_,
        "ask its vendor (" + std::string(plugin_.vendor) +
            ") for a build that keeps to the headers");
  }

  std::vector<std::pair<std::string, std::string>> caps(const moert_feature_t& feature,
                                                        const std::string& place) const {
    std::vector<std::pair<std::string, std::string>> made;
    if (feature.n_caps > kMostCaps)
      fail(place, "it has " + std::to_string(feature.n_caps) + " capabilities");
    if (feature.n_caps > 0 && feature.caps == nullptr) fail(place, "its capabilities are NULL");
    for (uint32_t i = 0; i < feature.n_caps; ++i) {
      const moert_kv_t& cap = feature.caps[i];
      if (!is_text(cap.key) || cap.value == nullptr)
        fail(place, "capability number " + std::to_string(i) + " has no key or no value");
      made.emplace_back(cap.key, cap.value);
    }
    return made;
  }

  const moert_plugin_t& plugin_;
  const std::string& origin_;
  const bool third_party_;
};

std::string unknown_kind(const std::string& kind) {
  const std::string base = kind.substr(0, kind.rfind('/'));
  for (const std::string& known : kind_ids())
    if (known.substr(0, known.rfind('/')) == base) return "this host knows only '" + known + "'";
  return "this host does not know the kind";
}

}  // namespace

void Registry::add(const moert_plugin_t& plugin, const std::string& origin, bool third_party) {
  if (frozen_ || !is_text(plugin.id) || !is_text(plugin.name) || !is_text(plugin.version) ||
      !is_text(plugin.vendor) || (plugin.n_features > 0 && plugin.features == nullptr)) {
    throw Error(Fault::plugin,
                frozen_ ? "a plugin came after the registry was frozen"
                        : "a plugin's descriptor lacks its id, name, version, vendor or features",
                origin, "register checked plugins, before the first layer is made");
  }
  const Intake intake(plugin, origin, third_party);
  std::vector<std::unique_ptr<Candidate>> made;
  std::vector<Rejection> rejected;
  const auto holder = [&](const moert_feature_t& feature) -> const Candidate* {
    for (const auto* list : {&candidates_, &made})
      for (const auto& other : *list)
        if (other->kind == feature.kind && other->name == feature.name) return other.get();
    return nullptr;
  };
  for (uint32_t i = 0; i < plugin.n_features; ++i) {
    const moert_feature_t feature = intake.feature(i);
    const Kind* kind = find_kind(feature.kind);
    if (kind == nullptr) {
      rejected.push_back({plugin.id, feature.kind, feature.name, unknown_kind(feature.kind)});
    } else if (const Candidate* other = holder(feature)) {
      rejected.push_back(
          {plugin.id, feature.kind, feature.name,
           "the name belongs to '" + other->plugin_id + "' (" + other->origin + ")"});
    } else {
      made.push_back(intake.candidate(feature, *kind));
    }
  }
  std::move(made.begin(), made.end(), std::back_inserter(candidates_));
  rejections_.insert(rejections_.end(), rejected.begin(), rejected.end());
}

void Registry::freeze() { frozen_ = true; }

std::vector<const Candidate*> Registry::candidates(const std::string& kind) const {
  std::vector<const Candidate*> found;
  for (const auto& candidate : candidates_)
    if (candidate->kind == kind) found.push_back(candidate.get());
  std::sort(found.begin(), found.end(),
            [](const Candidate* a, const Candidate* b) { return a->name < b->name; });
  return found;
}

const Candidate* Registry::find(const std::string& kind, const std::string& name) const {
  for (const auto& candidate : candidates_)
    if (candidate->kind == kind && candidate->name == name) return candidate.get();
  return nullptr;
}

}  // namespace moert::registry
