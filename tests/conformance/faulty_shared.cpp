// Faults of shared experts: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "faulty.hpp"
#include "faulty_twins.hpp"

namespace moert::faulty {

const moert_shared_experts_t* shared;
moert_shared_experts_t own_shared;

bool spoil_shared(std::string_view fault) {
  if (fault != "records_other_bits") return false;
  Twins<shared>::put(own_shared);
  return true;
}

}  // namespace moert::faulty
