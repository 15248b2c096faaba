// Hands the tensors of one layer to its runner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fused_moe.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {

// Whether those who were chosen take experts from several threads, each from one. Somebody accepted each kind.
bool loads_concurrently(const LayerChoice& choice);

// Borrows everything but the quant methods, which it makes and gives away at the end.
class LayerLoader {
 public:
  // Makes the quant methods that were chosen for the layer.
  LayerLoader(const Session& session, const weights::Checkpoint& checkpoint,
              const weights::Plan& plan, const LayerChoice& choice, const Runner& runner);

  // Throws Error(input) that names the tensor. Several threads at once as far as the candidates allow.
  void load(const weights::Source& source) const;
  // They must outlive the runner.
  std::vector<Quant> take_quants();

 private:
  void load_router(const weights::Source& source) const;
  void load_plain(const weights::Source& source) const;
  void load_weight(const weights::Source& source) const;
  void hand_over(const weights::Source& source, const TensorView& view, const Quant* quant) const;

  const weights::Checkpoint& checkpoint_;
  const weights::Plan& plan_;
  const Runner& runner_;
  std::map<std::pair<spec::Target, uint32_t>, Quant> quants_;  // by target and format
};

}  // namespace moert::runtime
