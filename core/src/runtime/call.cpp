// SPDX-License-Identifier: Apache-2.0
#include "runtime/call.hpp"

#include <cstring>

namespace moert::runtime {

const char* code_name(moert_code_t code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS"};
  const bool known = code >= 0 && static_cast<size_t>(code) < sizeof kNames / sizeof *kNames;
  return known ? kNames[code] : "INTERNAL";
}

Fault fault_of(moert_code_t code) {
  switch (code) {
    case MOERT_RESOURCE_EXHAUSTED:
    case MOERT_UNAVAILABLE: return Fault::device;
    case MOERT_DATA_LOSS: return Fault::input;
    default: return Fault::plugin;
  }
}

std::string Call::message() const {
  return std::string(error_.message, ::strnlen(error_.message, sizeof error_.message));
}

void Call::fail(moert_code_t code, const std::string& candidate, const char* action,
                const std::string& place) const {
  const std::string text = message();
  std::string problem = candidate + " failed in " + action + ": " +
                        (text.empty() ? "no message" : text) + " (" + code_name(code);
  if (error_.native_code != 0) problem += ", native code " + std::to_string(error_.native_code);
  const Fault fault = fault_of(code);
  const char* remedy = fault == Fault::device ? "free memory, or choose another device"
                       : fault == Fault::input
                           ? "the checkpoint contradicts what was declared: check the tensor named"
                           : "see `moert explain` for other candidates";
  const std::string where(error_.where, ::strnlen(error_.where, sizeof error_.where));
  throw Error(fault, problem + ")", place.empty() ? where : place, remedy);
}

}  // namespace moert::runtime
