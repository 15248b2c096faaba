// What kernels found wrong in data that only the device sees: a word for each device, and its text.
// SPDX-License-Identifier: Apache-2.0
#include "faults.hpp"

#include <map>
#include <mutex>

#include "runtime.hpp"

namespace moert::gpu {
namespace {

struct Records {
  std::mutex mutex;
  std::map<int32_t, Fault*> of;
};
// Lives as long as the process: kernels may still write while it ends.
Records& records() {
  static auto* all = new Records;
  return *all;
}

std::string text_of(uint64_t word) {
  const auto value = static_cast<int32_t>(word & 0xffffffffu);
  const auto row = static_cast<int64_t>(word >> 32 & static_cast<uint64_t>(Fault::kMostRow));
  const std::string number = std::to_string(value);
  const std::string where = (row == Fault::kMostRow ? "a row from " : "row ") + std::to_string(row);
  switch (static_cast<FaultCode>(word >> 56)) {
    case FaultCode::none: return {};
    case FaultCode::expert_id:
      return "ids given to experts: " + where + " has " + number +
             ", which is neither -1 nor a local expert, and counted as -1; give local ids below "
             "num_local_experts";
    case FaultCode::forced_id:
      return "ids forced on a router: " + where + " has " + number +
             ", which is no expert, so that the row got none; give ids below num_experts";
    case FaultCode::forced_repeat:
      return "ids forced on a router: " + where + " has " + number +
             " twice, so that the row got no experts; give k different ids";
    case FaultCode::token_id:
      return "token ids given to a router: " + where + " has " + number +
             ", which its table does not have, so that the row got no experts; give -1 or ids "
             "below the "
             "table's length";
    case FaultCode::captured_id:
      return "ids given to a capturer: " + where + " has " + number +
             ", which is no expert, so that the row was kept without decisions";
  }
  return "a fault that nobody knows, " + std::to_string(word);
}

}  // namespace

Fault* fault_record(int32_t ordinal) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  Fault*& record = all.of[ordinal];
  if (record == nullptr) {
    const CurrentDevice current(ordinal);
    auto* memory = static_cast<Fault*>(allocate_host(sizeof(Fault)));
    memory->word = 0;
    record = memory;
  }
  return record;
}

std::string take_fault(int32_t ordinal) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  const auto found = all.of.find(ordinal);
  if (found == all.of.end() || found->second == nullptr) return {};
  return text_of(__atomic_exchange_n(&found->second->word, uint64_t{0}, __ATOMIC_ACQ_REL));
}

}  // namespace moert::gpu
