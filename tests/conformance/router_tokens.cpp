// router: ids that a table gives to tokens.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "router.hpp"

namespace moert::conformance {
namespace {

const RouterCase kHash = {.label = "tokens",
                          .e = 6,
                          .k = 2,
                          .flags = MOERT_ROUTING_NEEDS_TOKEN_IDS | MOERT_ROUTING_RENORMALIZE,
                          .method = "hash"};
const float kLn3 = std::log(3.0f);

// Slots in the table's order, whatever the logits say; absent tokens; forced ids before both.
void by_table(const Feature& feature) {
  RouterRig rig(feature, kHash, false);
  rig.tensors().table = {4, 1, 0, 5, 3, 2};
  rig.finish();
  const std::vector<float> row = {9, kLn3, 7, 0, 0, 8};
  std::vector<float> logits;
  for (int t = 0; t < 5; ++t) logits.insert(logits.end(), row.begin(), row.end());
  const Decisions got = rig.route(logits, {-1, -1, -1, -1, -1, -1, 1, 3, 1, 3}, {0, -1, 2, 2, -1});
  EXPECT_EQ(got.ids, (std::vector<int32_t>{4, 1, -1, -1, 3, 2, 1, 3, 1, 3}));
  const double seven = 1 / (1 + std::exp(7.0));
  const std::vector<double> want = {0.25, 0.75, 0, 0, seven, 1 - seven, 0.75, 0.25, 0.75, 0.25};
  for (size_t j = 0; j < want.size(); ++j)
    EXPECT_NEAR(static_cast<double>(got.weights[j]), want[j], 1e-6 * want[j]) << "slot " << j;
  for (const float margin : got.margins) EXPECT_EQ(margin, HUGE_VALF) << "nothing was compared";
}

void wrong_tables(const Feature& feature) {
  const struct {
    const char* what;
    std::vector<int32_t> table;
  } tables[] = {{"an expert that does not exist", {4, 1, 0, 6}},
                {"an expert below zero", {4, 1, -1, 5}},
                {"an expert twice", {4, 1, 5, 5}}};
  for (const auto& [what, table] : tables) {
    RouterRig rig(feature, kHash, false);
    rig.tensors().table = table;
    const auto load = [&](auto* e) { return rig.load(MOERT_ROUTER_TOKEN_TABLE, e); };
    must_fail(what, {MOERT_DATA_LOSS}, load);
    ErrorRecord error;
    load(error.get());
    EXPECT_NE(std::string(error.text()).find("row 1"), std::string::npos)
        << what << ": the message does not name row 1: " << error.text();
    rig.tensors().table = {4, 1, 0, 5};
    rig.finish();  // what was refused was not loaded
  }
  RouterRig rig(feature, kHash, false);
  const std::vector<int64_t> wide(12, 0);
  const TensorView eight_bytes(wide.data(), MOERT_DTYPE_I64, {3, 2});
  const TensorView three(wide.data(), MOERT_DTYPE_I32, {2, 3});
  for (const TensorView& view : {eight_bytes, three})
    must_fail("a misshapen table", {MOERT_DATA_LOSS, MOERT_INVALID_ARGUMENT},
              [&](auto* e) { return rig.load(MOERT_ROUTER_TOKEN_TABLE, view, e); });
}

void wrong_tokens(const Feature& feature) {
  using Args = RouterRig::Args;
  const std::initializer_list<moert_code_t> invalid = {MOERT_INVALID_ARGUMENT};
  RouterRig rig(feature, kHash);
  Tensor three(rig.place(), MOERT_DTYPE_I64, {3});
  Tensor narrow(rig.place(), MOERT_DTYPE_I32, {4});
  rig.must_refuse("no token ids", invalid, [](Args& a) { a.record.token_ids = nullptr; });
  rig.must_refuse("token ids of fewer rows", invalid,
                  [&](Args& a) { a.record.token_ids = three.get(); });
  rig.must_refuse("32-bit token ids", invalid, [&](Args& a) { a.record.token_ids = narrow.get(); });
  if (!rig.place().host_memory()) return;  // a kernel cannot report an id
  for (const int64_t id : {int64_t{29}, int64_t{-2}, INT64_MAX, INT64_MIN, int64_t{1} << 32}) {
    const auto spoil = [&](Args& a) {
      a.token_ids.buffer().write(bytes_of(std::vector<int64_t>{0, 1, id, 3}));
    };
    rig.must_refuse("a token that is not in the table", invalid, spoil);
    Args args(rig, 4);
    args.record.ids = args.ids.get();
    args.record.weights = args.weights.get();
    args.record.token_ids = args.token_ids.get();
    spoil(args);
    ErrorRecord error;
    rig.table().route(rig.self(), &args.record, error.get());
    const std::string text = error.text();
    EXPECT_TRUE(text.find(std::to_string(id)) != std::string::npos &&
                text.find('2') != std::string::npos)
        << "the message does not name row 2 and id " << id << ": " << text;
  }
}

}  // namespace

void add_router_tokens(const Feature& feature) {
  add(feature, "TokenTable", "", [=] { by_table(feature); });
  add(feature, "WrongTensors", "token_table", [=] { wrong_tables(feature); });
  add(feature, "WrongArguments", "token_ids", [=] { wrong_tokens(feature); });
}

}  // namespace moert::conformance
