// What holds on a device whose memory the host cannot read: wrong data is found late, and graphs are launched again.
// SPDX-License-Identifier: Apache-2.0
#include "on_device.hpp"

#include <cstring>

#include "experts.hpp"
#include "router.hpp"

namespace moert::conformance {
namespace {

const ExpertsCase kExperts = {24, 20, 5, 3};

// The error of what kernels found wrong: once, and it names the row and the number.
void expect_found(Place& place, const char* what, int64_t row, int64_t number) {
  ErrorRecord error;
  EXPECT_EQ(place.synchronize(error.get()), MOERT_INVALID_ARGUMENT) << what << ": not found";
  error.expect_filled(MOERT_INVALID_ARGUMENT);
  const std::string text = error.text();
  EXPECT_NE(text.find("row " + std::to_string(row)), std::string::npos) << what << ": " << text;
  EXPECT_NE(text.find(std::to_string(number)), std::string::npos) << what << ": " << text;
  ErrorRecord again;
  EXPECT_EQ(place.synchronize(again.get()), MOERT_OK) << what << ": found twice, " << again.text();
}

// An id outside the layer counts as -1; other slots and rows do not notice.
void wrong_expert_ids(const Feature& feature) {
  Random random("wrong ids");
  ExpertsRig rig(feature, kExperts);
  rig.load_all(make_experts(kExperts, random));
  rig.finish();
  Batch batch = make_batch(kExperts, random, 6);
  const size_t slot = 2 * 3 + 1;
  for (const int32_t id : {-2, 5, INT32_MAX, INT32_MIN}) {
    Batch without = batch;
    without.ids[slot] = -1;
    const Bytes want = rig.forward(without);
    batch.ids[slot] = id;
    ExpertsRig::Args args(rig, batch);
    must("forward", [&](auto* e) { return rig.table().forward(rig.self(), &args.record, e); });
    expect_found(rig.place(), "an id outside the layer", 2, id);
    const Bytes got = args.out.read();
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0)
        << "id " << id << " is not as good as -1";
    args.workspace.expect_guards("the workspace");
    args.out.buffer().expect_guards("out");
  }
}

// One recording, of the first forward, launched for batches that differ in how tokens meet experts.
void experts_graph(const Feature& feature) {
  Random random("graph");
  ExpertsRig rig(feature, kExperts);
  if ((rig.support().flags & MOERT_SUPPORT_GRAPH_SAFE) == 0) throw Skip{"promises no graphs"};
  if (rig.place().device()->graph_begin == nullptr) throw Skip{"the device has no graphs"};
  const std::vector<Mlp> experts = make_experts(kExperts, random);
  rig.load_all(experts);
  rig.finish();
  constexpr int64_t kTokens = 19;
  Batch spread = make_batch(kExperts, random, kTokens), one = make_batch(kExperts, random, kTokens),
        few = make_batch(kExperts, random, kTokens);
  for (size_t i = 0; i < one.ids.size(); ++i) one.ids[i] = i % 3 == 0 ? 4 : -1;
  for (size_t i = 0; i < few.ids.size(); ++i)
    if (i / 3 % 7 != 2) few.ids[i] = -1;
  ExpertsRig::Args args(rig, spread);
  Recording recording(rig.place(), [&] {
    must("forward", [&](auto* e) { return rig.table().forward(rig.self(), &args.record, e); });
  });
  for (const Batch* batch : {&spread, &one, &few, &spread}) {
    const Bytes want = rig.forward(*batch);
    args.hidden.buffer().write(batch->hidden.bytes);
    args.ids.buffer().write(bytes_of(batch->ids));
    args.weights.buffer().write(bytes_of(batch->weights));
    args.out.buffer().write(Bytes(want.size(), 0xff));
    recording.launch();
    const Bytes got = args.out.read();
    expect_experts(kExperts, experts, *batch, got);
    EXPECT_TRUE(got == want || !rig.deterministic()) << "a launch gives other bits";
  }
  args.workspace.expect_guards("the workspace");
}

const RouterCase kTopk = {.label = "on_device", .e = 13, .k = 4};
const RouterCase kTable = {.label = "table_on_device",
                           .e = 6,
                           .k = 2,
                           .flags = MOERT_ROUTING_NEEDS_TOKEN_IDS | MOERT_ROUTING_RENORMALIZE,
                           .method = "hash"};

// Arguments of a route over 4 rows of clear logits.
struct Route {
  Route(RouterRig& rig, const RouterCase& c, std::vector<float> rows)
      : k(static_cast<size_t>(c.k)), logits(std::move(rows)), args(rig, 4) {
    args.logits.buffer().write(bytes_of(logits));
    args.record.ids = args.ids.get();
    args.record.weights = args.weights.get();
    args.record.margins = args.margins.get();
  }
  void run(RouterRig& rig) {
    must("route", [&](auto* e) { return rig.table().route(rig.self(), &args.record, e); });
  }
  Decisions read() const {
    return {values_of<int32_t>(args.ids.read()), values_of<float>(args.weights.read()),
            values_of<float>(args.margins.read())};
  }
  // Row 2 has no experts, the others have those of `want`.
  void expect_row_2_absent(const Decisions& want, const std::string& what) {
    const auto ids = values_of<int32_t>(args.ids.read());
    const auto weights = values_of<float>(args.weights.read());
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool absent = i / k == 2;
      EXPECT_EQ(ids[i], absent ? -1 : want.ids[i]) << what << ", slot " << i;
      EXPECT_EQ(weights[i], absent ? 0.0f : want.weights[i]) << what << ", slot " << i;
    }
  }
  size_t k;
  std::vector<float> logits;
  RouterRig::Args args;
};

