// A runner of whole layers on the device of far_device.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "far_device.hpp"
#include "whole_runner.hpp"

namespace zoo {

template <class T>
class FarRunner : public WholeRunner {
 public:
  static Support supports(const Host&, const moert_moe_layer_t& layer) {
    if (layer.experts->device.kind != kFarKind) return Support::no("runs on far alone");
    return Support::yes(MOERT_SUPPORT_MONOLITHIC);
  }
  FarRunner(const Host&, const moert_moe_layer_t& layer, const moert_moe_parts_t* parts,
            const Options&)
      : WholeRunner(layer, parts) {}
  void forward(const moert_runner_args_t& args) override {
    const Rows rows = {inside_as<void>(args.out),
                       inside_as<int32_t>(args.ids),
                       inside_as<float>(args.weights),
                       inside_as<float>(args.margins),
                       inside_as<const int32_t>(args.forced_ids),
                       args.hidden->shape[0],
                       args.out->bytes};
    enqueue(args.stream, [this, rows] { compute(rows); });
  }
};

}  // namespace zoo
