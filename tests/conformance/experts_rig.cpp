// A routed_experts feature bound to one case: its problem, object, weights and forwards.
// SPDX-License-Identifier: Apache-2.0
#include "experts.hpp"

namespace moert::conformance {

Problem::Problem(const ExpertsCase& c, moert_device_id_t device) {
  activation.struct_size = sizeof activation;
  activation.name = c.act.name;
  activation.alpha = c.act.alpha;
  activation.beta = c.act.beta;
  activation.limit = c.act.limit;
  record.struct_size = sizeof record;
  record.flags = c.flags;
  record.device = device;
  record.layer_id = 3;
  record.max_tokens = ExpertsRig::kMaxTokens;
  record.hidden_size = c.h;
  record.intermediate_size = c.i;
  record.num_experts = record.num_physical_experts = record.num_local_experts = c.e;
  record.top_k = c.k;
  record.activation_dtype = c.dtype;
  record.output_dtype = c.out_dtype;
  record.weight_scheme = c.scheme();
  record.act_scheme = c.act_scheme;
  record.activation = &activation;
  record.ep_size = 1;
  record.tp_size = 1;
}

ExpertsRig::ExpertsRig(const Feature& feature, const ExpertsCase& c)
    : case_(c),
      table_(feature.table<moert_routed_experts_t>()),
      host_(settings().seed),
      place_(feature.device) {
  const Problem problem(case_, place_.id());
  support_.struct_size = sizeof support_;
  must("supports", [&](moert_error_t* e) {
    return table_.supports(host_.table(), &problem.record, &support_, e);
  });
  if (support_.verdict == 0) throw Skip{support_.reason};
  must("create", [&](moert_error_t* e) {
    return table_.create(host_.table(), &problem.record, nullptr, 0, &self_, e);
  });
}

ExpertsRig::~ExpertsRig() {
  if (self_ != nullptr) table_.destroy(self_);
  EXPECT_EQ(host_.live(), 0u) << "destroy left host memory behind";
}

moert_code_t ExpertsRig::load(const Mlp& mlp, int64_t expert, uint32_t part, uint32_t role,
                              moert_error_t* error, const moert_tensor_t* tensor, uint32_t flags) {
  const bool weight = role == MOERT_ROLE_WEIGHT;
  const Values* values = part == MOERT_PART_GATE ? (weight ? &mlp.gate : &mlp.gate_bias)
                         : part == MOERT_PART_UP ? (weight ? &mlp.up : &mlp.up_bias)
                                                 : (weight ? &mlp.down : &mlp.down_bias);
  const int64_t rows = part == MOERT_PART_DOWN ? case_.h : case_.i;
  const int64_t cols = part == MOERT_PART_DOWN ? case_.i : case_.h;
  const uint32_t dtype = weight ? case_.weight_dtype() : uint32_t{MOERT_DTYPE_F32};
  // The source is not kept: a copy that is gone after the call shows it under a sanitizer.
  const Bytes copy = values->bytes;
  const void* data = copy.data();
  TensorView own = weight ? TensorView(data, dtype, {rows, cols}) : TensorView(data, dtype, {rows});
  moert_quant_view_t quant{};
  quant.struct_size = sizeof quant;
  quant.scheme = case_.scheme();
  quant.layout = "canonical";
  const float scale = row_scale(expert);
  const TensorView input_scale(static_cast<const void*>(&scale), MOERT_DTYPE_F32, {});
  if (case_.quantised()) {
    quant.flags |= MOERT_QUANT_ROWS;
    quant.input_scale = input_scale.get();
  }
  const void* behind_codes = copy.data() + (case_.mxfp4 && weight ? rows * cols / 2 : 0);
  const TensorView group_scale(behind_codes, MOERT_DTYPE_F8_E8M0, {rows, cols / 32});
  if (case_.mxfp4) quant.scale = group_scale;
  if (weight) own.set_quant(&quant);
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  piece.flags = flags;
  piece.expert = expert;
  piece.part = part;
  piece.role = role;
  piece.tensor = tensor != nullptr ? tensor : own.get();
  piece.quant = &plain_quant();
  return table_.load(self_, &piece, error);
}

float row_scale(int64_t expert) { return expert % 2 == 0 ? 0.5f : 0.25f; }

Mlp with_scaled_rows(const ExpertsCase& c, const Mlp& mlp, int64_t expert) {
  Mlp result = mlp;
  if (!c.quantised()) return result;
  for (Values* values : {&result.gate, &result.up, &result.down}) {
    for (double& number : values->number) number *= double{row_scale(expert)};
    *values = rounded(c.dtype, values->number);
  }
  return result;
}

void ExpertsRig::load_expert(const Mlp& mlp, int64_t expert) {
  for (uint32_t role : {MOERT_ROLE_WEIGHT, MOERT_ROLE_BIAS}) {
    if (role == MOERT_ROLE_BIAS && !case_.biased()) continue;
    for (uint32_t part : {MOERT_PART_GATE, MOERT_PART_UP, MOERT_PART_DOWN}) {
      if (part == MOERT_PART_GATE && !case_.gated()) continue;
      must("load", [&](moert_error_t* e) { return load(mlp, expert, part, role, e); });
    }
  }
}

void ExpertsRig::load_all(const std::vector<Mlp>& experts) {
  for (size_t e = 0; e < experts.size(); ++e) load_expert(experts[e], static_cast<int64_t>(e));
}

void ExpertsRig::finish() {
  must("finish", [&](moert_error_t* e) { return table_.finish(self_, e); });
}

namespace {
uint64_t workspace_bytes(ExpertsRig& rig, int64_t tokens) {
  uint64_t bytes = 0;
  must("workspace",
       [&](moert_error_t* e) { return rig.table().workspace(rig.self(), tokens, &bytes, e); });
  return bytes;
}
}  // namespace

ExpertsRig::Args::Args(ExpertsRig& rig, const Batch& batch)
    : hidden(rig.place(), rig.c().dtype, {batch.tokens, rig.c().h}, batch.hidden.bytes),
      ids(rig.place(), MOERT_DTYPE_I32, {batch.tokens, rig.c().k}, bytes_of(batch.ids)),
      weights(rig.place(), MOERT_DTYPE_F32, {batch.tokens, rig.c().k}, bytes_of(batch.weights)),
      out(rig.place(), rig.c().out_dtype, {batch.tokens, rig.c().h}),
      workspace(rig.place(), workspace_bytes(rig, batch.tokens)) {
  record.struct_size = sizeof record;
  record.stream = rig.place().stream();
  record.workspace = workspace.data();
  record.workspace_bytes = workspace.bytes();
  point();
}

void ExpertsRig::Args::point() {
  record.hidden = hidden.get();
  record.ids = ids.get();
  record.weights = weights.get();
  record.out = out.get();
}

Bytes ExpertsRig::forward(const Batch& batch) {
  Args args(*this, batch);
  must("forward", [&](moert_error_t* e) { return table_.forward(self_, &args.record, e); });
  const Bytes out = args.out.read();  // waits for the device
  args.out.buffer().expect_guards("out");
  args.hidden.buffer().expect_guards("hidden");
  args.ids.buffer().expect_guards("ids");
  args.weights.buffer().expect_guards("weights");
  args.workspace.expect_guards("the workspace");
  EXPECT_TRUE(args.hidden.read() == batch.hidden.bytes) << "forward changed hidden";
  EXPECT_TRUE(args.ids.read() == bytes_of(batch.ids)) << "forward changed ids";
  EXPECT_TRUE(args.weights.read() == bytes_of(batch.weights)) << "forward changed weights";
  return out;
}

void ExpertsRig::must_refuse(const Batch& batch, const char* what,
                             std::initializer_list<moert_code_t> codes,
                             const std::function<void(Args&)>& change) {
  Args args(*this, batch);
  const Bytes before = args.out.read();
  change(args);
  must_fail(what, codes, [&](moert_error_t* e) { return table_.forward(self_, &args.record, e); });
  EXPECT_TRUE(args.out.read() == before) << what << ": the output was written all the same";
}

}  // namespace moert::conformance