// Forced ids that are no experts, or come twice: the row gets none.
void wrong_forced_ids(const Feature& feature) {
  RouterRig rig(feature, kTopk);
  const std::vector<float> logits = clear_logits(kTopk, rig.random(), 4, rig.tensors());
  const Decisions want = rig.route(logits);
  for (const int32_t id : {13, -2, INT32_MAX, INT32_MIN, 3}) {
    std::vector<int32_t> forced(16, -1);
    const std::vector<int32_t> row = {3, 5, id, 7};
    std::copy(row.begin(), row.end(), forced.begin() + 8);
    Route route(rig, kTopk, logits);
    route.args.forced.buffer().write(bytes_of(forced));
    route.args.record.forced_ids = route.args.forced.get();
    route.run(rig);
    expect_found(rig.place(), "a forced id", 2, id);
    route.expect_row_2_absent(want, "forced id " + std::to_string(id));
  }
}

void wrong_tokens(const Feature& feature) {
  RouterRig rig(feature, kTable);
  const std::vector<float> logits = clear_logits(kTable, rig.random(), 4, rig.tensors());
  const Decisions want = rig.route(logits, {}, {0, 1, 2, 3});
  for (const int64_t id : {int64_t{29}, int64_t{-2}}) {
    Route route(rig, kTable, logits);
    route.args.token_ids.buffer().write(bytes_of(std::vector<int64_t>{0, 1, id, 3}));
    route.args.record.token_ids = route.args.token_ids.get();
    route.run(rig);
    expect_found(rig.place(), "a token", 2, id);
    route.expect_row_2_absent(want, "token " + std::to_string(id));
  }
}

void router_graph(const Feature& feature) {
  const moert_support_t support =
      router_support(feature, routing_of(kTopk, Place(feature.device).id()));
  if ((support.flags & MOERT_SUPPORT_GRAPH_SAFE) == 0) throw Skip{"promises no graphs"};
  RouterRig rig(feature, kTopk);
  if (rig.place().device()->graph_begin == nullptr) throw Skip{"the device has no graphs"};
  std::vector<std::vector<float>> rows;
  std::vector<Decisions> want;
  for (int i = 0; i < 3; ++i) rows.push_back(clear_logits(kTopk, rig.random(), 4, rig.tensors()));
  Route route(rig, kTopk, rows[0]);
  Recording recording(rig.place(), [&] { route.run(rig); });
  for (const std::vector<float>& logits : rows) want.push_back(rig.route(logits));
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, size_t{0}}) {
    route.args.logits.buffer().write(bytes_of(rows[i]));
    recording.launch();
    const Decisions got = route.read();
    for (int64_t t = 0; t < 4; ++t)
      expect_decision(kTopk, got, t,
                      decide(kTopk, rig.tensors(), &rows[i][static_cast<size_t>(t * kTopk.e)]));
    if (!rig.deterministic()) continue;
    EXPECT_TRUE(bytes_of(got.weights) == bytes_of(want[i].weights)) << "rows " << i;
    EXPECT_TRUE(bytes_of(got.margins) == bytes_of(want[i].margins)) << "rows " << i;
  }
}

bool on_device(const Feature& feature) {
  return feature.device != nullptr && feature.device->kind != MOERT_DEVICE_CPU;
}

}  // namespace

void add_experts_on_device(const Feature& feature) {
  if (!on_device(feature)) return;
  add(feature, "WrongData", "expert_ids", [=] { wrong_expert_ids(feature); });
  add(feature, "Graph", "", [=] { experts_graph(feature); });
}

void add_router_on_device(const Feature& feature) {
  if (!on_device(feature)) return;
  add(feature, "WrongData", "forced_ids", [=] { wrong_forced_ids(feature); });
  add(feature, "WrongData", "token_ids", [=] { wrong_tokens(feature); });
  add(feature, "Graph", "", [=] { router_graph(feature); });
}

}  // namespace moert::conformance
