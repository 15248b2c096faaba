// A router feature bound to one case: its rule, object, tensors and calls.
// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

namespace moert::conformance {

std::vector<RouterCase> router_cases() {
  constexpr uint32_t kRenorm = MOERT_ROUTING_RENORMALIZE;
  constexpr uint32_t kBias = MOERT_ROUTING_SELECTION_BIAS;
  constexpr uint32_t kGroup = MOERT_ROUTING_GROUPED;
  constexpr uint32_t kGateBias = MOERT_ROUTING_GATE_BIAS;
  return {
      {"one_of_one", 1, 1},
      {"softmax_top1", 6, 1},
      {"softmax", 60, 4},
      {"softmax_all", 6, 6},
      {"softmax_renorm", 8, 2, "softmax", kRenorm},
      {"softmax_renorm_top1", 8, 1, "softmax", kRenorm},
      {"softmax_renorm_128", 128, 8, "softmax", kRenorm},
      {"softmax_bias_renorm", 64, 6, "softmax", kBias | kRenorm},
      {"softmax_gate_bias", 17, 3, "softmax", kGateBias},
      {"softmax_bf16", 8, 2, "softmax", 0, 0, 0, nullptr, 1, 0, MOERT_DTYPE_BF16},
      {"sigmoid", 16, 4, "sigmoid"},
      {"sigmoid_renorm_scale", 16, 4, "sigmoid", kRenorm, 0, 0, nullptr, 1.5, 1e-20},
      {"sigmoid_bias_renorm", 256, 8, "sigmoid", kBias | kRenorm, 0, 0, nullptr, 1, 1e-20},
      {"grouped_max", 64, 6, "softmax", kGroup, 8, 3, "max", 16.0},
      {"grouped_max_top1", 8, 1, "softmax", kGroup, 4, 2, "max"},
      {"grouped_top2", 256, 8, "sigmoid", kGroup | kBias | kRenorm, 8, 4, "top2_sum", 2.5, 1e-20},
      {"groups_of_one", 8, 3, "sigmoid", kGroup | kBias | kRenorm, 8, 4, "top2_sum"},
      {"one_group", 8, 3, "sigmoid", kGroup | kBias, 1, 1, "top2_sum"},
      {"all_groups", 12, 5, "sigmoid", kGroup | kRenorm, 3, 3, "max"},
  };
}

moert_routing_t routing_of(const RouterCase& c, moert_device_id_t device) {
  moert_routing_t r{};
  r.struct_size = sizeof r;
  r.flags = c.flags;
  r.device = device;
  r.layer_id = 3;
  r.max_tokens = RouterRig::kMaxTokens;
  r.hidden_size = RouterCase::h;
  r.num_experts = c.e;
  r.top_k = c.k;
  r.activation_dtype = c.dtype;
  r.method = "topk";
  r.scoring = c.scoring;
  r.group_score = c.group_score;
  r.num_groups = c.groups;
  r.top_groups = c.top_groups;
  r.routed_scale = c.scale;
  r.renormalize_eps = c.eps;
  return r;
}

RouterRig::RouterRig(const Feature& feature, const RouterCase& c, bool ready)
    : case_(c),
      table_(feature.table<moert_router_t>()),
      host_(settings().seed),
      place_(feature.device),
      random_(c.label) {
  const moert_routing_t routing = routing_of(c, place_.id());
  support_.struct_size = sizeof support_;
  must("supports", [&](auto* e) { return table_.supports(host_.table(), &routing, &support_, e); });
  if (support_.verdict == 0) throw Skip{support_.reason};
  must("create",
       [&](auto* e) { return table_.create(host_.table(), &routing, nullptr, 0, &self_, e); });
  std::vector<double> numbers(static_cast<size_t>(c.e * RouterCase::h));
  for (double& x : numbers) x = random_.uniform();
  gate_ = rounded(c.dtype, numbers);
  numbers.resize(static_cast<size_t>(c.e));
  for (double& x : numbers) x = random_.uniform();
  if (c.gate_biased()) gate_bias_ = rounded(MOERT_DTYPE_F32, numbers);
  for (int64_t e = 0; c.biased() && e < c.e; ++e)
    bias_.push_back(static_cast<float>(random_.uniform()));
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
  const Bytes bias = bytes_of(bias_);
  const Bytes& bytes = which == MOERT_ROUTER_GATE_WEIGHT ? gate_.bytes
                       : which == MOERT_ROUTER_GATE_BIAS ? gate_bias_.bytes
                                                         : bias;
  const void* data = bytes.data();
  if (which == MOERT_ROUTER_GATE_WEIGHT)
    return load(which, TensorView(data, case_.dtype, {case_.e, RouterCase::h}), error);
  return load(which, TensorView(data, MOERT_DTYPE_F32, {case_.e}), error);
}

void RouterRig::finish() {
  must("load gate", [&](auto* e) { return load(MOERT_ROUTER_GATE_WEIGHT, e); });
  if (case_.gate_biased())
    must("load gate bias", [&](auto* e) { return load(MOERT_ROUTER_GATE_BIAS, e); });
  if (case_.biased())
    must("load selection bias", [&](auto* e) { return load(MOERT_ROUTER_SELECTION_BIAS, e); });
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

Decisions RouterRig::route(const std::vector<float>& logits, const std::vector<int32_t>& forced) {
  Args args(*this, static_cast<int64_t>(logits.size()) / case_.e);
  args.logits.buffer().write(bytes_of(logits));
  args.record.ids = args.ids.get();
  args.record.weights = args.weights.get();
  args.record.margins = args.margins.get();
  if (!forced.empty()) {
    args.forced.buffer().write(bytes_of(forced));
    args.record.forced_ids = args.forced.get();
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

}  // namespace moert::conformance
