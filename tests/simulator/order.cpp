// The seed, which is MOERT_SIM_SEED until somebody sets another.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "engine.hpp"

namespace moert::sim {
namespace {

uint64_t initial_seed() {
  const char* text = std::getenv("MOERT_SIM_SEED");
  if (text == nullptr || *text == '\0') return 1;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*end == '\0') return value;
  std::fprintf(stderr, "MoERT simulator: MOERT_SIM_SEED='%s' is not a number\n", text);
  std::abort();
}

uint64_t& seed_in_use() {
  static uint64_t value = initial_seed();
  return value;
}

}  // namespace

uint64_t seed() { return seed_in_use(); }
void set_seed(uint64_t value) { seed_in_use() = value; }

}  // namespace moert::sim
