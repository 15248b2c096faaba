// Routed experts on the device against the oracle: formats and quantised rows that the conformance suite does not
// have, parts of large batches, graphs, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "gpu/device.hpp"
#include "gpu/expert_rig.hpp"
#include "gpu/experts/experts.hpp"
#include "gpu/experts/plan.hpp"
#include "gpu/experts/special.hpp"

namespace moert::gpu {
namespace {

const moert_routed_experts_t& here() { return RoutedExperts::Kind::table<GpuExperts>; }
const moert_device_t& device() { return GpuDevice::kTable; }

constexpr uint32_t kBf16 = MOERT_DTYPE_BF16, kF32 = MOERT_DTYPE_F32, kF16 = MOERT_DTYPE_F16;
constexpr uint32_t kOnInput = MOERT_PROBLEM_WEIGHT_ON_INPUT, kNonGated = MOERT_PROBLEM_NON_GATED;

const LayerCase kExpertCases[] = {
    {"bf16", "bf16", "none"},
    {"bf16_odd", "bf16", "none", kBf16, 0, 45, 33},
    {"bf16_on_input", "bf16", "none", kBf16, kOnInput},
    {"bf16_f16_rows", "bf16", "none", kF16, 0, 40, 24},
    {"f32", "f32", "none", kF32, 0, 40, 24, 3, 3, false, 1e-5},
    {"int8", "int8.channel.f32", "none", kF32, 0, 40, 24, 3, 3, false, 1e-5},
    {"int8_token", "int8.channel.f32", "token", kBf16, kNonGated, 40, 24},
    {"int8_static", "int8.channel.f32", "static"},
    {"fp8_block", "fp8_e4m3fn.block32x32.f32", "none"},
    {"fp8_token", "fp8_e4m3fn.channel.f32", "token"},
    {"fp8_token_on_input", "fp8_e4m3fn.channel.f32", "token", kBf16, kOnInput},
    {"fp8_static", "fp8_e4m3fn.tensor.f32", "static"},
    {"fp8_static_non_gated", "fp8_e4m3fn.tensor.f32", "static", kF32, kNonGated},
    {"fp8_group", "fp8_e4m3fn.block32x64.f32", "group32", kBf16, 0, 130, 70},
    {"fp8_group_odd", "fp8_e4m3fn.block32x64.f32", "group48", kBf16, 0, 64, 48},
    {"fp8_mx", "fp8_e4m3fn.block1x32.e8m0", "mxfp8", kF16},
    {"e5m2_token", "fp8_e5m2.tensor.f32", "token", kBf16, 0, 40, 24},
    {"mxfp4", "mxfp4.g32.e8m0", "none"},
    {"mxfp4_mx", "mxfp4.g32.e8m0", "mxfp8"},
    {"mxfp4_fp8", "mxfp4.g32.e8m0", "fp8"},
    {"nvfp4", "nvfp4.g16.e4m3fn", "nvfp4", kBf16, 0, 64, 48},
    {"nvfp4_divides", "nvfp4.g16.e4m3fn", "nvfp4", kBf16, 0, 64, 48, 3, 2, true},
};

struct Loaded {
  explicit Loaded(const LayerCase& c)
      : quant(c.scheme, c.word, c.divides),
        weights(c, quant, 11),
        layer(c, here(), &device(), kDeviceKind) {
    layer.load_all(weights, quant);
    layer.finish();
  }
  QuantObject quant;
  LayerWeights weights;
  Layer layer;
};

std::vector<float> oracle(const LayerCase& c, const LayerBatch& batch) {
  const auto* table =
      feature_table<moert_routed_experts_t>(MOERT_CPU_PLUGIN, MOERT_KIND_ROUTED_EXPERTS, "cpu.ref");
  EXPECT_NE(table, nullptr);
  const QuantObject quant(c.scheme, c.word, c.divides);
  const LayerWeights weights(c, quant, 11);
  Layer layer(c, *table, nullptr, MOERT_DEVICE_CPU);
  layer.load_all(weights, quant);
  layer.finish();
  return layer.forward(batch);
}

void expect_close(const LayerCase& c, const std::vector<float>& got,
                  const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t first = 0; first < got.size(); first += static_cast<size_t>(c.hidden)) {
    double difference = 0, norm = 0;
    for (size_t i = first; i < first + static_cast<size_t>(c.hidden); ++i) {
      const double x = want[i], d = got[i] - x;
      difference += d * d;
      norm += x * x;
    }
    EXPECT_TRUE(std::sqrt(difference) <= c.tolerance * std::sqrt(norm))
        << "row " << first / static_cast<size_t>(c.hidden) << ": off by " << std::sqrt(difference)
        << " of " << std::sqrt(norm);
  }
}

TEST(Experts, NumbersOfEveryFormat) {
  for (const LayerCase& c : kExpertCases) {
    SCOPED_TRACE(c.label);
    Loaded l(c);
    const LayerBatch batch(c, 11, 5);
    expect_close(c, l.layer.forward(batch), oracle(c, batch));
  }
}

// Enough rows for the kernels of blocks.
TEST(Experts, NumbersOfEveryKernelThatTheDeviceHas) {
  const LayerCase cases[] = {
      {"wgmma", "bf16", "none", kBf16, 0, 64, 96, 2, 2, false, 0.02, "wgmma"},
      {"wgmma_fp8", "fp8_e4m3fn.channel.f32", "token", kBf16, 0, 72, 48, 2, 2, false, 0.02,
       "wgmma"},
      {"native", "mxfp4.g32.e8m0", "mxfp8", kBf16, 0, 128, 96, 2, 2, false, 0.02, "native"}};
  for (const LayerCase& c : cases) {
    SCOPED_TRACE(c.label);
    if (!special_gemm_missing(gemm_kernel(c.gemm), device_facts(0)).empty()) continue;
    Loaded l(c);
    const LayerBatch batch(c, 90, 5);
    LayerCase plain = c;
    plain.gemm = nullptr;
    expect_close(c, l.layer.forward(batch), oracle(plain, batch));
  }
}

// Bits of a row do not depend on its batch: the batch is cut in another way than one row is.
TEST(Experts, LargeBatchesHaveTheBitsOfSingleRows) {
  for (const LayerCase& base :
       {kExpertCases[0], kExpertCases[2], kExpertCases[9], kExpertCases[11], kExpertCases[18]}) {
    LayerCase c = base;
    c.experts = 2;
    SCOPED_TRACE(c.label);
    Loaded l(c);
    const LayerBatch batch(c, 150, 5);
    const std::vector<float> all = l.layer.forward(batch);
    for (const int64_t t : {0, 77, 149}) {
      const std::vector<float> one = l.layer.forward(batch.row(c, t));
      EXPECT_EQ(std::memcmp(one.data(), all.data() + t * c.hidden, one.size() * 4), 0)
          << "row " << t;
    }
  }
}

// More slots than one plan sorts, so that the batch goes through in parts of 32 rows. Most slots have no expert.
TEST(Experts, BatchesOfSeveralPartsHaveTheBitsOfSingleRows) {
  LayerCase c = {"parts", "bf16", "none", kBf16, 0, 32, 32, 3, 4096};
  ASSERT_EQ(kMostSlots / c.top_k, 32);
  constexpr int64_t kTokens = 69;
  Loaded l(c);
  LayerBatch batch(c, kTokens, 5);
  for (size_t slot = 0; slot < batch.ids.size(); ++slot)
    if (slot % 1023 != 5) batch.ids[slot] = -1;
  const std::vector<float> all = l.layer.forward(batch);
  for (const int64_t t : {0, 31, 32, 33, 63, 64, 68}) {
    const std::vector<float> one = l.layer.forward(batch.row(c, t));
    EXPECT_EQ(std::memcmp(one.data(), all.data() + t * c.hidden, one.size() * 4), 0) << "row " << t;
    double sum = 0;
    for (const float x : one) sum += std::fabs(static_cast<double>(x));
    EXPECT_GT(sum, 0) << "row " << t << " has no experts, and shows nothing";
  }
  batch.ids[static_cast<size_t>(65 * c.top_k) + 7] = 3;
  l.layer.expects_fault = true;
  l.layer.forward(batch);
  EXPECT_NE(l.layer.fault.find("row 65 has 3"), std::string::npos) << l.layer.fault;
}

TEST(Experts, GraphsGiveTheSameBits) {
  for (const LayerCase& c : {kExpertCases[0], kExpertCases[11]}) {
    SCOPED_TRACE(c.label);
    Loaded l(c);
    EXPECT_NE(l.layer.support.flags & MOERT_SUPPORT_GRAPH_SAFE, 0u);
    const LayerBatch batch(c, 9, 5);
    const std::vector<float> want = l.layer.forward(batch), got = l.layer.forward_by_graph(batch);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0);
  }
}

