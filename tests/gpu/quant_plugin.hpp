// The quant methods that come along, as the authority for what remains of quantised rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>

#include <moert/sdk/tensor.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plugin_feature.hpp"

namespace moert::gpu {

// One scheme with its options.
class QuantObject {
 public:
  QuantObject(const char* scheme, const char* activations, bool divides = false) {
    for (const char* name :
         {"quant.f32", "quant.bf16", "quant.f16", "quant.fp8", "quant.fp4", "quant.int8"}) {
      const auto* table =
          feature_table<moert_quant_method_t>(MOERT_QUANT_PLUGIN, MOERT_KIND_QUANT_METHOD, name);
      moert_support_t support{};
      support.struct_size = sizeof support;
      if (table == nullptr ||
          table->supports(&test_host(), scheme, &support, nullptr) != MOERT_OK ||
          support.verdict == 0)
        continue;
      table_ = table;
      break;
    }
    std::vector<moert_kv_t> options;
    if (std::string_view(activations) != "none") options.push_back({"activations", activations});
    if (divides) options.push_back({"global", "divide"});
    if (table_ == nullptr) {
      ADD_FAILURE() << "no quant method for " << scheme;
      return;
    }
    must(scheme, [&](auto* e) {
      return table_->create(&test_host(), scheme, options.data(),
                            static_cast<uint32_t>(options.size()), &self_, e);
    });
  }
  ~QuantObject() {
    if (self_ != nullptr) table_->destroy(self_);
  }
  QuantObject(const QuantObject&) = delete;
  QuantObject& operator=(const QuantObject&) = delete;

  const moert_quant_method_t& table() const { return *table_; }
  void* self() const { return self_; }

  // Rows of `cols` numbers, one behind the other, in place.
  void quantise(std::vector<float>& rows, int64_t cols, std::optional<float> input_scale) const {
    const float scale = input_scale.value_or(1.0f);
    const TensorView view(static_cast<const void*>(&scale), MOERT_DTYPE_F32, {});
    must("quantize_activations", [&](auto* e) {
      return table_->quantize_activations(self_, rows.data(),
                                          static_cast<int64_t>(rows.size()) / cols, cols,
                                          input_scale ? view.get() : nullptr, e);
    });
  }

 private:
  const moert_quant_method_t* table_ = nullptr;
  void* self_ = nullptr;
};

}  // namespace moert::gpu
