// The choice among candidates, and its table as text.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "registry/registry.hpp"
#include "registry/version.hpp"
#include "util/nearest.hpp"

namespace moert::registry {

namespace {

constexpr int32_t kHighestScore = 1000;  // problem.h

struct Contender {
  const Candidate* candidate;
  size_t preference;  // place in Policy::prefer, or its size; 0 for a pin
  moert_support_t support{};
  Row row;
};

size_t preference_of(const Candidate& candidate, const Policy& policy) {
  if (!policy.pinned.empty()) return candidate.name == policy.pinned ? 0 : 1;
  const auto found = std::find(policy.prefer.begin(), policy.prefer.end(), candidate.plugin_name);
  return static_cast<size_t>(found - policy.prefer.begin());
}

// Does the comma-separated `list` contain `word`, or "any"?
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item == word || item == "any") return true;
  }
  return false;
}

const std::string* capability(const Candidate& candidate, std::string_view wanted) {
  for (const auto& [key, value] : candidate.caps)
    if (key == wanted) return &value;
  return nullptr;
}

// Why a candidate is not even asked.
std::optional<std::string> out_of_question(const Candidate& candidate, const Policy& policy) {
  if (policy.pinned.empty() && (candidate.flags & MOERT_FEATURE_PIN_ONLY) != 0)
    return "only used when named";
  if (policy.device.empty() || lists_device(candidate, policy.device).value_or(true))
    return std::nullopt;
  return "runs on " + *capability(candidate, "device") + ", the layer is on " + policy.device;
}

std::string words_of(const moert_support_t& support) {
  std::string words(support.reason, ::strnlen(support.reason, sizeof support.reason));
  std::replace_if(
      words.begin(), words.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, ' ');
  return words;
}

std::string reason_of(const moert_support_t& support) {
  const std::string reason = words_of(support);
  return reason.empty() ? "it gives no reason, which is a mistake in the plugin" : reason;
}

Contender consider(const Candidate& candidate, const Policy& policy, const Ask& ask) {
  Contender made{&candidate, preference_of(candidate, policy), {}, {}};
  Row& row = made.row;
  row.candidate = candidate.name;
  row.plugin = candidate.plugin_name;
  row.version = candidate.plugin_version;
  row.rank = candidate.rank;
  if (!policy.pinned.empty() && candidate.name != policy.pinned) {
    row.state = Row::not_asked;
    row.reason = "another one is named";
    return made;
  }
  if (const auto why = out_of_question(candidate, policy)) {
    row.reason = *why;
    return made;
  }
  made.support = ask(candidate);
  // Only a rank puts a candidate far ahead: a score beyond its range gains nothing.
  made.support.score = std::clamp(made.support.score, 0, kHighestScore);
  if (made.support.verdict != 0) {
    row.state = Row::accepted;
    row.score = made.support.score;
    row.support_flags = made.support.flags;
  } else {
    row.reason = reason_of(made.support);
  }
  return made;
}

// The criteria in their order; negative: a comes first.
struct Criterion {
  const char* won;  // "highest rank"
  int (*compare)(const Contender& a, const Contender& b);
};
template <class T>
int descending(T a, T b) {
  return (a < b) - (b < a);
}
constexpr std::array<Criterion, 5> kCriteria = {{
    {"its plugin is preferred",
     [](const Contender& a, const Contender& b) { return descending(b.preference, a.preference); }},
    {"highest rank",
     [](const Contender& a, const Contender& b) { return descending(a.row.rank, b.row.rank); }},
    {"highest score",
     [](const Contender& a, const Contender& b) { return descending(a.row.score, b.row.score); }},
    {"latest version",
     [](const Contender& a, const Contender& b) {
       return compare_versions(b.row.version, a.row.version);
     }},
    {"first by name", [](const Contender& a,
                         const Contender& b) { return a.row.candidate.compare(b.row.candidate); }},
}};

bool comes_before(const Contender& a, const Contender& b) {
  for (const Criterion& criterion : kCriteria)
    if (const int order = criterion.compare(a, b); order != 0) return order < 0;
  return a.candidate->plugin_id < b.candidate->plugin_id;
}

// The criterion by which `winner` stands before `other`.
std::string advantage(const Contender& winner, const Contender& other) {
  for (const Criterion& criterion : kCriteria)
    if (criterion.compare(winner, other) != 0) return criterion.won;
  return "first by plugin id";
}