TEST(Experts, WrongIdsCountAsAbsentAndTheNextSynchronisationSaysSo) {
  const LayerCase& c = kExpertCases[0];
  Loaded l(c);
  LayerBatch batch(c, 5, 5);
  batch.ids[3] = -1;
  const std::vector<float> want = l.layer.forward(batch);
  batch.ids[3] = 77;
  l.layer.expects_fault = true;
  const std::vector<float> got = l.layer.forward(batch);
  EXPECT_NE(l.layer.fault.find("row 1 has 77"), std::string::npos) << l.layer.fault;
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0);
  l.layer.expects_fault = false;
  batch.ids[3] = -1;
  l.layer.forward(batch);
}

// Expert 3's scales of rows move with its weights.
TEST(Experts, BundlesBringTheirInputScales) {
  for (const LayerCase& base : {kExpertCases[11], kExpertCases[20]}) {
    LayerCase c = base;
    c.flags |= MOERT_PROBLEM_BUNDLES;
    SCOPED_TRACE(c.label);
    Loaded l(c);
    LayerBatch batch(c, 4, 5);
    for (int32_t& id : batch.ids) id = 3;
    const std::vector<float> want = l.layer.forward(batch);
    uint64_t bytes = 0;
    void* bundle = nullptr;
    must("bundle_bytes", [&](auto* e) { return here().bundle_bytes(l.layer.self, &bytes, e); });
    must("alloc", [&](auto* e) { return device().alloc(0, bytes, &bundle, e); });
    must("read", [&](auto* e) {
      return here().read_expert(l.layer.self, 3, bundle, bytes, &l.layer.stream, e);
    });
    must("write", [&](auto* e) {
      return here().write_expert(l.layer.self, 1, bundle, bytes, &l.layer.stream, e);
    });
    for (int32_t& id : batch.ids) id = 1;
    const std::vector<float> got = l.layer.forward(batch);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0);
    device().free(0, bundle);
  }
}

