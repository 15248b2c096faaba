// Faults of shared experts: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "faulty.hpp"
#include "faulty_twins.hpp"

namespace moert::faulty {

const moert_shared_experts_t* shared;
moert_shared_experts_t own_shared;

namespace {

// Nothing else shows it: the same numbers come out.
moert_code_t waits_in_shared(void* self, const moert_shared_args_t* args, moert_error_t* e) {
  device->stream_synchronize(args->stream, nullptr);
  return shared->forward(self, args, e);
}

}  // namespace

bool spoil_shared(std::string_view fault) {
  if (fault == "records_other_bits")
    Twins<shared>::put(own_shared);
  else if (fault == "waits_in_shared")
    own_shared.forward = waits_in_shared;
  else
    return false;
  return true;
}

}  // namespace moert::faulty
