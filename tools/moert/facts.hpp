// Values of a model and of a run, each with where it came from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "console.hpp"
#include "json.hpp"
#include "spec/model.hpp"
#include "spec/run.hpp"

namespace moert::tool {

struct Fact {
  std::string name, value, origin;
};

// Quantities of the MoE layers; where layers differ, the value names them: "64 (layers 0-3), 32 (4)".
std::vector<Fact> model_facts(const spec::Model& model);
std::vector<Fact> run_facts(const spec::Run& run);

void print_facts(Console& console, const std::string& title, const std::vector<Fact>& facts);
Json facts_json(const std::vector<Fact>& facts);

}  // namespace moert::tool
