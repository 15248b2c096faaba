// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <tuple>

#include "runner.hpp"

namespace moert::conformance {

uint32_t RunnerCase::flags() const {
  return (zero > 0 ? uint32_t{MOERT_LAYER_ZERO_EXPERTS} : 0u) |
         (latent > 0 ? uint32_t{MOERT_LAYER_LATENT} : 0u) |
         (norm_in ? uint32_t{MOERT_LAYER_NORM_IN} : 0u) |
         (norm_out ? uint32_t{MOERT_LAYER_NORM_OUT} : 0u) |
         (bias ? uint32_t{MOERT_LAYER_OUTPUT_BIAS} : 0u) |
         (shared_scale != 0 ? uint32_t{MOERT_LAYER_SHARED_SCALE} : 0u);
}

RouterCase RunnerCase::router() const {
  RouterCase c = {.label = label, .e = ids(), .k = k, .flags = MOERT_ROUTING_RENORMALIZE};
  c.dtype = dtype;
  if (hash) {
    c.method = "hash";
    c.flags |= MOERT_ROUTING_NEEDS_TOKEN_IDS;
  }
  return c;
}

std::vector<RunnerCase> runner_cases() {
  return {{.label = "plain"},
          {.label = "bf16", .shared = true, .output_scale = 1.5, .dtype = MOERT_DTYPE_BF16},
          {.label = "zero_experts", .zero = 3, .output_scale = 2.5},
          {.label = "shared", .shared = true, .output_scale = 0.5, .shared_scale = 0.75},
          {.label = "bias", .bias = true, .output_scale = 3},
          {.label = "hash", .hash = true},
          {.label = "latent", .latent = 20},
          {.label = "latent_norm_in", .latent = 20, .norm_in = true, .shared = true},
          {.label = "latent_norm_out", .latent = 20, .norm_out = true, .bias = true},
          {.label = "norm_in", .norm_in = true, .output_scale = 1.25}};
}

namespace {

const moert_feature_t* part_of(const Feature& feature, const char* kind) {
  // Of the same device: a plugin may serve several.
  for (uint32_t i = 0; i < feature.plugin->n_features; ++i) {
    Feature part = feature;
    part.record = feature.plugin->features[i];
    if (std::string_view(part.record->kind) == kind && part.cap("device") == feature.cap("device"))
      return part.record;
  }
  throw Skip{"the plugin has no part of kind " + std::string(kind)};
}

// A part that says yes to `spec`. A layer is safe in graphs if all of its parts are.
template <class Table, class Spec>
std::pair<const Table*, void*> make_part(const Feature& feature, const char* kind,
                                         const TestHost& host, const Spec& spec,
                                         uint32_t& layer_flags) {
  const auto* table = static_cast<const Table*>(part_of(feature, kind)->table);
  moert_support_t support{};
  support.struct_size = sizeof support;
  must("supports", [&](auto* e) { return table->supports(host.table(), &spec, &support, e); });
  if (support.verdict == 0) throw Skip{support.reason};
  layer_flags &= support.flags | ~uint32_t{MOERT_SUPPORT_GRAPH_SAFE};
  void* self = nullptr;
  must("create", [&](auto* e) { return table->create(host.table(), &spec, nullptr, 0, &self, e); });
  return {table, self};
}

}  // namespace

RunnerRig::RunnerRig(const Feature& feature, const RunnerCase& c)
    : table(feature.table<moert_moe_runner_t>()),
      host(settings().seed),
      place(feature.device),
      random(c.label),
      case_(c),
      router_case_(c.router()),
      router_(router_case_, random) {
  for (int64_t e = 0; e < c.local(); ++e)
    experts_.push_back(make_mlp(random, c.width(), RunnerCase::i, true, false, {}, c.dtype));
  if (c.shared) shared_ = make_mlp(random, RunnerCase::h, RunnerCase::i, true, false, {}, c.dtype);
  create(feature);
  load();
}

RunnerRig::~RunnerRig() {
  if (self != nullptr) table.destroy(self);
  EXPECT_EQ(host.live(), 0u) << "destroy left host memory behind";
}

void RunnerRig::create(const Feature& feature) {
  const char* scheme = dtype_name(case_.dtype).data();
  ExpertsCase experts = {case_.width(), RunnerCase::i, RunnerCase::experts, RunnerCase::k};
  experts.dtype = case_.dtype;
  experts.out_dtype = case_.dtype;
  const bool later = case_.shared || case_.output_scale != 1 || case_.flags() != 0;
  if (later) experts.out_dtype = MOERT_DTYPE_F32;
  Problem problem(experts, place.id());
  problem.record.num_physical_experts = problem.record.num_local_experts = case_.local();
  const moert_routing_t routing = routing_of(router_case_, place.id());
  moert_shared_problem_t shared{};
  shared.struct_size = sizeof shared;
  shared.device = place.id();
  shared.max_tokens = kMaxTokens;
  shared.hidden_size = RunnerCase::h;
  shared.intermediate_size = RunnerCase::i;
  shared.activation_dtype = case_.dtype;
  shared.output_dtype = MOERT_DTYPE_F32;
  shared.weight_scheme = scheme;
  shared.act_scheme = "none";
  shared.activation = &problem.activation;
  shared.tp_size = 1;
  const moert_moe_layer_t layer = {sizeof layer,
                                   case_.flags(),
                                   &problem.record,
                                   &routing,
                                   case_.shared ? &shared : nullptr,
                                   case_.output_scale,
                                   scheme,
                                   case_.shared_scale,
                                   RunnerCase::eps,
                                   RunnerCase::h};
  support.struct_size = sizeof support;
  must("supports", [&](auto* e) { return table.supports(host.table(), &layer, &support, e); });
  if (support.verdict == 0) throw Skip{support.reason};
  hides_routing_ = (support.flags & MOERT_SUPPORT_HIDES_ROUTING) != 0;
  moert_moe_parts_t parts{};
  parts.struct_size = sizeof parts;
  if ((support.flags & MOERT_SUPPORT_MONOLITHIC) == 0) {
    std::tie(parts.router, parts.router_self) =
        make_part<moert_router_t>(feature, MOERT_KIND_ROUTER, host, routing, support.flags);
    std::tie(parts.experts, parts.experts_self) = make_part<moert_routed_experts_t>(
        feature, MOERT_KIND_ROUTED_EXPERTS, host, problem.record, support.flags);
    if (case_.shared)
      std::tie(parts.shared, parts.shared_self) = make_part<moert_shared_experts_t>(
          feature, MOERT_KIND_SHARED_EXPERTS, host, shared, support.flags);
  }
  must("create",
       [&](auto* e) { return table.create(host.table(), &layer, &parts, nullptr, 0, &self, e); });
}

Values RunnerRig::matrix(int64_t rows, int64_t cols) {
  std::vector<double> numbers(static_cast<size_t>(rows * cols));
  for (double& x : numbers) x = random.uniform() / std::sqrt(static_cast<double>(cols));
  return rounded(case_.dtype, numbers);
}

void RunnerRig::load_layer(uint32_t part, const Values& values, int64_t rows, int64_t cols) {
  const void* data = values.bytes.data();
  const TensorView view = cols > 0 ? TensorView(data, case_.dtype, {rows, cols})
                                   : TensorView(data, case_.dtype, {rows});
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  piece.part = part;
  piece.tensor = view;
  piece.quant = &plain_quant();
  must("load_layer", [&](auto* e) { return table.load_layer(self, &piece, e); });
}

void RunnerRig::load_mlp(const Mlp& mlp, int64_t expert, bool shared, uint32_t dtype) {
  const std::pair<uint32_t, const Values*> parts[] = {
      {MOERT_PART_GATE, &mlp.gate}, {MOERT_PART_UP, &mlp.up}, {MOERT_PART_DOWN, &mlp.down}};
  for (const auto& [part, values] : parts) {
    const bool down = part == MOERT_PART_DOWN;
    const void* data = values->bytes.data();
    TensorView view(data, dtype, {down ? mlp.h : mlp.i, down ? mlp.i : mlp.h});
    moert_quant_view_t quant{};
    quant.struct_size = sizeof quant;
    quant.scheme = dtype_name(dtype).data();
    quant.layout = "canonical";
    view.set_quant(&quant);
    moert_piece_t piece{};
    piece.struct_size = sizeof piece;
    piece.expert = expert;
    piece.part = part;
    piece.tensor = view;
    piece.quant = &plain_quant();
    must("load", [&](auto* e) {
      return shared ? table.load_shared(self, &piece, e) : table.load_expert(self, &piece, e);
    });
  }
}

void RunnerRig::load() {
  const TensorView gate(static_cast<const void*>(router_.gate.bytes.data()), case_.dtype,
                        {router_case_.e, RouterCase::h});
  must("load_router",
       [&](auto* e) { return table.load_router(self, MOERT_ROUTER_GATE_WEIGHT, gate, e); });
  const TensorView table_of_tokens(static_cast<const void*>(router_.table.data()), MOERT_DTYPE_I32,
                                   {RouterTensors::kVocabulary, RunnerCase::k});
  if (case_.hash)
    must("load_router", [&](auto* e) {
      return table.load_router(self, MOERT_ROUTER_TOKEN_TABLE, table_of_tokens, e);
    });
  for (size_t e = 0; e < experts_.size(); ++e)
    load_mlp(experts_[e], static_cast<int64_t>(e), false, case_.dtype);
  if (shared_) load_mlp(*shared_, 0, true, case_.dtype);
  if (case_.latent > 0) {
    down_ = matrix(case_.latent, RunnerCase::h);
    up_ = matrix(RunnerCase::h, case_.latent);
    load_layer(MOERT_PART_LATENT_DOWN, down_, case_.latent, RunnerCase::h);
    load_layer(MOERT_PART_LATENT_UP, up_, RunnerCase::h, case_.latent);
  }
  if (case_.norm_in || case_.norm_out) {
    norm_ = matrix(case_.width(), 1);
    load_layer(MOERT_PART_EXPERT_NORM, norm_, case_.width(), 0);
  }
  if (case_.bias) {
    bias_ = matrix(RunnerCase::h, 1);
    load_layer(MOERT_PART_OUTPUT_BIAS, bias_, RunnerCase::h, 0);
  }
  must("finish", [&](auto* e) { return table.finish(self, e); });
}

RunnerRows RunnerRig::rows(int64_t tokens) {
  RunnerRows made;
  made.tokens = tokens;
  std::vector<double> numbers(static_cast<size_t>(tokens * RunnerCase::h));
  for (double& x : numbers) x = random.uniform();
  made.hidden = rounded(case_.dtype, numbers);
  for (int64_t t = 0; case_.hash && t < tokens; ++t)
    made.token_ids.push_back(random.below(RouterTensors::kVocabulary));
  return made;
}

namespace {
uint64_t workspace_bytes(const RunnerRig& rig, int64_t tokens) {
  uint64_t bytes = 0;
  must("workspace", [&](auto* e) { return rig.table.workspace(rig.self, tokens, &bytes, e); });
  return bytes;
}
}  // namespace

RunnerRig::Call::Call(RunnerRig& of, const RunnerRows& rows)
    : rig(of),
      hidden(rig.place, rig.case_.dtype, {rows.tokens, RunnerCase::h}, rows.hidden.bytes),
      logits(rig.place, MOERT_DTYPE_F32, {rows.tokens, rig.case_.ids()}),
      ids(rig.place, MOERT_DTYPE_I32, {rows.tokens, RunnerCase::k}),
      weights(rig.place, MOERT_DTYPE_F32, {rows.tokens, RunnerCase::k}),
      margins(rig.place, MOERT_DTYPE_F32, {rows.tokens}),
      out(rig.place, rig.case_.dtype, {rows.tokens, RunnerCase::h}),
      forced(rig.place, MOERT_DTYPE_I32, {rows.tokens, RunnerCase::k}),
      token_ids(rig.place, MOERT_DTYPE_I64, {rows.tokens}),
      valid(rig.place, MOERT_DTYPE_U8, {rows.tokens}),
      workspace(rig.place, workspace_bytes(rig, rows.tokens)) {
  if (rig.hides_routing_) throw Skip{"hides its routing, and without it outputs cannot be judged"};
  args.struct_size = sizeof args;
  args.stream = rig.place.stream();
  args.hidden = hidden.get();
  args.logits = logits.get();
  args.ids = ids.get();
  args.weights = weights.get();
  args.margins = margins.get();
  args.out = out.get();
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  if (!rows.logits.empty()) {
    logits.buffer().write(bytes_of(rows.logits));
    args.has_logits = 1;
  }
  if (!rows.forced.empty()) {
    forced.buffer().write(bytes_of(rows.forced));
    args.forced_ids = forced.get();
  }
  if (rig.case_.hash) {
    token_ids.buffer().write(bytes_of(rows.token_ids));
    args.token_ids = token_ids.get();
  }
  if (!rows.valid.empty()) {
    valid.buffer().write(bytes_of(rows.valid));
    args.valid = valid.get();
  }
}

void RunnerRig::Call::run() {
  must("forward", [&](auto* e) { return rig.table.forward(rig.self, &args, e); });
}

void RunnerRig::Call::read(RunnerRows& rows) {
  rows.out = out.read();
  rows.decisions = {values_of<int32_t>(ids.read()), values_of<float>(weights.read()),
                    values_of<float>(margins.read())};
  rows.logits = values_of<float>(logits.read());
  EXPECT_TRUE(hidden.read() == rows.hidden.bytes) << "forward changed hidden";
  out.buffer().expect_guards("out");
  ids.buffer().expect_guards("ids");
  weights.buffer().expect_guards("weights");
  workspace.expect_guards("the workspace");
}

void RunnerRig::forward(RunnerRows& rows) {
  Call call(*this, rows);
  call.run();
  call.read(rows);
}

std::vector<int64_t> RunnerRig::statistics(bool reset) {
  std::vector<int64_t> counts(static_cast<size_t>(case_.ids()), -1);
  const TensorView view(counts.data(), MOERT_DTYPE_I64, {case_.ids()});
  must("load_statistics",
       [&](auto* e) { return table.load_statistics(self, view, reset ? 1 : 0, e); });
  return counts;
}

void RunnerRig::set_map(const std::vector<int32_t>& map, int64_t copies) {
  const TensorView view(static_cast<const void*>(map.data()), MOERT_DTYPE_I32,
                        {RunnerCase::experts, copies});
  must("set_expert_map", [&](auto* e) { return table.set_expert_map(self, view, e); });
}

}  // namespace moert::conformance
