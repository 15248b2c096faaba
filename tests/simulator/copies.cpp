// Asynchronous copies, which each lane has in a queue of its own.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "scheduler.hpp"

namespace moert::sim {

void copy16(void* to, const void* from, bool valid, Site at) {
  check_aligned(to, 16, at);
  if (valid) check_aligned(from, 16, at);
  const auto offset = static_cast<size_t>(static_cast<unsigned char*>(to) - current.shared);
  if (offset > current.shared_bytes || current.shared_bytes - offset < 16)
    die("copy16 to what is not the block's shared memory", at);
  Lane& lane = running(at).lane();
  lane.copies.push_back({to, from, valid, lane.groups});
}

void copy_commit(Site at) { ++running(at).lane().groups; }

void copy_wait(unsigned pending, Site at) {
  Lane& lane = running(at).lane();
  auto copy = lane.copies.begin();
  for (; copy != lane.copies.end() && copy->group + pending < lane.groups; ++copy) {
    if (copy->valid)
      std::memcpy(copy->to, copy->from, 16);
    else
      std::memset(copy->to, 0, 16);
  }
  lane.copies.erase(lane.copies.begin(), copy);
}

}  // namespace moert::sim
