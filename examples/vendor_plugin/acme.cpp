// acme.experts: gated SiLU experts in f32 on the CPU, by plain loops. Copy this file and begin here.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <moert/abi/quant_method.h>
#include <moert/sdk/plugin.hpp>

namespace {

using moert::expect_tensor;
using moert::PluginError;
using moert::Support;

class AcmeExperts : public moert::RoutedExperts {
 public:
  static constexpr moert::FeatureInfo kFeature = {"acme.experts"};

  // The question before anything is created. Whatever forward ignores must be refused here.
  static Support supports(const moert::Host&, const moert_moe_problem_t& p) {
    if (p.device.kind != MOERT_DEVICE_CPU) return Support::no("runs on the device cpu only");
    if (p.flags != 0)
      return Support::no("problem flags " + std::to_string(p.flags) + ", supported are none");
    const moert_activation_t act = moert::intake(p.activation);
    if (std::string("silu") != act.name || act.flags != 0 || act.limit != 0)
      return Support::no(std::string("activation ") + act.name +
                         ", supported is silu without limit");
    if (std::string("none") != p.act_scheme)
      return Support::no(std::string("activations as ") + p.act_scheme + ", supported is none");
    for (const uint32_t dtype : {p.activation_dtype, p.output_dtype})
      if (dtype != MOERT_DTYPE_F32 && dtype != MOERT_DTYPE_BF16 && dtype != MOERT_DTYPE_F16)
        return Support::no("rows of another type than f32, bf16 or f16");
    return Support::yes(MOERT_SUPPORT_DETERMINISTIC);
  }

  // Reserves the memory for all weights; the problem's texts and pointers end with this call.
  AcmeExperts(const moert::Host& host, const moert_moe_problem_t& p, const moert::Options& options)
      : host_(host),
        problem_(p),
        loaded_(count(experts_ * 3)),
        weights_(host.alloc<float>(count(experts_ * 3 * part_size()), "acme.experts: weights")) {
    options.allow({});
  }

  // One projection of one expert, in the checkpoint's format: its quant method decodes it to f32.
  void load(const moert_piece_t& piece) override {
    moert::must_understand(piece.flags, 0, "moert_piece");
    if (piece.role != MOERT_ROLE_WEIGHT || piece.part > MOERT_PART_DOWN || piece.expert < 0 ||
        piece.expert >= experts_)
      throw PluginError(MOERT_INVALID_ARGUMENT, "a piece that this layer does not have");
    const uint64_t index = count(piece.expert * 3) + piece.part;
    if (loaded_[index]) throw PluginError(MOERT_ALREADY_EXISTS, "a piece that was loaded before");
    const bool down = piece.part == MOERT_PART_DOWN;  // [H, I]; gate and up are [I, H]
    const int64_t rows = down ? hidden_ : inner_, cols = down ? inner_ : hidden_;
    expect_tensor(piece.tensor, "weight", piece.tensor->dtype, {rows, cols});
    moert_error_t error{};
    error.struct_size = sizeof error;
    const moert_code_t code = piece.quant->decode(piece.quant_self, piece.tensor, 0, rows,
                                                  part(piece.expert, piece.part), cols, &error);
    if (code != MOERT_OK) throw PluginError(code, error.message);
    loaded_[index] = true;
  }

  void finish() override {
    if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
    for (uint64_t i = 0; i < loaded_.size(); ++i)
      if (!loaded_[i])
        throw PluginError(MOERT_FAILED_PRECONDITION, "expert " + std::to_string(i / 3) +
                                                         " has no part " + std::to_string(i % 3));
    finished_ = true;
  }

  // Per thread: the row, its sum, and what stands between the projections.
  uint64_t workspace(int64_t) override {
    return count(host_.num_threads() * (2 * hidden_ + inner_)) * sizeof(float);
  }

