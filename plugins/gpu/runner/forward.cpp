// One forward of a layer on a GPU: stages in the order of docs/numerics.md, "The layer".
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/tensor.hpp>

#include "../dense/numbers.hpp"
#include "../runtime.hpp"
#include "call_part.hpp"
#include "runner.hpp"

namespace moert::gpu {

// Where the pieces of a forward's workspace begin.
struct GpuRunner::Workspace {
  void *router = nullptr, *experts = nullptr, *shared = nullptr;
  uint64_t router_bytes = 0, experts_bytes = 0, shared_bytes = 0;
  void* expert_in = nullptr;
  float *routed_out = nullptr, *shared_out = nullptr;
  int32_t* forced_ids = nullptr;  // these two where rows are padded
  int64_t* token_ids = nullptr;
  int32_t* local_ids = nullptr;
  double* zero_weights = nullptr;
  ExpertSpace::Memory space;
  uint64_t total = 0;
};

// Arguments that were checked.
struct GpuRunner::Rows {
  int64_t tokens;
  Matrix hidden, ids, weights, out;
  Strided<const int32_t> forced;  // this and the next two: no data where they are not given
  Strided<const int64_t> token_ids;
  Strided<const uint8_t> valid;
};

GpuRunner::Workspace GpuRunner::carve(void* memory, int64_t tokens) {
  Workspace ws;
  call_part("workspace", parts_.router->workspace, parts_.router_self, tokens, &ws.router_bytes);
  call_part("workspace", parts_.experts->workspace, parts_.experts_self, tokens, &ws.experts_bytes);
  if (parts_.shared != nullptr)
    call_part("workspace", parts_.shared->workspace, parts_.shared_self, tokens, &ws.shared_bytes);
  Arena arena(memory);
  ws.router = arena.take_bytes(ws.router_bytes);
  ws.experts = arena.take_bytes(ws.experts_bytes);
  ws.shared = arena.take_bytes(ws.shared_bytes);
  const int64_t width = space_.width();
  if (space_.has_input()) ws.expert_in = arena.take_bytes(dtype_bytes(dtype_, tokens * width));
  if (rounds_later_) ws.routed_out = arena.take<float>(tokens * width);
  if (parts_.shared != nullptr) ws.shared_out = arena.take<float>(tokens * hidden_size_);
  ws.forced_ids = arena.take<int32_t>(tokens * top_k_);
  ws.token_ids = arena.take<int64_t>(tokens);
  ws.local_ids = arena.take<int32_t>(tokens * top_k_);
  if (num_ids_ != num_experts_) ws.zero_weights = arena.take<double>(tokens);
  ws.space = space_.carve(arena, tokens);
  ws.total = arena.used();
  return ws;
}

uint64_t GpuRunner::workspace(int64_t tokens) { return carve(nullptr, tokens).total; }

GpuRunner::Rows GpuRunner::check(const moert_runner_args_t& args) const {
  must_understand(args.flags, 0, "runner_args");
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  Rows rows{};
  rows.hidden = matrix(args.hidden, "hidden", {dtype_}, -1, hidden_size_, device_);
  rows.tokens = rows.hidden.rows;
  matrix(args.logits, "logits", {MOERT_DTYPE_F32}, rows.tokens, num_ids_, device_);
  rows.ids = matrix(args.ids, "ids", {MOERT_DTYPE_I32}, rows.tokens, top_k_, device_);
  rows.weights = matrix(args.weights, "weights", {MOERT_DTYPE_F32}, rows.tokens, top_k_, device_);
  rows.out = matrix(args.out, "out", {dtype_}, rows.tokens, hidden_size_, device_);
  // What the router alone reads is looked at here too: when it refuses, others have enqueued their work.
  if (args.margins != nullptr)
    matrix(args.margins, "margins", {MOERT_DTYPE_F32}, 1, rows.tokens, device_);
  if (args.forced_ids != nullptr)
    rows.forced = strided<const int32_t>(
        matrix(args.forced_ids, "forced ids", {MOERT_DTYPE_I32}, rows.tokens, top_k_, device_));
  if (args.token_ids != nullptr)
    rows.token_ids = column<const int64_t>(
        matrix(args.token_ids, "token ids", {MOERT_DTYPE_I64}, 1, rows.tokens, device_));
  if (args.valid != nullptr)
    rows.valid = column<const uint8_t>(
        matrix(args.valid, "valid", {MOERT_DTYPE_U8}, 1, rows.tokens, device_));
  return rows;
}

void GpuRunner::forward(const moert_runner_args_t& args) {
  void* stream = native_stream(args.stream, device_);
  const Rows rows = check(args);
  const Workspace ws = carve(args.workspace, rows.tokens);
  expect_workspace(args.workspace, args.workspace_bytes, ws.total);
  const CurrentDevice current(device_.ordinal);
  if (parts_.shared != nullptr) run_shared(args, ws, rows.tokens);
  route(args, rows, ws);
  settle_slots(rows, ws, stream);
  run_experts(args, rows, ws);
  if (rounds_later_) combine(rows, ws, stream);
}

void GpuRunner::run_shared(const moert_runner_args_t& args, const Workspace& ws, int64_t tokens) {
  TensorView out(ws.shared_out, MOERT_DTYPE_F32, {tokens, hidden_size_});
  out.set_device(device_);
  const moert_shared_args_t shared = {sizeof shared, 0,         args.stream,    args.hidden,
                                      out,           ws.shared, ws.shared_bytes};
  call_part("forward", parts_.shared->forward, parts_.shared_self, &shared);
}

void GpuRunner::route(const moert_runner_args_t& args, const Rows& rows, const Workspace& ws) {
  TensorView forced(ws.forced_ids, MOERT_DTYPE_I32, {rows.tokens, top_k_});
  TensorView token_ids(ws.token_ids, MOERT_DTYPE_I64, {rows.tokens});
  forced.set_device(device_);
  token_ids.set_device(device_);
  moert_router_args_t router{};
  router.struct_size = sizeof router;
  router.stream = args.stream;
  router.hidden = args.hidden;
  router.token_ids = args.token_ids;
  router.logits = args.logits;
  router.ids = args.ids;
  router.weights = args.weights;
  router.margins = args.margins;
  router.forced_ids = args.forced_ids;
  router.workspace = ws.router;
  router.workspace_bytes = ws.router_bytes;
  if (args.valid != nullptr && (args.forced_ids != nullptr || args.token_ids != nullptr)) {
    launch_router_rows(args.stream->native,
                       {rows.tokens, static_cast<int32_t>(top_k_), rows.valid, rows.forced,
                        ws.forced_ids, rows.token_ids, ws.token_ids});
    if (args.forced_ids != nullptr) router.forced_ids = forced;
    if (args.token_ids != nullptr) router.token_ids = token_ids;
  }
  if (args.has_logits == 0) call_part("logits", parts_.router->logits, parts_.router_self, &router);
  call_part("route", parts_.router->route, parts_.router_self, &router);
}

// Padded rows, counts, local ids, and what zero experts weigh.
void GpuRunner::settle_slots(const Rows& rows, const Workspace& ws, void* stream) const {
  SlotsArgs slots;
  slots.tokens = rows.tokens;
  slots.top_k = static_cast<int32_t>(top_k_);
  slots.ids = strided<int32_t>(rows.ids);
  slots.weights = strided<float>(rows.weights);
  slots.valid = rows.valid;
  slots.map = map_.view();
  slots.counts = counts_.data<uint64_t>();
  slots.local_ids = ws.local_ids;
  slots.zero_scale = output_scale_;
  slots.zero_weights = ws.zero_weights;
  launch_slots(stream, slots);
}

void GpuRunner::run_experts(const moert_runner_args_t& args, const Rows& rows,
                            const Workspace& ws) {
  const auto view = [&](void* data, uint32_t dtype, int64_t cols) {
    TensorView made(data, dtype, {rows.tokens, cols});
    made.set_device(device_);
    return made;
  };
  const int64_t width = space_.width();
  const TensorView local = view(ws.local_ids, MOERT_DTYPE_I32, top_k_);
  const TensorView inner = view(ws.expert_in, dtype_, width);
  const TensorView routed = view(ws.routed_out, MOERT_DTYPE_F32, width);
  if (space_.has_input())
    space_.enter(
        warp_, args.stream->native, ws.space, float_rows(rows.hidden),
        float_rows(matrix(inner, "rows of the experts", {dtype_}, rows.tokens, width, device_)));
  const moert_experts_args_t experts = {sizeof experts,
                                        0,
                                        args.stream,
                                        space_.has_input() ? inner.get() : args.hidden,
                                        local,
                                        args.weights,
                                        rounds_later_ ? routed.get() : args.out,
                                        ws.experts,
                                        ws.experts_bytes,
                                        nullptr};
  call_part("forward", parts_.experts->forward, parts_.experts_self, &experts);
}

void GpuRunner::combine(const Rows& rows, const Workspace& ws, void* stream) const {
  TensorView routed(ws.routed_out, MOERT_DTYPE_F32, {rows.tokens, space_.width()});
  routed.set_device(device_);
  const Matrix given =
      matrix(routed, "routed", {MOERT_DTYPE_F32}, rows.tokens, space_.width(), device_);
  OutputArgs work;
  work.out = float_rows(rows.out);
  work.scale = output_scale_;
  work.shared = ws.shared_out;
  work.shared_scale = shared_scale_;
  work.zero_weights = ws.zero_weights;
  work.hidden = float_rows(rows.hidden);
  work.valid = rows.valid;
  space_.leave(warp_, stream, ws.space, float_rows(given), work);
}

}  // namespace moert::gpu
