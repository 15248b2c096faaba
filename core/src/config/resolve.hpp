// From a config.json and a family to a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/lookup.hpp"
#include "spec/model.hpp"

namespace moert::config {

// Fills everything but name, family and checkpoint. What the family cannot run is no error: it goes to
// model.unsupported. Throws Error(usage).
void resolve_layers(spec::Model& model, const Family& family, const std::vector<Scope>& scopes,
                    const std::string& place);

// A model without experts: sizes as far as the config gives them under `family`'s spellings.
void resolve_dense(spec::Model& model, const Family& family, const std::vector<Scope>& scopes,
                   const std::string& place);

// Does the config say itself that it has no experts?
bool says_dense(const Family& family, const std::vector<Scope>& scopes, const std::string& place);

}  // namespace moert::config
