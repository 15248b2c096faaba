// Kinds, candidates, refusals, the choice. Knows neither files nor YAML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
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
  // Error(plugin) after freeze.
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

// Does a candidate's capability "device" list this kind ("cuda, hip"; "any" lists all)? nullopt: it has no such
// capability.
std::optional<bool> lists_device(const Candidate& candidate, const std::string& kind);

// What the user wants for one kind.
//
// A pin is an order: only that candidate is asked, and its refusal is the end. `prefer` is an order of
// plugins; what a refusal means is then up to `fallback_next`. False: the first plugin of `prefer` that
// has candidates of this kind for the device counts as named, so if all of them refuse nobody is
// chosen. True: the walk goes on, to the next plugin and at last to those that `prefer` does not list.
// Without a pin and without `prefer` nothing was named, and the best of all that accept is chosen.
struct Policy {
  std::string pinned;               // a candidate's name; empty: automatic
  std::vector<std::string> prefer;  // plugins' short names, best first; those not named come last
  bool fallback_next = false;       // may a preferred plugin's refusal be passed over?
  // Kind name of the layer's device ("cpu", "cuda"); empty: no matter. Candidates whose capability
  // "device" lists others ("cuda, hip"; "any" fits all) are refused without being asked.
  std::string device;
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

// Asks a candidate. An error is a refusal whose reason is the error's text.
using Ask = std::function<moert_support_t(const Candidate&)>;

// Total, deterministic order, whatever the order of `candidates`: pinned > preference > rank > score >
// version (by its numbers) > name. All that could serve are asked, so that the table can say how each
// stands. Candidates with MOERT_FEATURE_PIN_ONLY take part only when pinned. A pin that no candidate
// bears gives a row that says which name is nearest. Does not throw: the caller makes the error.
Decision choose(const std::vector<const Candidate*>& candidates, const Policy& policy,
                const Ask& ask);

// The decision as text, one row a line, for `explain` and for errors.
std::string decision_table(const Decision& decision);

}  // namespace moert::registry
