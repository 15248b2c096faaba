// A router feature bound to one case: its rule, object, tensors and calls.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "router.hpp"

namespace moert::conformance {

moert_support_t router_support(const Feature& feature, const moert_routing_t& routing) {
  TestHost host(settings().seed);
  moert_support_t support{};
  support.struct_size = sizeof support;
  must("supports", [&](auto* e) {
    return feature.table<moert_router_t>().supports(host.table(), &routing, &support, e);
  });
  if (support.verdict == 0) {
    EXPECT_NE(support.reason[0], '\0') << "a verdict of no without a reason";
  }
  EXPECT_NE(std::memchr(support.reason, 0, sizeof support.reason), nullptr);
  return support;
}

RouterRig::RouterRig(const Feature& feature, const RouterCase& c, bool ready)
    : case_(c),
      table_(feature.table<moert_router_t>()),
      host_(settings().seed),
      place_(feature.device),
      random_(c.label),
      tensors_(case_, random_) {
  const moert_routing_t routing = routing_of(case_, place_.id());
  support_.struct_size = sizeof support_;
  must("supports", [&](auto* e) { return table_.supports(host_.table(), &routing, &support_, e); });
  if (support_.verdict == 0) throw Skip{support_.reason};
  must("create",
       [&](auto* e) { return table_.create(host_.table(), &routing, nullptr, 0, &self_, e); });
  if (ready) finish();
}

RouterRig::~RouterRig() {
  if (self_ != nullptr) table_.destroy(self_);
  EXPECT_EQ(host_.live(), 0u) << "destroy left host memory behind";
}

moert_code_t RouterRig::load(uint32_t which, const moert_tensor_t* tensor, moert_error_t* error) {
  return table_.load(self_, which, tensor, error);
}

moert_code_t RouterRig::load(uint32_t which, moert_error_t* error) {
  const auto put = [&](const Bytes& bytes, uint32_t dtype, std::initializer_list<int64_t> shape) {
    return load(which, TensorView(static_cast<const void*>(bytes.data()), dtype, shape), error);
  };
  const RouterTensors& t = tensors_;
  switch (which) {
    case MOERT_ROUTER_GATE_WEIGHT: return put(t.gate.bytes, case_.dtype, {case_.e, RouterCase::h});
    case MOERT_ROUTER_GATE_BIAS: return put(t.gate_bias.bytes, MOERT_DTYPE_F32, {case_.e});
    case MOERT_ROUTER_SELECTION_BIAS: return put(bytes_of(t.bias), MOERT_DTYPE_F32, {case_.e});
    case MOERT_ROUTER_EXPERT_SCALE: return put(t.expert_scale.bytes, MOERT_DTYPE_F32, {case_.e});
    case MOERT_ROUTER_INPUT_SCALE: return put(t.input_scale.bytes, case_.dtype, {RouterCase::h});
    default:
      return put(bytes_of(t.table), MOERT_DTYPE_I32,
                 {static_cast<int64_t>(t.table.size()) / case_.k, case_.k});
  }
}

std::vector<uint32_t> RouterRig::needed() const {
  std::vector<uint32_t> all = {MOERT_ROUTER_GATE_WEIGHT};
  if (case_.has(MOERT_ROUTING_GATE_BIAS)) all.push_back(MOERT_ROUTER_GATE_BIAS);
  if (case_.has(MOERT_ROUTING_SELECTION_BIAS)) all.push_back(MOERT_ROUTER_SELECTION_BIAS);
  if (case_.has(MOERT_ROUTING_EXPERT_SCALE)) all.push_back(MOERT_ROUTER_EXPERT_SCALE);
  if (case_.has(MOERT_ROUTING_INPUT_NORM)) all.push_back(MOERT_ROUTER_INPUT_SCALE);
  if (case_.has(MOERT_ROUTING_NEEDS_TOKEN_IDS)) all.push_back(MOERT_ROUTER_TOKEN_TABLE);
  return all;
}

void RouterRig::finish() {
  for (const uint32_t which : needed()) must("load", [&](auto* e) { return load(which, e); });
  must("finish", [&](auto* e) { return table_.finish(self_, e); });
}

namespace {
uint64_t workspace_bytes(RouterRig& rig, int64_t tokens) {
  uint64_t bytes = 0;
  must("workspace", [&](auto* e) { return rig.table().workspace(rig.self(), tokens, &bytes, e); });
  return bytes;
}
}  // namespace

RouterRig::Args::Args(RouterRig& rig, int64_t tokens)
    : hidden(rig.place(), rig.case_.dtype, {tokens, RouterCase::h}),
      token_ids(rig.place(), MOERT_DTYPE_I64, {tokens}),
      logits(rig.place(), MOERT_DTYPE_F32, {tokens, rig.case_.e}),
      ids(rig.place(), MOERT_DTYPE_I32, {tokens, rig.case_.k}),
      weights(rig.place(), MOERT_DTYPE_F32, {tokens, rig.case_.k}),
      margins(rig.place(), MOERT_DTYPE_F32, {tokens}),
      forced(rig.place(), MOERT_DTYPE_I32, {tokens, rig.case_.k}),
      workspace(rig.place(), workspace_bytes(rig, tokens)) {
  record.struct_size = sizeof record;
  record.stream = rig.place().stream();
  record.logits = logits.get();
  record.workspace = workspace.data();
  record.workspace_bytes = workspace.bytes();
}

std::vector<float> RouterRig::logits(const Values& hidden, int64_t tokens) {
  Args args(*this, tokens);
  args.hidden.buffer().write(hidden.bytes);
  args.record.hidden = args.hidden.get();
  must("logits", [&](auto* e) { return table_.logits(self_, &args.record, e); });
  const Bytes out = args.logits.read();
  args.logits.buffer().expect_guards("logits");
  args.workspace.expect_guards("the workspace");
  EXPECT_TRUE(args.hidden.read() == hidden.bytes) << "logits changed hidden";
  return values_of<float>(out);
}

Decisions RouterRig::route(const std::vector<float>& logits, const std::vector<int32_t>& forced,
                           std::vector<int64_t> tokens) {
  const auto rows = static_cast<int64_t>(logits.size()) / case_.e;
  Args args(*this, rows);
  args.logits.buffer().write(bytes_of(logits));
  args.record.ids = args.ids.get();
  args.record.weights = args.weights.get();
  args.record.margins = args.margins.get();
  if (!forced.empty()) {
    args.forced.buffer().write(bytes_of(forced));
    args.record.forced_ids = args.forced.get();
  }
  if (case_.has(MOERT_ROUTING_NEEDS_TOKEN_IDS)) {
    for (int64_t t = static_cast<int64_t>(tokens.size()); t < rows; ++t)
      tokens.push_back(RouterTensors::token_of(case_, &logits[static_cast<size_t>(t * case_.e)]));
    args.token_ids.buffer().write(bytes_of(tokens));
    args.record.token_ids = args.token_ids.get();
  }
  must("route", [&](auto* e) { return table_.route(self_, &args.record, e); });
  Decisions out = {values_of<int32_t>(args.ids.read()), values_of<float>(args.weights.read()),
                   values_of<float>(args.margins.read())};
  args.ids.buffer().expect_guards("ids");
  args.weights.buffer().expect_guards("weights");
  args.margins.buffer().expect_guards("margins");
  args.workspace.expect_guards("the workspace");
  EXPECT_TRUE(args.logits.read() == bytes_of(logits)) << "route changed the logits";
  return out;
}

void RouterRig::must_refuse(const char* what, std::initializer_list<moert_code_t> codes,
                            const std::function<void(Args&)>& change) {
  Args args(*this, 4);
  args.logits.buffer().write(bytes_of(clear_logits(case_, random_, 4, tensors_)));
  args.record.ids = args.ids.get();
  args.record.weights = args.weights.get();
  if (case_.has(MOERT_ROUTING_NEEDS_TOKEN_IDS)) {
    args.token_ids.buffer().write(bytes_of(std::vector<int64_t>{0, 1, 2, 3}));
    args.record.token_ids = args.token_ids.get();
  }
  const Bytes before = args.ids.read();
  change(args);
  must_fail(what, codes, [&](auto* e) { return table_.route(self_, &args.record, e); });
  EXPECT_TRUE(args.ids.read() == before && args.weights.read() == before)
      << what << ": the output was written all the same";
}

}  // namespace moert::conformance
