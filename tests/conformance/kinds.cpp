// Which tests a kind of feature gets.
// SPDX-License-Identifier: Apache-2.0
#include "kinds.hpp"

#include <moert/abi/capturer.h>
#include <moert/abi/device.h>
#include <moert/abi/moe_runner.h>
#include <moert/abi/quant_method.h>
#include <moert/abi/routed_experts.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

namespace moert::conformance {

int add_tests(const Feature& feature) {
  const std::pair<const char*, void (*)(const Feature&)> kinds[] = {
      {MOERT_KIND_DEVICE, add_device_tests},      {MOERT_KIND_ROUTED_EXPERTS, add_experts_tests},
      {MOERT_KIND_ROUTER, add_router_tests},      {MOERT_KIND_SHARED_EXPERTS, add_shared_tests},
      {MOERT_KIND_QUANT_METHOD, add_quant_tests}, {MOERT_KIND_CAPTURER, add_capturer_tests},
      {MOERT_KIND_MOE_RUNNER, add_runner_tests}};
  for (const auto& [kind, add_kind] : kinds) {
    if (std::string_view(feature.record->kind) != kind) continue;
    add_kind(feature);
    return 1;
  }
  return 0;
}

}  // namespace moert::conformance
