// Kinds, candidates, refusals, the choice. Knows neither files nor YAML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <moert/abi/entry.h>
#include <moert/abi/problem.h>

namespace moert::registry {

// One implementation of one kind. `table` is a full-size copy in which absent optional entries are
// stubs that answer MOERT_UNIMPLEMENTED, so callers never test for NULL.
struct Candidate {
  std::string kind, name;
  std::string plugin_id, plugin_name, plugin_version;
  std::string origin;  // the plugin's file, or "core"
  int32_t rank = 0;    // as declared, clamped for third parties
  uint32_t flags = 0;  // MOERT_FEATURE_*
  std::vector<std::pair<std::string, std::string>> caps;
  std::shared_ptr<const void> table;
};

// Why a feature was not taken, e.g. an unknown kind or a duplicate name.
struct Rejection {
  std::string plugin_id, kind, name, reason;
};

class Registry {
 public:
  // All features of a plugin, or none: throws Error(plugin) if one breaks a rule (NULL required entry,
  // bad name, short table). Unknown kinds and duplicates are rejections, not errors.
  void add(const moert_plugin_t& plugin, const std::string& origin, bool third_party);
  // No add afterwards. Reading is then safe from any thread.
  void freeze();

  std::vector<const Candidate*> candidates(const std::string& kind) const;  // by name
  const Candidate* find(const std::string& kind, const std::string& name) const;
  const std::vector<Rejection>& rejections() const { return rejections_; }

 private:
  std::vector<std::unique_ptr<Candidate>> candidates_;
  std::vector<Rejection> rejections_;
  bool frozen_ = false;
};

// The table of a candidate as its kind's struct.
template <class Table>
const Table* table_of(const Candidate& candidate) {
  return static_cast<const Table*>(candidate.table.get());
}

// What the user wants for one kind.
struct Policy {
  std::string pinned;               // a candidate's name; empty: automatic
  std::vector<std::string> prefer;  // plugins' short names, best first; those not named come last
  bool fallback_next = false;       // may a preferred plugin's refusal be passed over?
};

// One line of the decision table, in order of the walk.
struct Row {
  std::string candidate, plugin, version;
  int32_t rank = 0, score = 0;
  uint32_t support_flags = 0;
  enum State { chosen, accepted, refused, not_asked } state = refused;
  std::string reason;  // why not, or why it won
};

struct Decision {
  const Candidate* chosen = nullptr;  // nullptr: nobody accepts
  moert_support_t support{};          // of the chosen
  std::vector<Row> rows;              // every candidate of the kind
};

// Asks a candidate: fills support, or returns an error text as a refusal.
using Ask = std::function<moert_support_t(const Candidate&)>;

// Total, deterministic order: pinned > preference > rank > score > version > name. Candidates with
// MOERT_FEATURE_PIN_ONLY take part only when pinned. Does not throw: the caller makes the error.
Decision choose(const std::vector<const Candidate*>& candidates, const Policy& policy, const Ask& ask);

// The decision as text, one row a line, for `explain` and for errors.
std::string decision_table(const Decision& decision);

}  // namespace moert::registry
