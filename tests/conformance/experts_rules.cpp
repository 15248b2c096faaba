// routed_experts: verdicts, flags that must be understood, records of other sizes, wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "experts.hpp"
#include "kinds.hpp"
#include "on_device.hpp"

namespace moert::conformance {
namespace {

const ExpertsCase kCase = {33, 17, 6, 3};

moert_support_t ask(const Feature& feature, const moert_moe_problem_t& problem) {
  TestHost host(settings().seed);
  moert_support_t support{};
  support.struct_size = sizeof support;
  must("supports", [&](auto* e) {
    return feature.table<moert_routed_experts_t>().supports(host.table(), &problem, &support, e);
  });
  EXPECT_NE(std::memchr(support.reason, 0, sizeof support.reason), nullptr);
  if (support.verdict == 0) {
    EXPECT_NE(support.reason[0], '\0') << "a verdict of no without a reason";
  }
  return support;
}

// A plugin that declines everything would pass the rest.
void accepts_something(const Feature& feature) {
  int accepted = 0;
  const Place place(feature.device);
  for (const auto& cases : {experts_shapes(), experts_variants()})
    for (const ExpertsCase& c : cases)
      accepted += ask(feature, Problem(c, place.id()).record).verdict;
  EXPECT_GT(accepted, 0) << "every case of the suite is declined";
}

void must_decline(const Feature& feature, const char* what,
                  const std::function<void(Problem&)>& change) {
  const Place place(feature.device);
  Problem problem(kCase, place.id());
  if (ask(feature, problem.record).verdict == 0) throw Skip{"declines the plain case"};
  change(problem);
  EXPECT_EQ(ask(feature, problem.record).verdict, 0) << what << " was accepted";
}

void declines(const Feature& feature) {
  must_decline(feature, "a problem flag that nobody knows",
               [](Problem& p) { p.record.flags |= 1u << 31; });
  must_decline(feature, "an activation flag that nobody knows",
               [](Problem& p) { p.activation.flags |= 1u << 31; });
  must_decline(feature, "an activation that nobody knows",
               [](Problem& p) { p.activation.name = "no_such_activation"; });
  must_decline(feature, "a device that nobody knows",
               [](Problem& p) { p.record.device = {MOERT_DEVICE_KIND('n', 'o', 'n', 'e'), 0}; });
  must_decline(feature, "rows of an integer type",
               [](Problem& p) { p.record.activation_dtype = MOERT_DTYPE_I32; });
}

// A host of another minor: its record may be longer (the rest is not for us) or end before fields
// that are then zero. What lies behind is poison either way.
void record_sizes(const Feature& feature) {
  struct {
    moert_moe_problem_t record;
    unsigned char tail[64];
  } grown;
  const Place place(feature.device);
  const Problem problem(kCase, place.id());
  const int32_t verdict = ask(feature, problem.record).verdict;
  std::memset(&grown, 0xff, sizeof grown);
  grown.record = problem.record;
  grown.record.struct_size = sizeof grown;
  EXPECT_EQ(ask(feature, grown.record).verdict, verdict) << "a longer record";
  std::memset(&grown.record.lora_max_rank, 0xff, sizeof grown.record.lora_max_rank);
  std::memset(&grown.record.lora_slots, 0xff, sizeof grown.record.lora_slots);
  grown.record.struct_size = offsetof(moert_moe_problem_t, lora_max_rank);
  EXPECT_EQ(ask(feature, grown.record).verdict, verdict) << "a shorter record";
}

void longer_arguments(const Feature& feature) {
  Random random(kCase.name());
  ExpertsRig rig(feature, kCase);
  const std::vector<Mlp> experts = make_experts(kCase, random);
  rig.load_all(experts);
  rig.finish();
  const Batch batch = make_batch(kCase, random, 5);
  ExpertsRig::Args args(rig, batch);
  struct {
    moert_experts_args_t record;
    unsigned char tail[64];
  } grown;
  std::memset(&grown, 0xff, sizeof grown);
  grown.record = args.record;
  grown.record.struct_size = sizeof grown;
  must("forward with a longer record",
       [&](auto* e) { return rig.table().forward(rig.self(), &grown.record, e); });
  expect_experts(kCase, experts, batch, args.out.read());
  args.out.buffer().expect_guards("out");
}

void workspace_grows(const Feature& feature) {
  ExpertsRig rig(feature, kCase);
  uint64_t last = 0;
  for (int64_t tokens = 0; tokens <= ExpertsRig::kMaxTokens; ++tokens) {
    uint64_t bytes = 0;
    must("workspace",
         [&](auto* e) { return rig.table().workspace(rig.self(), tokens, &bytes, e); });
    EXPECT_GE(bytes, last) << "the workspace shrinks at " << tokens << " tokens";
    last = bytes;
  }
}

void wrong_arguments(const Feature& feature) {
  using Args = ExpertsRig::Args;
  Random random(kCase.name());
  ExpertsRig rig(feature, kCase);
  rig.load_all(make_experts(kCase, random));
  rig.finish();
  const Batch batch = make_batch(kCase, random, 5);
  const std::initializer_list<moert_code_t> invalid = {MOERT_INVALID_ARGUMENT};
  Tensor four_ids(rig.place(), MOERT_DTYPE_I32, {4, kCase.k});
  Tensor two_slots(rig.place(), MOERT_DTYPE_I32, {5, 2});
  Tensor six_weights(rig.place(), MOERT_DTYPE_F32, {6, kCase.k});
  Tensor wide_ids(rig.place(), MOERT_DTYPE_I64, {5, kCase.k});
  Tensor narrow(rig.place(), MOERT_DTYPE_F32, {5, kCase.h - 1});
  Tensor half(rig.place(), MOERT_DTYPE_BF16, {5, kCase.h});
  rig.must_refuse(batch, "ids of fewer tokens", invalid,
                  [&](Args& a) { a.record.ids = four_ids.get(); });
  rig.must_refuse(batch, "ids with another k", invalid,
                  [&](Args& a) { a.record.ids = two_slots.get(); });
  rig.must_refuse(batch, "weights of more tokens", invalid,
                  [&](Args& a) { a.record.weights = six_weights.get(); });
  rig.must_refuse(batch, "64-bit ids", invalid, [&](Args& a) { a.record.ids = wide_ids.get(); });
  rig.must_refuse(batch, "narrower rows", invalid,
                  [&](Args& a) { a.record.hidden = narrow.get(); });
  rig.must_refuse(batch, "rows of another type", invalid,
                  [&](Args& a) { a.record.hidden = half.get(); });
  rig.must_refuse(batch, "no ids", invalid, [](Args& a) { a.record.ids = nullptr; });
  rig.must_refuse(batch, "a flag that nobody knows", {MOERT_UNIMPLEMENTED},
                  [](Args& a) { a.record.flags = 1u << 31; });
  rig.must_refuse(batch, "a tensor flag that nobody knows", {MOERT_UNIMPLEMENTED}, [](Args& a) {
    TensorView flagged(a.hidden.buffer().data(), MOERT_DTYPE_F32, {5, kCase.h}, 1u << 31);
    flagged.set_device(a.hidden.get()->device);
    a.hidden.view() = flagged;
  });
  if (!rig.place().host_memory()) return;  // a kernel cannot report an id
  for (const int32_t id : {-2, static_cast<int32_t>(kCase.e), INT32_MAX, INT32_MIN})
    rig.must_refuse(batch, "an id outside the layer", invalid, [&](Args& a) {
      std::vector<int32_t> ids = batch.ids;
      ids.back() = id;
      a.ids.buffer().write(bytes_of(ids));
    });
}

void null_objects(const Feature& feature) {
  const auto& table = feature.table<moert_routed_experts_t>();
  moert_experts_args_t args{};
  args.struct_size = sizeof args;
  must_fail("forward of no object", {MOERT_INVALID_ARGUMENT},
            [&](auto* e) { return table.forward(nullptr, &args, e); });
  ExpertsRig rig(feature, kCase);
  must_fail("load of no piece", {MOERT_INVALID_ARGUMENT},
            [&](auto* e) { return table.load(rig.self(), nullptr, e); });
  table.destroy(nullptr);
}

}  // namespace

void add_experts_tests(const Feature& feature) {
  add_experts_numbers(feature);
  add_experts_rows(feature);
  add_experts_load(feature);
  add_experts_on_device(feature);

  add(feature, "AcceptsSomething", "", [=] { accepts_something(feature); });
  add(feature, "Declines", "", [=] { declines(feature); });
  add(feature, "RecordSizes", "problem", [=] { record_sizes(feature); });
  add(feature, "RecordSizes", "arguments", [=] { longer_arguments(feature); });
  add(feature, "WorkspaceGrows", "", [=] { workspace_grows(feature); });
  add(feature, "WrongArguments", "", [=] { wrong_arguments(feature); });
  add(feature, "NullObjects", "", [=] { null_objects(feature); });
}

}  // namespace moert::conformance
