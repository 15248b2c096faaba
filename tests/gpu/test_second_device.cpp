// Objects on a second device, called while the first one is current: their results are those of the first device, and
// that one is current still.
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "gpu/device.hpp"
#include "gpu/expert_rig.hpp"
#include "gpu/experts/experts.hpp"
#include "gpu/first_device.hpp"
#include "gpu/memory_rig.hpp"
#include "gpu/router/router.hpp"

namespace moert::gpu {
namespace {

class SecondDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 2) GTEST_SKIP() << "there is one device";
  }
  void TearDown() override { first_.expect_current(); }

 private:
  const FirstDevice first_;
};

TEST_F(SecondDevice, HasExperts) {
  const LayerCase c = {"", "bf16", "none"};
  const QuantObject quant(c.scheme, c.word);
  const LayerWeights weights(c, quant, 3);
  const LayerBatch batch(c, 9, 5);
  std::vector<float> of[2];
  for (const int32_t ordinal : {0, 1}) {
    Layer layer(c, RoutedExperts::Kind::table<GpuExperts>, &GpuDevice::kTable, kDeviceKind,
                ordinal);
    layer.load_all(weights, quant);
    layer.finish();
    of[ordinal] = layer.forward(batch);
  }
  EXPECT_EQ(std::memcmp(of[0].data(), of[1].data(), of[0].size() * sizeof(float)), 0);
}

TEST_F(SecondDevice, HasACapturer) {
  for (const int32_t ordinal : {0, 1}) {
    MemoryRig rig("block", ordinal);
    rig.step(0, 3);
    rig.step(3, 4);
    rig.step(7, 2, false);
    rig.drop(7);
    EXPECT_EQ(rig.read(), MemoryRig::all_present(7)) << ordinal;
  }
}

// What a device chooses for four rows.
struct Chosen {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  bool operator==(const Chosen&) const = default;
};
Chosen choose(int32_t ordinal) {
  constexpr int64_t kTokens = 4, kHidden = 8, kRouted = 6, kTop = 2;
  const moert_router_t& table = Router::Kind::table<GpuRouter>;
  const moert_device_id_t here = {kDeviceKind, ordinal};
  moert_routing_t routing{};
  routing.struct_size = sizeof routing;
  routing.device = here;
  routing.max_tokens = kTokens;
  routing.hidden_size = kHidden;
  routing.num_experts = kRouted;
  routing.top_k = kTop;
  routing.activation_dtype = MOERT_DTYPE_F32;
  routing.method = "topk";
  routing.scoring = "softmax";
  routing.routed_scale = 1;
  void* self = nullptr;
  must("create",
       [&](auto* e) { return table.create(&test_host(), &routing, nullptr, 0, &self, e); });
  std::vector<float> gate, rows;
  for (int i = 0; i < kRouted * kHidden; ++i) gate.push_back(static_cast<float>(i * 37 % 23) - 11);
  for (int i = 0; i < kTokens * kHidden; ++i)
    rows.push_back(static_cast<float>(i * 29 % 17) / 8 - 1);
  const TensorView gate_view(static_cast<const void*>(gate.data()), MOERT_DTYPE_F32,
                             {kRouted, kHidden});
  must("load", [&](auto* e) { return table.load(self, MOERT_ROUTER_GATE_WEIGHT, gate_view, e); });
  must("finish", [&](auto* e) { return table.finish(self, e); });

  // The arrays are on the current device, which is the first again while the router is called.
  std::optional<CurrentDevice> current(ordinal);
  const TestStream stream;
  DeviceArray<float> hidden, logits, weights;
  DeviceArray<int32_t> ids;
  hidden.assign(rows);
  logits.resize(kTokens * kRouted);
  weights.resize(kTokens * kTop);
  ids.resize(kTokens * kTop);
  current.reset();
  TensorView views[] = {{hidden.device(), MOERT_DTYPE_F32, {kTokens, kHidden}},
                        {logits.device(), MOERT_DTYPE_F32, {kTokens, kRouted}},
                        {weights.device(), MOERT_DTYPE_F32, {kTokens, kTop}},
                        {ids.device(), MOERT_DTYPE_I32, {kTokens, kTop}}};
  for (TensorView& view : views) view.set_device(here);
  const moert_stream_t at = {sizeof at, 0, here, stream.get()};
  moert_router_args_t args{};
  args.struct_size = sizeof args;
  args.stream = &at;
  args.hidden = views[0];
  args.logits = views[1];
  args.weights = views[2];
  args.ids = views[3];
  must("logits", [&](auto* e) { return table.logits(self, &args, e); });
  must("route", [&](auto* e) { return table.route(self, &args, e); });
  current.emplace(ordinal);
  synchronize(stream.get());
  Chosen chosen = {ids.download(), weights.download()};
  current.reset();
  table.destroy(self);
  return chosen;
}

TEST_F(SecondDevice, HasARouter) {
  const Chosen first = choose(0);
  EXPECT_NE(first.ids[0], first.ids[1]);
  EXPECT_EQ(choose(1), first);
}

}  // namespace
}  // namespace moert::gpu