  void forward(const moert_experts_args_t& args) override {
    if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
    moert::must_understand(args.flags, 0, "moert_experts_args");
    if (args.lora != nullptr) throw PluginError(MOERT_UNIMPLEMENTED, "no adapters");
    const auto& x = expect_tensor(args.hidden, "hidden", problem_.activation_dtype, {-1, hidden_});
    const int64_t tokens = x.shape[0];
    const auto& out = expect_tensor(args.out, "out", problem_.output_dtype, {tokens, hidden_});
    const auto& ids = expect_tensor(args.ids, "ids", MOERT_DTYPE_I32, {tokens, top_k_});
    const auto& w = expect_tensor(args.weights, "weights", MOERT_DTYPE_F32, {tokens, top_k_});
    for (const auto* t : {&x, &out, &ids, &w}) {
      moert::must_understand(t->flags & 0xffff0000u, 0, "a tensor");
      moert::expect_contiguous_rows(*t, "a tensor");
    }
    if (args.workspace_bytes < workspace(tokens))
      throw PluginError(MOERT_INVALID_ARGUMENT, "the workspace is too small");
    for (int64_t t = 0; t < tokens; ++t)  // before anything is written
      for (int64_t j = 0; j < top_k_; ++j)
        if (const int32_t e = moert::row_of<const int32_t>(ids, t)[j]; e < -1 || e >= experts_)
          throw PluginError(MOERT_INVALID_ARGUMENT, "there is no expert " + std::to_string(e));

    host_.parallel_for(tokens, 1, [&](int64_t begin, int64_t end, int32_t worker) {
      float* row = static_cast<float*>(args.workspace) + worker * (2 * hidden_ + inner_);
      float* sum = row + hidden_;
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t h = 0; h < hidden_; ++h) row[h] = moert::read_f32(x, t * x.strides[0] + h);
        std::fill_n(sum, hidden_, 0.0f);
        for (int64_t j = 0; j < top_k_; ++j)  // in the order of slots
          add_expert(moert::row_of<const int32_t>(ids, t)[j], moert::row_of<const float>(w, t)[j],
                     row, sum + hidden_, sum);
        for (int64_t h = 0; h < hidden_; ++h) moert::write_f32(out, t * out.strides[0] + h, sum[h]);
      }
    });
  }

 private:
  static uint64_t count(int64_t n) { return static_cast<uint64_t>(n); }
  int64_t part_size() const { return hidden_ * inner_; }
  float* part(int64_t expert, int64_t which) {
    return weights_.get() + (expert * 3 + which) * part_size();
  }
  static float dot(const float* a, const float* b, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  // sum += weight * down(silu(gate(x)) * up(x)); expert -1 is a slot without an expert.
  void add_expert(int64_t expert, float weight, const float* x, float* inner, float* sum) {
    if (expert < 0) return;
    const float *gate = part(expert, MOERT_PART_GATE), *up = part(expert, MOERT_PART_UP);
    for (int64_t i = 0; i < inner_; ++i) {
      const float g = dot(gate + i * hidden_, x, hidden_);
      inner[i] = g / (1.0f + std::exp(-g)) * dot(up + i * hidden_, x, hidden_);
    }
    const float* down = part(expert, MOERT_PART_DOWN);
    for (int64_t h = 0; h < hidden_; ++h) sum[h] += weight * dot(down + h * inner_, inner, inner_);
  }

  moert::Host host_;
  moert_moe_problem_t problem_;  // numbers only: what its pointers led to has ended
  int64_t experts_ = problem_.num_local_experts, top_k_ = problem_.top_k;
  int64_t hidden_ = problem_.hidden_size, inner_ = problem_.intermediate_size;
  bool finished_ = false;
  std::vector<bool> loaded_;
  moert::Host::Array<float> weights_;  // [expert, part, rows, cols]
};

}  // namespace

MOERT_PLUGIN("com.acme.moert", "acme", "Acme", "1.0.0", AcmeExperts)
