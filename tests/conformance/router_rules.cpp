// router: verdicts, loading, wrong arguments, records of other sizes.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "kinds.hpp"
#include "on_device.hpp"
#include "router.hpp"

namespace moert::conformance {
namespace {

const RouterCase kPlain = {"rules", 8, 2};
const RouterCase kFull = {"rules_full", 8, 2, "sigmoid",
                          MOERT_ROUTING_SELECTION_BIAS | MOERT_ROUTING_GATE_BIAS};
// Not all routers can do these, so they are loaded apart.
const RouterCase kScaled = {"rules_scaled", 8, 2, "softmax",
                            MOERT_ROUTING_EXPERT_SCALE | MOERT_ROUTING_INPUT_NORM};
const RouterCase kHash = {.label = "rules_hash",
                          .e = 8,
                          .k = 2,
                          .flags = MOERT_ROUTING_NEEDS_TOKEN_IDS,
                          .method = "hash"};

int32_t verdict(const Feature& feature, const moert_routing_t& routing) {
  return router_support(feature, routing).verdict;
}

void accepts_something(const Feature& feature) {
  const Place place(feature.device);
  int accepted = 0;
  for (const RouterCase& c : router_cases())
    accepted += verdict(feature, routing_of(c, place.id()));
  EXPECT_GT(accepted, 0) << "every case of the suite is declined";
}

void must_decline(const Feature& feature, const char* what,
                  const std::function<void(moert_routing_t&)>& change) {
  const Place place(feature.device);
  moert_routing_t routing = routing_of(kPlain, place.id());
  if (verdict(feature, routing) == 0) throw Skip{"declines the plain case"};
  change(routing);
  EXPECT_EQ(verdict(feature, routing), 0) << what << " was accepted";
}

void declines(const Feature& feature) {
  must_decline(feature, "a flag that nobody knows", [](auto& r) { r.flags |= 1u << 31; });
  must_decline(feature, "a method that nobody knows", [](auto& r) { r.method = "no_such_method"; });
  must_decline(feature, "a scoring that nobody knows",
               [](auto& r) { r.scoring = "no_such_scoring"; });
  must_decline(feature, "a device that nobody knows",
               [](auto& r) { r.device = {MOERT_DEVICE_KIND('n', 'o', 'n', 'e'), 0}; });
  must_decline(feature, "more slots than experts", [](auto& r) { r.top_k = r.num_experts + 1; });
  must_decline(feature, "no slots", [](auto& r) { r.top_k = 0; });
  static constexpr moert_kv_t kParam = {"no_such_parameter", "1"};
  must_decline(feature, "a parameter that nobody knows", [](auto& r) {
    r.params = &kParam;
    r.n_params = 1;
  });
  const auto groups = [&](const char* what, int64_t n, int64_t top, const char* score) {
    must_decline(feature, what, [&](auto& r) {
      r.flags |= MOERT_ROUTING_GROUPED;
      r.num_groups = n;
      r.top_groups = top;
      r.group_score = score;
      r.top_k = 3;
    });
  };
  groups("groups that do not divide the experts", 3, 2, "max");
  groups("no groups", 0, 0, "max");
  groups("more top groups than groups", 4, 5, "max");
  groups("top groups with fewer experts than slots", 4, 1, "max");
  groups("a group score that nobody knows", 4, 2, "no_such_score");
  groups("no group score", 4, 2, nullptr);
}

void record_sizes(const Feature& feature) {
  struct {
    moert_routing_t record;
    unsigned char tail[64];
  } grown;
  const Place place(feature.device);
  std::memset(&grown, 0xff, sizeof grown);
  grown.record = routing_of(kPlain, place.id());
  const int32_t plain = verdict(feature, grown.record);
  grown.record.struct_size = sizeof grown;
  EXPECT_EQ(verdict(feature, grown.record), plain) << "a longer record";
  std::memset(&grown.record.params, 0xff, sizeof grown.record.params);
  grown.record.n_params = 0xffffffff;
  grown.record.struct_size = offsetof(moert_routing_t, params);
  EXPECT_EQ(verdict(feature, grown.record), plain) << "a shorter record";
}

void loading(const Feature& feature, const RouterCase& c) {
  RouterRig rig(feature, c, false);
  const auto finish = [&](auto* e) { return rig.table().finish(rig.self(), e); };
  for (const uint32_t which : rig.needed()) {
    must_fail("finish with a tensor missing", {MOERT_FAILED_PRECONDITION}, finish);
    must("load", [&](auto* e) { return rig.load(which, e); });
    must_fail("the same tensor again", {MOERT_ALREADY_EXISTS},
              [&](auto* e) { return rig.load(which, e); });
  }
  must("finish", finish);
  must_fail("finish again", {MOERT_FAILED_PRECONDITION}, finish);
  const std::vector<float> logits = clear_logits(c, rig.random(), 3, rig.tensors());
  const Decisions got = rig.route(logits);
  for (int64_t t = 0; t < 3; ++t)
    expect_decision(c, got, t, decide(c, rig.tensors(), &logits[static_cast<size_t>(t * c.e)]));
}

void wrong_tensors(const Feature& feature) {
  RouterRig rig(feature, kPlain, false);
  const Bytes bytes(4096, 0);
  const void* data = bytes.data();
  const std::initializer_list<moert_code_t> shape = {MOERT_DATA_LOSS, MOERT_INVALID_ARGUMENT};
  const std::initializer_list<moert_code_t> unused = {MOERT_INVALID_ARGUMENT, MOERT_UNIMPLEMENTED};
  const TensorView transposed(data, MOERT_DTYPE_F32, {RouterCase::h, 8});
  const TensorView fewer(data, MOERT_DTYPE_F32, {7, RouterCase::h});
  const TensorView integers(data, MOERT_DTYPE_I32, {8, RouterCase::h});
  for (const TensorView& view : {transposed, fewer, integers})
    must_fail("a misshapen gate", shape,
              [&](auto* e) { return rig.load(MOERT_ROUTER_GATE_WEIGHT, view, e); });
  const TensorView eight(data, MOERT_DTYPE_F32, {8});
  for (const uint32_t which :
       {MOERT_ROUTER_GATE_BIAS, MOERT_ROUTER_SELECTION_BIAS, MOERT_ROUTER_EXPERT_SCALE,
        MOERT_ROUTER_INPUT_SCALE, MOERT_ROUTER_TOKEN_TABLE})
    must_fail("a tensor that the rule does not use", unused,
              [&](auto* e) { return rig.load(which, eight, e); });
  must_fail("a tensor that nobody knows", unused, [&](auto* e) { return rig.load(77, eight, e); });
  must_fail("no tensor", {MOERT_INVALID_ARGUMENT},
            [&](auto* e) { return rig.load(MOERT_ROUTER_GATE_WEIGHT, nullptr, e); });
}

void wrong_scales(const Feature& feature) {
  RouterRig rig(feature, kScaled, false);
  const std::initializer_list<moert_code_t> shape = {MOERT_DATA_LOSS, MOERT_INVALID_ARGUMENT};
  std::vector<float> numbers(64, 1.0f);
  const TensorView seven(numbers.data(), MOERT_DTYPE_F32, {7});
  const TensorView eight(numbers.data(), MOERT_DTYPE_F32, {8});
  must_fail("an expert scale of too few", shape,
            [&](auto* e) { return rig.load(MOERT_ROUTER_EXPERT_SCALE, seven, e); });
  must_fail("an input scale of too few", shape,
            [&](auto* e) { return rig.load(MOERT_ROUTER_INPUT_SCALE, eight, e); });
  for (const float bad : {HUGE_VALF, std::nanf("")}) {
    numbers[5] = bad;
    must_fail("an expert scale that is no number", {MOERT_DATA_LOSS},
              [&](auto* e) { return rig.load(MOERT_ROUTER_EXPERT_SCALE, eight, e); });
  }
  rig.finish();  // what was refused was not loaded
}

void wrong_arguments(const Feature& feature) {
  using Args = RouterRig::Args;
  const std::initializer_list<moert_code_t> invalid = {MOERT_INVALID_ARGUMENT};
  RouterRig raw(feature, kPlain, false);
  raw.must_refuse("route before finish", {MOERT_FAILED_PRECONDITION}, [](Args&) {});
  RouterRig rig(feature, kPlain);
  Tensor three(rig.place(), MOERT_DTYPE_I32, {3, 2});
  Tensor five(rig.place(), MOERT_DTYPE_F32, {5, 2});
  Tensor narrow(rig.place(), MOERT_DTYPE_F32, {4, 7});
  rig.must_refuse("ids of fewer tokens", invalid, [&](Args& a) { a.record.ids = three.get(); });
  rig.must_refuse("weights of more tokens", invalid,
                  [&](Args& a) { a.record.weights = five.get(); });
  rig.must_refuse("logits of fewer experts", invalid,
                  [&](Args& a) { a.record.logits = narrow.get(); });
  rig.must_refuse("no logits", invalid, [](Args& a) { a.record.logits = nullptr; });
  rig.must_refuse("a flag that nobody knows", {MOERT_UNIMPLEMENTED},
                  [](Args& a) { a.record.flags = 1u << 31; });
  if (!rig.place().host_memory()) return;  // a kernel cannot report an id
  const std::vector<std::pair<const char*, std::vector<int32_t>>> forced = {
      {"a forced id twice", {1, 0, -1, -1, 5, 5, 0, 1}},
      {"a forced id that does not exist", {1, 0, -1, -1, 2, 8, 0, 1}},
      {"a forced row with half of it absent", {1, 0, -1, -1, 2, -1, 0, 1}}};
  for (const auto& [what, ids] : forced)
    rig.must_refuse(what, invalid, [&, row = &ids](Args& a) {
      a.forced.buffer().write(bytes_of(*row));
      a.record.forced_ids = a.forced.get();
    });
}

}  // namespace

void add_router_tests(const Feature& feature) {
  add_router_rows(feature);
  add_router_hand(feature);
  add_router_refusals(feature);
  add_router_same(feature);
  add_router_simulated(feature);
  add_router_tokens(feature);
  add_router_on_device(feature);
  add(feature, "AcceptsSomething", "", [=] { accepts_something(feature); });
  add(feature, "Declines", "", [=] { declines(feature); });
  add(feature, "RecordSizes", "", [=] { record_sizes(feature); });
  for (const RouterCase& c : {kFull, kScaled, kHash})
    add(feature, "Loading", c.label, [=] { loading(feature, c); });
  add(feature, "WrongTensors", "scales", [=] { wrong_scales(feature); });
  add(feature, "WrongTensors", "", [=] { wrong_tensors(feature); });
  add(feature, "WrongArguments", "", [=] { wrong_arguments(feature); });
}

}  // namespace moert::conformance
