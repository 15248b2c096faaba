// `moert bench experts`: one layer's experts, by candidate, weight format and number of tokens.
// SPDX-License-Identifier: Apache-2.0
#include <moert/error.hpp>

#include "bench_experts.hpp"
#include "commands.hpp"
#include "instructions.hpp"
#include "setup.hpp"

namespace moert::tool {

int cmd_bench_experts(const Options& options, Console& console) {
  const runtime::Session session(session_options(options, make_log(options), threads_of(options)));
  require_named_plugins(session);
  require_instructions(options, session);
  const runtime::Device device(session, device_of(options, "cpu"), {});
  const ExpertsRequest request = experts_request(session, device, options);
  const ExpertsResult result = measure_experts(session, device, request);
  print_experts(options, console, session, device, request, result);
  return result.points.empty() ? static_cast<int>(Fault::refused) : 0;
}

}  // namespace moert::tool
