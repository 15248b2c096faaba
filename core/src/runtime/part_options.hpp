// Options that a user gives to whoever serves a kind, on their way to its create.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <moert/abi/entry.h>

#include "runtime/call.hpp"

namespace moert::runtime {

struct PartOptions {
  std::map<std::string, std::string> values;
  std::string place;  // where they stand, for messages: "options.router: a (run.yaml:9:5)"

  // As the border takes them. Borrows the texts.
  std::vector<moert_kv_t> entries() const;
  // Of a create that was given these. What is wrong with options is the user's mistake, or a wish that cannot be
  // granted: throws Error(usage) or Error(refused) with `place`; what else failed, as Call::check. `asked` says for what
  // it was made.
  void check_create(const Call& call, moert_code_t code, const std::string& candidate,
                    const std::string& asked) const;
};

}  // namespace moert::runtime
