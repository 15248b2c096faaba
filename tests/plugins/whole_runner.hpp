// A runner of whole layers whose choices are told by the row's number. Outputs are zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/moe_runner.hpp>

#include <cstring>

namespace zoo {

using namespace moert;

class WholeRunner : public MoERunnerInterface {
 public:
  WholeRunner(const moert_moe_layer_t& layer, const moert_moe_parts_t* parts)
      : problem_(*layer.experts) {
    if (parts != nullptr && parts->router != nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT, "routes inside");
  }
  void load_expert(const moert_piece_t&) override {}
  void load_router(uint32_t, const moert_tensor_t&) override {}
  void load_shared(const moert_piece_t&) override {}
  void load_layer(const moert_piece_t&) override {}
  void finish() override {}
  uint64_t workspace(int64_t) override { return 0; }
  int64_t layer_id() const override { return problem_.layer_id; }
  bool is_monolithic() const override { return true; }
  const char* activation() const override { return "silu"; }
  const char* quant_method() const override { return "f32"; }
  const char* expert_placement() const override { return "linear"; }
  bool has_shared_experts() const override { return false; }
  void set_expert_map(const moert_tensor_t&) override {}
  void expert_map(const moert_tensor_t&) const override {}
  void load_statistics(const moert_tensor_t&, bool) override {}

 protected:
  // Memory that the code may touch.
  struct Rows {
    void* out;
    int32_t* ids;
    float *weights, *margins;  // margins or NULL
    const int32_t* forced;     // or NULL
    int64_t tokens;
    uint64_t out_bytes;
  };
  // Row t goes to experts t, t + 1 ... (mod E), all with weight 1/k.
  void compute(const Rows& rows) const {
    const int64_t k = problem_.top_k;
    std::memset(rows.out, 0, rows.out_bytes);
    for (int64_t t = 0; t < rows.tokens && tells(t); ++t) {
      const bool forced = obeys() && rows.forced != nullptr && rows.forced[t * k] >= 0;
      for (int64_t j = 0; j < k; ++j) {
        rows.ids[t * k + j] =
            forced ? rows.forced[t * k + j] : static_cast<int32_t>((t + j) % problem_.num_experts);
        rows.weights[t * k + j] = 1.0f / static_cast<float>(k);
      }
      if (rows.margins != nullptr) rows.margins[t] = 1;
    }
  }
  virtual bool tells(int64_t /*row*/) const { return true; }
  virtual bool obeys() const { return true; }

 private:
  moert_moe_problem_t problem_;
};

}  // namespace zoo