struct Refused {
  const char* label;
  const char *word, *piece_word;  // of the layer, of the weight
  moert_code_t code;
  const char* text;
};
const Refused kRefused[] = {
    {"other_rule", "token", "group32", MOERT_UNIMPLEMENTED, "in another way"},
    {"unasked", "none", "token", MOERT_INVALID_ARGUMENT, "unlike its layer"},
    {"not_asking", "token", "none", MOERT_INVALID_ARGUMENT, "unlike its layer"},
};

TEST(Experts, RefusesWeightsThatWantRowsOtherwise) {
  for (const Refused& r : kRefused) {
    SCOPED_TRACE(r.label);
    LayerCase c = {"", "fp8_e4m3fn.channel.f32", r.word};
    LayerCase other = c;
    other.word = r.piece_word;
    const QuantObject quant(c.scheme, r.piece_word);
    const LayerWeights weights(other, quant, 3);
    Layer layer(c, here(), &device(), kDeviceKind);
    TestError error;
    EXPECT_EQ(layer.load(weights, quant, 0, MOERT_PART_UP, &error.record), r.code);
    EXPECT_NE(std::string(error.record.message).find(r.text), std::string::npos)
        << error.record.message;
  }
}

TEST(Experts, RefusesGateAndUpOfDifferentInputScales) {
  const LayerCase c = {"", "fp8_e4m3fn.tensor.f32", "static", kBf16, 0, 64, 64};
  const QuantObject quant(c.scheme, c.word);
  LayerWeights weights(c, quant, 3);
  // A down projection's scale is another one, and its shape is that of a gate here.
  std::swap(weights.weights[3], weights.weights[5]);
  Layer layer(c, here(), &device(), kDeviceKind);
  layer.load_all(weights, quant);
  TestError error;
  EXPECT_EQ(here().finish(layer.self, &error.record), MOERT_UNIMPLEMENTED);
  EXPECT_NE(std::string(error.record.message).find("expert 1: gate and up"), std::string::npos)
      << error.record.message;
}

}  // namespace
}  // namespace moert::gpu
