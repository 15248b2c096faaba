// The question "can you serve this?" to one candidate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <moert/abi/problem.h>
#include <moert/sdk/error.hpp>

#include "registry/registry.hpp"
#include "runtime/call.hpp"

namespace moert::runtime {

inline moert_support_t refusal(const std::string& reason) {
  moert_support_t support{};
  support.struct_size = sizeof support;
  detail::copy_text(support.reason, sizeof support.reason, reason);
  return support;
}

// An error of the question itself counts as a refusal with that text. So does the wish for a layout in
// which no loader here can hand weights over.
template <class Table, class Spec>
moert_support_t ask(const moert_host_t* host, const registry::Candidate& candidate,
                    const Spec* spec) {
  moert_support_t support = refusal("");
  Call call;
  const moert_code_t code =
      registry::table_of<Table>(candidate)->supports(host, spec, &support, call.out());
  if (code != MOERT_OK) return refusal(std::string(code_name(code)) + ": " + call.message());
  support.layout[sizeof support.layout - 1] = '\0';
  const std::string layout = support.layout;
  if (support.verdict != 0 && !layout.empty() && layout != "canonical")
    return refusal("wants weights in the layout '" + layout + "', only 'canonical' is given");
  return support;
}

}  // namespace moert::runtime
