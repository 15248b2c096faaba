// SPDX-License-Identifier: Apache-2.0
#include "instructions.hpp"

#include <cstring>

#include <moert/abi/routed_experts.h>
#include <moert/error.hpp>
#include <moert/sdk/tensor.hpp>

#include "environment.hpp"
#include "runtime/ask.hpp"

namespace moert::tool {

void require_instructions(const Options& options, const runtime::Session& session) {
  const bool by_flag = !options.cpu_isa.empty();
  const auto* simd = session.registry().find(MOERT_KIND_ROUTED_EXPERTS, "cpu.simd");
  if (simd == nullptr || (!by_flag && variable("MOERT_CPU_ISA").empty())) return;
  moert_activation_t silu{};
  silu.struct_size = sizeof silu;
  silu.name = "silu";
  moert_moe_problem_t any{};
  any.struct_size = sizeof any;
  any.device = kCpu;
  any.max_tokens = any.hidden_size = any.intermediate_size = 1;
  any.num_experts = any.num_physical_experts = any.num_local_experts = any.top_k = 1;
  any.activation_dtype = any.output_dtype = MOERT_DTYPE_F32;
  any.weight_scheme = "f32";
  any.act_scheme = "none";
  any.activation = &silu;
  any.ep_size = any.tp_size = 1;
  const moert_support_t support = runtime::ask<moert_routed_experts_t>(session.host(), *simd, &any);
  if (support.verdict != 0) return;
  const std::string reason(support.reason, ::strnlen(support.reason, sizeof support.reason));
  const bool is_level = reason.find("expected one of") == std::string::npos;
  throw Error(is_level ? Fault::refused : Fault::usage, reason,
              by_flag ? "--cpu-isa, which sets MOERT_CPU_ISA" : "the environment",
              "leave it out to use the highest level of this machine");
}

}  // namespace moert::tool