// What told the first of `accepted` from the others: "highest rank, then highest score".
std::string advantages(const std::vector<Contender*>& accepted) {
  std::vector<std::string>
      all;  // the others stand in the order of the walk: the first criterion last
  for (size_t i = accepted.size(); i-- > 1;)
    if (std::string one = advantage(*accepted[0], *accepted[i]); all.empty() || all.back() != one)
      all.push_back(std::move(one));
  return joined(all, ", then ");
}

// The plugin that counts as named under "fallback: error"; empty: none does.
std::string named_plugin(const std::vector<Contender>& contenders, const Policy& policy) {
  if (policy.fallback_next || !policy.pinned.empty()) return {};
  for (const Contender& contender : contenders)  // in order of preference
    if (contender.preference < policy.prefer.size() &&
        !out_of_question(*contender.candidate, policy))
      return contender.row.plugin;
  return {};
}

// Settles states and reasons of those that accept.
const Contender* settle(std::vector<Contender>& contenders, const Policy& policy) {
  std::vector<Contender*> accepted;
  for (Contender& contender : contenders)
    if (contender.row.state == Row::accepted) accepted.push_back(&contender);
  if (accepted.empty()) return nullptr;
  Contender& first = *accepted.front();
  const std::string named = named_plugin(contenders, policy);
  if (!named.empty() && first.row.plugin != named) {
    for (Contender* contender : accepted)
      contender->row.reason =
          "would serve, but '" + named + "' is preferred, refuses, and fallback is 'error'";
    return nullptr;
  }
  first.row.state = Row::chosen;
  if (!policy.pinned.empty())
    first.row.reason = "named";
  else if (accepted.size() == 1)
    first.row.reason = "the only one that accepts";
  else
    first.row.reason =
        advantages(accepted) + " among " + std::to_string(accepted.size()) + " that accept";
  for (size_t i = 1; i < accepted.size(); ++i)
    accepted[i]->row.reason =
        "behind '" + first.row.candidate + "': " + advantage(first, *accepted[i]);
  for (Contender* contender : accepted)
    if (const std::string how = words_of(contender->support); !how.empty())
      contender->row.reason += "; " + how;
  return &first;
}

const char* state_name(Row::State state) {
  switch (state) {
    case Row::chosen: return "chosen";
    case Row::accepted: return "accepts";
    case Row::refused: return "refuses";
    case Row::not_asked: return "not asked";
  }
  return "";
}

}  // namespace

std::optional<bool> lists_device(const Candidate& candidate, const std::string& kind) {
  const std::string* listed = capability(candidate, "device");
  if (listed == nullptr) return std::nullopt;
  return lists(*listed, kind);
}

Decision choose(const std::vector<const Candidate*>& candidates, const Policy& policy,
                const Ask& ask) {
  std::vector<Contender> contenders;
  std::vector<std::string> names;
  for (const Candidate* candidate : candidates) {
    contenders.push_back(consider(*candidate, policy, ask));
    names.push_back(candidate->name);
  }
  std::sort(contenders.begin(), contenders.end(), comes_before);
  std::sort(names.begin(), names.end());
  Decision decision;
  if (const Contender* winner = settle(contenders, policy)) {
    decision.chosen = winner->candidate;
    decision.support = winner->support;
  }
  if (!policy.pinned.empty() &&
      std::find(names.begin(), names.end(), policy.pinned) == names.end()) {
    Row row;
    row.candidate = policy.pinned;
    row.reason = "there is no candidate of this name";
    if (!names.empty()) row.reason += "; " + suggestion(policy.pinned, names);
    decision.rows.push_back(std::move(row));
  }
  for (Contender& contender : contenders) decision.rows.push_back(std::move(contender.row));
  return decision;
}

std::string decision_table(const Decision& decision) {
  if (decision.rows.empty()) return "no plugin has a candidate of this kind\n";
  using Cells = std::array<std::string, 6>;
  std::vector<Cells> lines = {{"candidate", "plugin", "rank", "score", "verdict", "reason"}};
  for (const Row& row : decision.rows)
    lines.push_back({row.candidate, row.plugin.empty() ? "-" : row.plugin + " " + row.version,
                     std::to_string(row.rank), std::to_string(row.score), state_name(row.state),
                     row.reason});
  std::array<size_t, 6> widths{};
  for (const Cells& cells : lines)
    for (size_t i = 0; i + 1 < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  std::string text;
  for (const Cells& cells : lines) {
    for (size_t i = 0; i + 1 < cells.size(); ++i) {
      const std::string gap(widths[i] - cells[i].size(), ' ');
      const bool number = i == 2 || i == 3;
      text += (number ? gap + cells[i] : cells[i] + gap) + "  ";
    }
    text += cells.back() + "\n";
  }
  return text;
}

}  // namespace moert::registry
