// SPDX-License-Identifier: Apache-2.0
#include "runtime/part_options.hpp"

#include <moert/error.hpp>

namespace moert::runtime {

std::vector<moert_kv_t> PartOptions::entries() const {
  std::vector<moert_kv_t> entries;
  for (const auto& [key, value] : values) entries.push_back({key.c_str(), value.c_str()});
  return entries;
}

void PartOptions::check_create(const Call& call, moert_code_t code, const std::string& candidate,
                               const std::string& asked) const {
  const bool wrong = code == MOERT_INVALID_ARGUMENT, refused = code == MOERT_UNIMPLEMENTED;
  if (values.empty() || !(wrong || refused)) return call.check(code, candidate, "create", asked);
  const std::string text = call.message();
  throw Error(wrong ? Fault::usage : Fault::refused,
              candidate + " takes no such options for " + asked + ": " +
                  (text.empty() ? "no message" : text) + " (" + code_name(code) + ")",
              place, "the README of the candidate's plugin has its options");
}

}  // namespace moert::runtime
