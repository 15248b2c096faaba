// capturer: rows by token, layers of different sizes, absence, committing, dropping, reading back.
// SPDX-License-Identifier: Apache-2.0
#include "capturer_rig.hpp"
#include "kinds.hpp"

namespace moert::conformance {
namespace {

using Rig = CapturerRig;

std::vector<Rig::Token> operator+(std::vector<Rig::Token> a, const std::vector<Rig::Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void several_steps(const Feature& feature, uint32_t what) {
  Rig rig(feature, what);
  rig.expect_all();
  rig.step(tokens(7, 0, 5));
  rig.step({});
  rig.step(tokens(7, 5, 1) + tokens(-3, 0, 9));
  rig.step(tokens(7, 6, 3), {{}, 6});  // rows behind the tokens are padding
  rig.expect_all();
  rig.expect_all(1);
  rig.expect_all(100);
}

void absent_layers(const Feature& feature) {
  Rig rig(feature);
  rig.step(tokens(1, 0, 4), {{0, 2}});
  rig.step(tokens(1, 4, 4), {{0, 1, 2, 3}});
  rig.step(tokens(1, 8, 4));
  rig.step(tokens(1, 12, 4), {{1}, 2, {1, 3}});
  rig.expect_all();
}

// Rows without MOERT_CAPTURE_STEP_COMMIT cannot be read until they are committed, by sequence and
// position, which need not be the order in which they came.
void committing(const Feature& feature) {
  Rig rig(feature);
  rig.pending_step(tokens(1, 0, 6) + tokens(2, 0, 6));
  rig.expect_all();
  rig.commit(2, 3);
  rig.expect_all();
  rig.commit(1, 0);
  rig.commit(99, INT64_MAX);
  rig.expect_all();
  rig.step(tokens(3, 0, 2));  // others' rows are committed at once, and these stay pending
  rig.expect_all();
  rig.commit(2, INT64_MAX);
  rig.commit(2, INT64_MAX);
  rig.expect_all();
  rig.pending_step(tokens(1, 6, 2));
  rig.commit(1, 7);
  rig.expect_all(3);
  rig.commit(1, INT64_MAX);
  rig.expect_all();
}

// Dropped rows are gone, memory that is used again says nothing of them; committed rows stay.
void dropping(const Feature& feature) {
  Rig rig(feature);
  rig.pending_step(tokens(1, 0, 6) + tokens(2, 0, 6));
  rig.commit(1, 2);
  rig.drop(1, 4);
  rig.expect_all();
  rig.drop(1, 0);
  rig.drop(99, 0);
  rig.drop(2, 100);
  rig.expect_all();
  rig.commit(2, INT64_MAX);
  rig.drop(2, 0);
  rig.expect_all();
  for (int64_t i = 0; i < 20; ++i) {
    rig.step(tokens(3, i * 10, 10), {{static_cast<uint32_t>(i % 4)}, 0, {}, false});
    rig.drop(3, i * 10 + 3);
    rig.commit(3, i * 10 + 2);
  }
  rig.expect_all();
}

// A request that was put off is computed again: its rows come again, later.
void again(const Feature& feature) {
  Rig rig(feature);
  rig.step(tokens(1, 0, 4));
  rig.step(tokens(1, 2, 4));
  rig.expect_all();
  rig.pending_step(tokens(1, 0, 6));
  rig.drop(1, 0);
  rig.expect_all();
  rig.pending_step(tokens(1, 0, 6));
  rig.pending_step(tokens(1, 4, 6));
  rig.commit(1, INT64_MAX);
  rig.expect_all();
}

// A step that is given up leaves nothing, not even absent rows in the place of earlier ones.
void aborting(const Feature& feature) {
  Rig rig(feature);
  rig.step(tokens(1, 0, 4));
  rig.pending_step(tokens(2, 0, 3));
  for (const uint32_t flags : {uint32_t{MOERT_CAPTURE_STEP_COMMIT}, 0U}) {
    must("begin", [&](auto* e) { return rig.begin(tokens(1, 0, 6), e, flags); });
    const Rig::Record decisions = rig.decisions(0, 6);
    must("record", [&](auto* e) { return rig.record(0, decisions, e); });
    must("abort", [&](auto* e) { return rig.table.abort(rig.self, e); });
    rig.expect_all();
  }
  rig.commit(2, INT64_MAX);
  rig.step(tokens(1, 4, 2));
  rig.expect_all();
}

void order(const Feature& feature) {
  Rig rig(feature);
  const std::initializer_list<moert_code_t> wrong = {MOERT_FAILED_PRECONDITION};
  const Rig::Record two = rig.decisions(0, 2);
  must_fail("record outside a step", wrong, [&](auto* e) { return rig.record(0, two, e); });
  must_fail("end outside a step", wrong, [&](auto* e) { return rig.table.end(rig.self, e); });
  must_fail("abort outside a step", wrong, [&](auto* e) { return rig.table.abort(rig.self, e); });
  must("begin", [&](auto* e) { return rig.begin(tokens(1, 0, 2), e); });
  must_fail("begin inside a step", wrong, [&](auto* e) { return rig.begin(tokens(1, 2, 2), e); });
  must("record", [&](auto* e) { return rig.record(0, two, e); });
  must_fail("a layer twice in a step", {MOERT_ALREADY_EXISTS},
            [&](auto* e) { return rig.record(0, two, e); });
  must("end", [&](auto* e) { return rig.table.end(rig.self, e); });
}

void refuses(const Feature& feature) {
  Rig rig(feature);
  const std::initializer_list<moert_code_t> invalid = {MOERT_INVALID_ARGUMENT};
  must_fail("more tokens than max_tokens", {MOERT_INVALID_ARGUMENT, MOERT_RESOURCE_EXHAUSTED},
            [&](auto* e) { return rig.begin(tokens(1, 0, 33), e); });
  moert_capture_step_t step = {sizeof step, 1u << 31, 0, rig.place.stream(), nullptr, nullptr};
  must_fail("a step flag that nobody knows", {MOERT_UNIMPLEMENTED},
            [&](auto* e) { return rig.table.begin(rig.self, &step, e); });
  must("begin", [&](auto* e) { return rig.begin(tokens(1, 0, 2), e); });
  const Rig::Record good = rig.decisions(0, 2);
  must_fail("a layer that does not exist", invalid,
            [&](auto* e) { return rig.record(4, {{0, 0}, {0, 0}, {0, 0}, 2}, e); });
  must_fail("fewer rows than tokens", invalid,
            [&](auto* e) { return rig.record(0, rig.decisions(0, 1), e); });
  must_fail("a record flag that nobody knows", {MOERT_UNIMPLEMENTED},
            [&](auto* e) { return rig.record(0, good, e, 1u << 31); });
  must_fail("weights that were asked for and are missing", invalid,
            [&](auto* e) { return rig.record(0, good, e, 0, false); });
  if (rig.place.host_memory()) {
    for (const int32_t id : {-1, 8, INT32_MAX, INT32_MIN}) {
      Rig::Record bad = good;
      bad.ids.back() = id;
      must_fail("an id outside the layer", invalid, [&](auto* e) { return rig.record(0, bad, e); });
    }
  }
  must("the right record after that", [&](auto* e) { return rig.record(0, good, e); });
  must("end", [&](auto* e) { return rig.table.end(rig.self, e); });
}

// A record that is refused for its last row has kept nothing of the rows before.
void refused_keeps_nothing(const Feature& feature) {
  Rig rig(feature, MOERT_CAPTURE_IDS);
  if (!rig.place.host_memory()) throw Skip{"ids are not checked on a device"};
  const std::vector<Rig::Token> row = tokens(1, 0, 3);
  must("begin", [&](auto* e) { return rig.begin(row, e); });
  Rig::Record bad = rig.decisions(1, 3);
  bad.ids.back() = 256;
  must_fail("an id outside the layer", {MOERT_INVALID_ARGUMENT},
            [&](auto* e) { return rig.record(1, bad, e); });
  must("end", [&](auto* e) { return rig.table.end(rig.self, e); });
  std::vector<uint8_t> present(3, 77);
  moert_capture_rows_t rows{};
  rows.struct_size = sizeof rows;
  rows.layer = 1;
  rows.rows = 3;
  rows.present = present.data();
  ErrorRecord error;
  const moert_code_t code = rig.table.read(rig.self, &rows, error.get());
  if (code == MOERT_UNIMPLEMENTED) throw Skip{"keeps no rows to read back"};
  EXPECT_EQ(code, MOERT_OK) << error.text();
  EXPECT_EQ(rows.written, 3);
  EXPECT_EQ(present, std::vector<uint8_t>(3, 0));
}

void declines(const Feature& feature) {
  const Rig rig(feature);
  const auto verdict = [&](const char* what,
                           const std::function<void(moert_capture_spec_t&)>& change) {
    moert_capture_spec_t spec = rig.spec();
    change(spec);
    moert_support_t support{};
    support.struct_size = sizeof support;
    must("supports",
         [&](auto* e) { return rig.table.supports(rig.host.table(), &spec, &support, e); });
    EXPECT_EQ(support.verdict, 0) << what << " was accepted";
    EXPECT_NE(support.reason[0], '\0') << what << ": a verdict of no without a reason";
  };
  static constexpr int64_t kTwice[] = {1, 1, 5, 9};
  static constexpr int64_t kMany[] = {9, 8, 4, 1};
  verdict("something to capture that nobody knows", [](auto& s) { s.what |= 1u << 31; });
  verdict("no layers", [](auto& s) { s.n_layers = 0; });
  verdict("a layer twice", [](auto& s) { s.layer_ids = kTwice; });
  verdict("more slots than experts", [](auto& s) { s.top_k = kMany; });
  verdict("a device that nobody knows",
          [](auto& s) { s.device = {MOERT_DEVICE_KIND('n', 'o', 'n', 'e'), 0}; });
}

// The counts of a capturer that keeps nothing to read are as right as those of one that does.
void counts(const Feature& feature) {
  Rig rig(feature);
  rig.expect_counts();
  rig.pending_step(tokens(1, 0, 5) + tokens(2, 0, 2));
  rig.expect_counts();
  rig.commit(1, 2);
  rig.expect_counts();
  rig.drop(1, 4);
  rig.drop(1, 0);
  rig.expect_counts();
  rig.step(tokens(1, 2, 9));
  rig.expect_counts();
  rig.commit(2, INT64_MAX);
  rig.expect_counts();
}

// Objects share nothing.
void two_objects(const Feature& feature) {
  Rig one(feature);
  Rig other(feature, MOERT_CAPTURE_IDS, {{0}, {4}, {4}});
  one.step(tokens(1, 0, 3));
  other.step(tokens(1, 0, 5));
  one.expect_all();
  other.expect_all();
}

}  // namespace

void add_capturer_tests(const Feature& feature) {
  add(feature, "Steps", "everything", [=] { several_steps(feature, Rig::kAll); });
  add(feature, "Steps", "ids", [=] { several_steps(feature, MOERT_CAPTURE_IDS); });
  add(feature, "Steps", "ids_and_weights",
      [=] { several_steps(feature, MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS); });
  add(feature, "AbsentLayers", "", [=] { absent_layers(feature); });
  add(feature, "Committing", "", [=] { committing(feature); });
  add(feature, "Dropping", "", [=] { dropping(feature); });
  add(feature, "Again", "", [=] { again(feature); });
  add(feature, "Aborting", "", [=] { aborting(feature); });
  add(feature, "Counts", "", [=] { counts(feature); });
  add(feature, "OrderOfCalls", "", [=] { order(feature); });
  add(feature, "Refuses", "", [=] { refuses(feature); });
  add(feature, "RefusedKeepsNothing", "", [=] { refused_keeps_nothing(feature); });
  add(feature, "Declines", "", [=] { declines(feature); });
  add(feature, "TwoObjects", "", [=] { two_objects(feature); });
}

}  // namespace moert::conformance
