// A stored weight as the record that plugins are handed with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <moert/abi/quant_method.h>
#include <moert/sdk/tensor.hpp>

#include "weights/plan.hpp"

namespace moert::runtime {

// The place of a companion in the record.
inline const moert_tensor_t*& companion_of(moert_quant_view_t& view, uint32_t param) {
  switch (param) {
    case MOERT_PARAM_SCALE2: return view.scale2;
    case MOERT_PARAM_ZERO_POINT: return view.zero_point;
    case MOERT_PARAM_GROUP_INDEX: return view.group_index;
    case MOERT_PARAM_INPUT_SCALE: return view.input_scale;
    default: return view.scale;
  }
}

// With the views that it points to; immovable. Borrows the format.
struct QuantRecord {
  std::vector<TensorView> views;
  moert_quant_view_t view{};

  QuantRecord(const weights::Checkpoint& checkpoint, const weights::Source& source,
              const weights::Format& format) {
    view.struct_size = sizeof view;
    view.scheme = format.scheme.name.c_str();
    view.layout = "canonical";
    for (const auto& [key, value] : format.scheme.options)
      if (key == "activations") view.flags |= MOERT_QUANT_ROWS;
    views.reserve(source.companions.size());
    for (const weights::Companion& companion : source.companions) {
      views.push_back(weights::companion_view(checkpoint, source, format, companion));
      companion_of(view, companion.param) = views.back().get();
    }
  }
  QuantRecord(const QuantRecord&) = delete;
  QuantRecord& operator=(const QuantRecord&) = delete;
};

}  // namespace moert::runtime
