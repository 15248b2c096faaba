// cpu.ref of moert.router/1: logits in f64, the rule of routing.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

#include "scratch.hpp"

namespace moert::cpu {

Support RefRouter::supports(const Host&, const moert_routing_t& routing) {
  if (const std::string reason = refusal(routing); !reason.empty()) return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC);
  answer.persistent_bytes = static_cast<uint64_t>(routing.num_experts) *
                            static_cast<uint64_t>(routing.hidden_size) * sizeof(double);
  return answer;
}

uint64_t RefRouter::logits_workspace(int64_t tokens) const {
  return Scratch::bytes(host(), tokens, {hidden_size()});
}

void RefRouter::compute(const Matrix& hidden, const Matrix& out, void* workspace) const {
  const int64_t h = hidden_size();
  const Scratch scratch(workspace, {h});
  host().parallel_for(hidden.rows(), 1, [&](int64_t begin, int64_t end, int32_t worker) {
    double* x = scratch.of(worker);
    for (int64_t t = begin; t < end; ++t) {
      read_input(hidden, t, input_factor(hidden, t), 0, h, x);
      for (int64_t e = 0; e < experts(); ++e) {
        const double* gate = gate_.data() + e * h;
        double sum = 0;
        for (int64_t c = 0; c < h; ++c) sum += gate[c] * x[c];
        out.set(t, e, sum + gate_bias(e));
      }
    }
  });
}

}  // namespace moert::cpu
