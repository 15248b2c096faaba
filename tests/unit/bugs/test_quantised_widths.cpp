// Public bug reports about widths that kernels pad, I = 704 before all. cpu.ref pads nothing; what is tested
// is that every number has its place. Tests are named after the reports.
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <moert/abi/routed_experts.h>

#include "quantised_layer.hpp"

namespace moert::bugs {
namespace {

constexpr Sizes kWideSizes{.experts = 2, .top_k = 2, .hidden = 64, .intermediate = 704};

// A release of 704 columns, per expert or in one tensor for all.
struct Wide {
  Release release;
  std::vector<QuantisedExpert> experts;
  RowRule rows = as_it_is;
};

Wide wide(const std::string& format) {
  Wide made{Release(qwen3(kWideSizes)), {}};
  Json& config = made.release.config["quantization_config"];
  if (format == "fp8") config = fp8_config(128, 128);
  if (format == "fp8 of 64") config = fp8_config(64, 64);
  if (format == "mxfp4") config = {{"quant_method", "mxfp4"}};
  if (format == "nvfp4") config = {{"quant_method", "modelopt"}, {"quant_algo", "W4A16_NVFP4"}};
  if (format.starts_with("fp8")) made.rows = by_groups_of(format == "fp8" ? 128 : 64, false);
  const int64_t block = format == "fp8" ? 128 : 64;
  made.experts =
      put_experts(kWideSizes, 0, [&](const std::string& module, int64_t rows, int64_t cols) {
        if (format.starts_with("fp8")) return made.release.fp8(module, rows, cols, {block, block});
        const bool nv = format == "nvfp4";
        if (nv) made.release.put_number(module + ".weight_scale_2", {}, 0.25f);
        return made.release.fp4(module + ".weight", module + ".weight_scale", rows, cols,
                                nv ? MOERT_DTYPE_F8_E4M3FN : MOERT_DTYPE_U8, nv ? 0.25 : 1);
      });
  return made;
}

// The same numbers in the tensors of all experts: up begins where gate ends.
Wide stacked(const std::string& format) {
  Wide made = wide(format);
  const std::string to = "model.layers.0.mlp.experts.";
  for (const char* end : {"", "_scale_inv"}) {
    std::vector<std::string> pairs, downs;
    for (int64_t e = 0; e < kWideSizes.experts; ++e) {
      pairs.push_back(qwen3_expert(0, e) + "gate_proj.weight" + end);
      pairs.push_back(qwen3_expert(0, e) + "up_proj.weight" + end);
      downs.push_back(qwen3_expert(0, e) + "down_proj.weight" + end);
    }
    const int64_t by = *end == '\0' ? 1 : 64;
    join(made.release, pairs, to + "gate_up_proj" + end, {2, 2 * 704 / by, 64 / by});
    join(made.release, downs, to + "down_proj" + end, {2, 64 / by, 704 / by});
  }
  return made;
}

TEST(BugWidths, N42_EveryRowOfGateAndUpIsInItsPlace) {
  for (const char* format : {"fp8", "fp8 of 64", "mxfp4", "nvfp4"}) {
    SCOPED_TRACE(format);
    const Wide made = wide(format);
    const fs::path folder = made.release.save();
    for (const size_t e : {size_t{0}, size_t{1}}) {
      const std::string name = qwen3_expert(0, static_cast<int64_t>(e));
      expect_decoded(folder, name + "gate_proj.weight", MOERT_PART_GATE, made.experts[e].gate);
      expect_decoded(folder, name + "up_proj.weight", MOERT_PART_UP, made.experts[e].up);
      expect_decoded(folder, name + "down_proj.weight", MOERT_PART_DOWN, made.experts[e].down);
    }
    Loaded loaded(folder);
    expect_layer(loaded, made.experts, made.rows);
  }
}

TEST(BugWidths, N42_UpBeginsWhereGateEndsInOneTensor) {
  const Wide made = stacked("fp8 of 64");
  const fs::path folder = made.release.save();
  const std::string name = "model.layers.0.mlp.experts.";
  for (int64_t e = 0; e < 2; ++e) {
    const QuantisedExpert& expert = made.experts[static_cast<size_t>(e)];
    expect_decoded(folder, name + "gate_up_proj", MOERT_PART_GATE, expert.gate, e);
    expect_decoded(folder, name + "gate_up_proj", MOERT_PART_UP, expert.up, e);
    expect_decoded(folder, name + "down_proj", MOERT_PART_DOWN, expert.down, e);
  }
  Loaded loaded(folder);
  expect_layer(loaded, made.experts, made.rows);
}

// What kernels may pad to: gate alone and up alone, never both together.
TEST(BugWidths, N42_SizesAreRoundedForOneHalf) {
  struct Case {
    const char *candidate, *scheme;
    int64_t intermediate, rounded;
  };
  const Case cases[] = {{"quant.fp4", "nvfp4.g16.e4m3fn", 704, 704},
                        {"quant.fp4", "nvfp4.g16.e4m3fn", 705, 720},
                        {"quant.fp4", "mxfp4.g32.e8m0", 704, 704},
                        {"quant.fp4", "mxfp4.g32.e8m0", 720, 736},
                        {"quant.int4", "int4_packed.g128.bf16", 704, 768},
                        {"quant.int4", "int4_gptq.g32.f16", 704, 704},
                        {"quant.int4", "int4_packed.channel.bf16", 705, 712},
                        {"quant.fp8", "fp8_e4m3fn.block128x128.f32", 704, 704},
                        {"quant.int8", "int8.channel.f32", 703, 703}};
  for (const auto& [candidate, scheme, intermediate, rounded] : cases) {
    const runtime::Quant quant = quant_method(candidate, scheme);
    int64_t h = 2880, i = intermediate;
    moert_error_t error{};
    error.struct_size = sizeof error;
    ASSERT_EQ(quant->round_sizes(quant.self(), &h, &i, &error), MOERT_OK) << error.message;
    EXPECT_EQ(i, rounded) << scheme;
  }
}

// Padding that nobody had cleared gave a wrong token now and then.
TEST(BugWidths, N43_AHundredRunsInDirtyMemoryGiveTheSameBits) {
  const fs::path folder = stacked("fp8 of 64").release.save();
  const std::vector<float> rows = random_rows(4, 64, 5);
  std::vector<float> first;
  for (const int fill : {0xff, 0x5a}) {
    ::mallopt(M_PERTURB, fill);
    Loaded loaded(folder);
    for (int run = 0; run < 50; ++run) {
      const std::vector<float> out = loaded.forward(rows);
      if (first.empty()) first = out;
      ASSERT_EQ(out, first) << "run " << run << ", memory of " << fill;
    }
  }
  ::mallopt(M_PERTURB, 0);
}

// The experts of one rank of two, made by hand: ids that are its own, -1 for those that are not.
constexpr Sizes kOdd{.experts = 4, .top_k = 2, .hidden = 90, .intermediate = 70};
constexpr int64_t kTokens = 3;

std::vector<float> of_rank(const runtime::Model& model, int32_t rank, int32_t ranks,
                           const std::vector<float>& rows, const std::vector<int32_t>& ids,
                           const std::vector<float>& weights) {
  const int64_t local = kOdd.experts / ranks, first = rank * local;
  moert_moe_problem_t problem = model.choices()[0].problem->experts();
  problem.ep_rank = rank;
  problem.ep_size = ranks;
  problem.num_local_experts = local;
  problem.max_tokens = kTokens;
  problem.activation_dtype = problem.output_dtype = MOERT_DTYPE_F32;
  const auto* table = registry::table_of<moert_routed_experts_t>(
      *session().registry().find(MOERT_KIND_ROUTED_EXPERTS, "cpu.ref"));
  moert_error_t error{};
  error.struct_size = sizeof error;
  void* self = nullptr;
  EXPECT_EQ(table->create(session().host(), &problem, nullptr, 0, &self, &error), MOERT_OK)
      << error.message;
  std::vector<std::unique_ptr<WeightPiece>> pieces;  // outlive the experts
  for (const weights::Source& source : model.plan().layers[0].sources) {
    if (source.target != spec::Target::expert || source.expert / local != rank) continue;
    pieces.push_back(std::make_unique<WeightPiece>(model, 0, source));
    pieces.back()->piece().expert = source.expert - first;
    EXPECT_EQ(table->load(self, &pieces.back()->piece(), &error), MOERT_OK) << error.message;
  }
  EXPECT_EQ(table->finish(self, &error), MOERT_OK) << error.message;
  std::vector<int32_t> own;
  for (const int32_t id : ids)
    own.push_back(id / local == rank ? id - static_cast<int32_t>(first) : -1);
  // Guarded: the output is exactly H wide.
  std::vector<float> out(static_cast<size_t>(kTokens * kOdd.hidden) + 8, -77);
  const TensorView x(rows.data(), MOERT_DTYPE_F32, {kTokens, kOdd.hidden});
  const TensorView i(own.data(), MOERT_DTYPE_I32, {kTokens, kOdd.top_k});
  const TensorView w(weights.data(), MOERT_DTYPE_F32, {kTokens, kOdd.top_k});
  const TensorView y(out.data(), MOERT_DTYPE_F32, {kTokens, kOdd.hidden});
  uint64_t bytes = 0;
  EXPECT_EQ(table->workspace(self, kTokens, &bytes, &error), MOERT_OK);
  std::vector<std::byte> memory(bytes + 64, std::byte{0xff});
  void* aligned = memory.data();
  size_t space = memory.size();
  std::align(64, bytes, aligned, space);
  moert_experts_args_t args{};
  args.struct_size = sizeof args;
  args.hidden = x.get();
  args.ids = i.get();
  args.weights = w.get();
  args.out = y.get();
  args.workspace = aligned;
  args.workspace_bytes = bytes;
  EXPECT_EQ(table->forward(self, &args, &error), MOERT_OK) << error.message;
  table->destroy(self);
  EXPECT_EQ(std::vector<float>(out.end() - 8, out.end()), std::vector<float>(8, -77.0f));
  out.resize(out.size() - 8);
  return out;
}

// The result was allocated in the padded width.
TEST(BugWidths, N45_TwoRanksGiveTheWholeInTheModelsWidth) {
  Release release(qwen3(kOdd));
  release.config["quantization_config"] = {{"quant_method", "fp8"}};
  const std::vector<QuantisedExpert> experts =
      put_experts(kOdd, 0, [&](const std::string& module, int64_t rows, int64_t cols) {
        return release.fp8(module, rows, cols, {.rows = 1, .name = "weight_scale"});
      });
  const auto model = unloaded(release.save());
  const std::vector<float> rows = random_rows(kTokens, kOdd.hidden, 23);
  const std::vector<int32_t> ids = {0, 3, 2, 1, 1, 0};  // of both ranks, and of one
  const std::vector<float> weights = {0.75f, 0.25f, 0.5f, 0.5f, 0.875f, 0.125f};
  const std::vector<float> whole = of_rank(*model, 0, 1, rows, ids, weights);
  const std::vector<float> low = of_rank(*model, 0, 2, rows, ids, weights);
  const std::vector<float> high = of_rank(*model, 1, 2, rows, ids, weights);
  ASSERT_EQ(whole.size(), static_cast<size_t>(kTokens * kOdd.hidden));
  std::vector<double> sum;
  for (size_t i = 0; i < whole.size(); ++i)
    sum.push_back(static_cast<double>(low[i]) + static_cast<double>(high[i]));
  expect_rows(whole, sum, kOdd.hidden);
  for (size_t c = 2 * 90; c < 3 * 90; ++c) EXPECT_EQ(high[c], 0.0f) << "no expert of the token";
}

}  // namespace
}  // namespace moert::bugs
