// Loads that may go through a cache which nobody keeps up to date: what they read stays as it is.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "scheduler.hpp"

namespace moert::sim {

void Engine::check_reads() {
  for (const Read& read : reads_)
    if (std::memcmp(read.from, read.bytes, read.size) != 0)
      die("a block writes memory that it reads by a load for what no kernel writes, " +
          text(read.at));
}

// Only memory that its reader's own block writes later is noticed: of every block, when it is done.
void note_read(const void* from, unsigned size, Site at) {
  if (active == nullptr) return;
  Read read = {from, size, at, {}};
  std::memcpy(read.bytes, from, size);
  active->keep(read);
}

}  // namespace moert::sim
