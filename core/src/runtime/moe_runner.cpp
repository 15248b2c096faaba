// SPDX-License-Identifier: Apache-2.0
#include "runtime/moe_runner.hpp"

#include <algorithm>
#include <cstring>

#include <moert/sdk/tensor.hpp>

namespace moert::runtime {

namespace {

constexpr uint64_t kAlign = 64;
constexpr uint32_t kLayerFlags = MOERT_LAYER_ZERO_EXPERTS | MOERT_LAYER_LATENT |
                                 MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT |
                                 MOERT_LAYER_OUTPUT_BIAS | MOERT_LAYER_SHARED_SCALE;

// A layer that may be asked about, or the reason why not.
std::string refusal_of(const moert_moe_layer_t& layer) {
  if ((layer.flags & ~kLayerFlags) != 0)
    return "layer flag bits " + std::to_string(layer.flags & ~kLayerFlags) + " are not known here";
  if (layer.experts == nullptr || layer.routing == nullptr) return "the layer is incomplete";
  if (layer.experts->device.kind != MOERT_DEVICE_CPU)
    return "combines rows on the host, and the device's memory is not host memory";
  const auto has = [&layer](uint32_t flag) { return (layer.flags & flag) != 0; };
  if (layer.hidden_size != 0 && layer.hidden_size != layer.experts->hidden_size &&
      !has(MOERT_LAYER_LATENT))
    return "experts of width " + std::to_string(layer.experts->hidden_size) +
           " in a layer of width " + std::to_string(layer.hidden_size) + " without a latent width";
  if (has(MOERT_LAYER_NORM_IN) && has(MOERT_LAYER_NORM_OUT))
    return "norms of what experts read and of what they give: only one of them";
  const bool zero = has(MOERT_LAYER_ZERO_EXPERTS);
  if ((layer.routing->num_experts > layer.experts->num_experts) != zero)
    return "the router has " + std::to_string(layer.routing->num_experts) + " experts, the layer " +
           std::to_string(layer.experts->num_experts);
  return {};
}

ExpertSpace space_of(const Host& host, const moert_moe_layer_t& layer) {
  if (const std::string reason = refusal_of(layer); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return {host, layer};
}

uint64_t aligned(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Calls a part and passes its error on in full.
template <class Function, class... Arguments>
void call_part(Function function, Arguments... arguments) {
  moert_error_t error;
  error.struct_size = sizeof error;
  error.native_code = 0;
  error.message[0] = '\0';
  const moert_code_t code = function(arguments..., &error);
  error.message[sizeof error.message - 1] = '\0';  // should the part have forgotten
  if (code != MOERT_OK) throw PluginError(code, error.message, error.native_code);
}

// What the router is told of each row, [tokens] or [tokens, cols]. Padded rows have stale numbers, which must not look
// like wrong ones: they become -1, which asks for no expert and is no token. Elements need not be aligned.
template <class T>
void copy_unpadded(const moert_tensor_t& from, const uint8_t* valid, T* to) {
  const int64_t cols = from.rank == 2 ? from.shape[1] : 1,
                step = from.rank == 2 ? from.strides[1] : 0;
  const auto* data = static_cast<const std::byte*>(from.data);
  for (int64_t t = 0; t < from.shape[0]; ++t)
    for (int64_t c = 0; c < cols; ++c, ++to) {
      *to = -1;
      if (valid[t] == 0) continue;
      const int64_t at = t * from.strides[0] + c * step;
      std::memcpy(to, data + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
    }
}

}  // namespace

// Where the pieces of a forward's workspace begin.
struct MoERunner::Workspace {
  void *router, *experts, *shared;
  uint64_t router_bytes, experts_bytes, shared_bytes;
  void* expert_in;
  float *routed_out, *shared_out;
  double* rows;
  int32_t* forced_ids;  // these two where rows are padded
  int64_t* token_ids;
  int32_t* local_ids;
  uint64_t total;
};

Support MoERunner::supports(const Host&, const moert_moe_layer_t& layer) {
  if (const std::string reason = refusal_of(layer); !reason.empty()) return Support::no(reason);
  return Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_CONCURRENT_LOAD);
}

MoERunner::MoERunner(const Host& host, const moert_moe_layer_t& layer,
                     const moert_moe_parts_t* parts, const Options& options)
    : host_(host), space_(space_of(host, layer)) {
  options.allow({});
  if (parts == nullptr || parts->router == nullptr || parts->experts == nullptr)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a modular runner needs a router and routed experts");
  if ((layer.shared != nullptr) != (parts->shared != nullptr))
    throw PluginError(MOERT_INVALID_ARGUMENT, "shared experts: the layer and the parts disagree");
  const moert_moe_problem_t problem = intake(layer.experts);
  device_ = problem.device;
  layer_id_ = problem.layer_id;
  hidden_size_ = space_.hidden_size();
  num_experts_ = problem.num_experts;
  num_ids_ = intake(layer.routing).num_experts;
  num_local_ = problem.num_local_experts;
  top_k_ = problem.top_k;
  dtype_ = problem.activation_dtype;
  output_scale_ = layer.output_scale;
  if ((layer.flags & MOERT_LAYER_SHARED_SCALE) != 0) shared_scale_ = layer.shared_scale;
  rounds_later_ = parts->shared != nullptr || output_scale_ != 1.0 || layer.flags != 0;
  activation_ = problem.activation->name;
  scheme_ = problem.weight_scheme;
  counts_.assign(static_cast<size_t>(num_ids_), 0);
  parts_ = intake(parts);
}

MoERunner::~MoERunner() {
  if (parts_.shared != nullptr) parts_.shared->destroy(parts_.shared_self);
  if (parts_.experts != nullptr) parts_.experts->destroy(parts_.experts_self);
  if (parts_.router != nullptr) parts_.router->destroy(parts_.router_self);
}

void MoERunner::load_expert(const moert_piece_t& piece) {
  call_part(parts_.experts->load, parts_.experts_self, &piece);
}

void MoERunner::load_router(uint32_t which, const moert_tensor_t& tensor) {
  call_part(parts_.router->load, parts_.router_self, which, &tensor);
}

void MoERunner::load_shared(const moert_piece_t& piece) {
  if (parts_.shared == nullptr)
    throw PluginError(MOERT_FAILED_PRECONDITION, "the layer has no shared experts");
  call_part(parts_.shared->load, parts_.shared_self, &piece);
}

void MoERunner::load_layer(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  space_.load(piece);
}

void MoERunner::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called twice");
  space_.expect_complete();
  call_part(parts_.router->finish, parts_.router_self);
  call_part(parts_.experts->finish, parts_.experts_self);
  if (parts_.shared != nullptr) call_part(parts_.shared->finish, parts_.shared_self);
  finished_ = true;
}

MoERunner::Workspace MoERunner::carve(void* memory, uint64_t bytes, int64_t tokens) {
  Workspace ws{};
  call_part(parts_.router->workspace, parts_.router_self, tokens, &ws.router_bytes);
  call_part(parts_.experts->workspace, parts_.experts_self, tokens, &ws.experts_bytes);
  if (parts_.shared != nullptr)
    call_part(parts_.shared->workspace, parts_.shared_self, tokens, &ws.shared_bytes);
  const uint64_t rows =
      static_cast<uint64_t>(tokens) * static_cast<uint64_t>(hidden_size_) * sizeof(float);
  auto* base = static_cast<std::byte*>(memory);
  const auto take = [&](uint64_t size) -> void* {
    void* begin = base == nullptr ? nullptr : base + ws.total;
    ws.total += aligned(size);
    return begin;
  };
  ws.router = take(ws.router_bytes);
  ws.experts = take(ws.experts_bytes);
  ws.shared = take(ws.shared_bytes);
  const auto width = static_cast<uint64_t>(space_.width());
  const auto count = static_cast<uint64_t>(tokens);
  if (space_.has_input()) ws.expert_in = take(count * dtype_bytes(dtype_, space_.width()));
  if (rounds_later_) {
    ws.routed_out = static_cast<float*>(take(count * width * sizeof(float)));
    const auto scratch = static_cast<uint64_t>(space_.scratch());
    ws.rows = static_cast<double*>(
        take(static_cast<uint64_t>(host_.num_threads()) * scratch * sizeof(double)));
  }
  if (parts_.shared != nullptr) ws.shared_out = static_cast<float*>(take(rows));
  const uint64_t slots = count * static_cast<uint64_t>(top_k_);
  ws.forced_ids = static_cast<int32_t*>(take(slots * sizeof(int32_t)));
  ws.token_ids = static_cast<int64_t*>(take(count * sizeof(int64_t)));
  ws.local_ids = static_cast<int32_t*>(take(slots * sizeof(int32_t)));
  if (base != nullptr && ws.total > bytes)
    throw PluginError(MOERT_INVALID_ARGUMENT, "the workspace has " + std::to_string(bytes) +
                                                  " bytes, " + std::to_string(ws.total) +
                                                  " are needed");
  return ws;
}

uint64_t MoERunner::workspace(int64_t tokens) { return carve(nullptr, 0, tokens).total; }

void MoERunner::forward(const moert_runner_args_t& args) {
  must_understand(args.flags, 0, "runner_args");
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  const int64_t tokens = expect_tensor(args.hidden, "hidden", dtype_, {-1, hidden_size_}).shape[0];
  expect_tensor(args.logits, "logits", MOERT_DTYPE_F32, {tokens, num_ids_});
  expect_tensor(args.ids, "ids", MOERT_DTYPE_I32, {tokens, top_k_});
  expect_tensor(args.weights, "weights", MOERT_DTYPE_F32, {tokens, top_k_});
  expect_tensor(args.out, "out", dtype_, {tokens, hidden_size_});
  if (args.valid != nullptr) expect_tensor(args.valid, "valid", MOERT_DTYPE_U8, {tokens});
  if (args.workspace == nullptr && workspace(tokens) != 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "the workspace is missing");
  const Workspace ws = carve(args.workspace, args.workspace_bytes, tokens);

  if (parts_.shared != nullptr) {
    const TensorView out(ws.shared_out, MOERT_DTYPE_F32, {tokens, hidden_size_});
    const moert_shared_args_t shared = {sizeof shared, 0,         args.stream,    args.hidden,
                                        out,           ws.shared, ws.shared_bytes};
    call_part(parts_.shared->forward, parts_.shared_self, &shared);
  }
  route(args, ws, tokens);
  mask_and_count(args, tokens);
  run_experts(args, ws, tokens);
  if (rounds_later_) combine(args, ws, tokens);
}

void MoERunner::run_experts(const moert_runner_args_t& args, const Workspace& ws, int64_t tokens) {
  const TensorView local(ws.local_ids, MOERT_DTYPE_I32, {tokens, top_k_});
  const TensorView inner(ws.expert_in, dtype_, {tokens, space_.width()});
  const TensorView routed(ws.routed_out, MOERT_DTYPE_F32, {tokens, space_.width()});
  if (space_.has_input()) space_.enter(*args.hidden, *inner.get(), ws.rows);
  const moert_experts_args_t experts = {sizeof experts,
                                        0,
                                        args.stream,
                                        space_.has_input() ? inner.get() : args.hidden,
                                        local_ids(args, *local.get(), tokens),
                                        args.weights,
                                        rounds_later_ ? routed.get() : args.out,
                                        ws.experts,
                                        ws.experts_bytes,
                                        nullptr};
  call_part(parts_.experts->forward, parts_.experts_self, &experts);
}

void MoERunner::route(const moert_runner_args_t& args, const Workspace& ws, int64_t tokens) {
  const TensorView forced(ws.forced_ids, MOERT_DTYPE_I32, {tokens, top_k_});
  const TensorView token_ids(ws.token_ids, MOERT_DTYPE_I64, {tokens});
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
  if (args.valid != nullptr) {
    const auto* valid = static_cast<const uint8_t*>(args.valid->data);
    if (args.forced_ids != nullptr) {
      expect_tensor(args.forced_ids, "forced ids", MOERT_DTYPE_I32, {tokens, top_k_});
      copy_unpadded(*args.forced_ids, valid, ws.forced_ids);
      router.forced_ids = forced;
    }
    if (args.token_ids != nullptr) {
      expect_tensor(args.token_ids, "token ids", MOERT_DTYPE_I64, {tokens});
      copy_unpadded(*args.token_ids, valid, ws.token_ids);
      router.token_ids = token_ids;
    }
  }
  if (args.has_logits == 0) call_part(parts_.router->logits, parts_.router_self, &router);
  call_part(parts_.router->route, parts_.router_self, &router);
}

// Padded rows lose their ids, so that every later stage leaves them alone; the others are counted.
void MoERunner::mask_and_count(const moert_runner_args_t& args, int64_t tokens) {
  const auto* valid =
      args.valid != nullptr ? static_cast<const uint8_t*>(args.valid->data) : nullptr;
  for (int64_t t = 0; t < tokens; ++t) {
    auto* ids = row_of<int32_t>(*args.ids, t);
    if (valid != nullptr && valid[t] == 0) {
      std::fill_n(ids, top_k_, -1);
      std::fill_n(row_of<float>(*args.weights, t), top_k_, 0.0f);
      continue;
    }
    for (int64_t j = 0; j < top_k_; ++j)
      if (ids[j] >= 0 && ids[j] < num_ids_) ++counts_[static_cast<size_t>(ids[j])];
  }
}

const moert_tensor_t* MoERunner::local_ids(const moert_runner_args_t& args,
                                           const moert_tensor_t& local, int64_t tokens) const {
  if (map_.empty() && num_ids_ == num_experts_) return args.ids;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto* ids = row_of<int32_t>(*args.ids, t);
    auto* to = row_of<int32_t>(local, t);
    for (int64_t j = 0; j < top_k_; ++j) {
      to[j] = -1;
      if (ids[j] < 0 || ids[j] >= num_experts_) continue;
      if (map_.empty()) {
        to[j] = ids[j];
        continue;
      }
      const int32_t* copies = &map_[static_cast<size_t>(ids[j] * copies_)];
      const int64_t held =
          std::count_if(copies, copies + copies_, [](int32_t id) { return id >= 0; });
      if (held > 0) to[j] = copies[t % held];
    }
  }
  return &local;
}

void MoERunner::combine(const moert_runner_args_t& args, const Workspace& ws,
                        int64_t tokens) const {
  const int64_t scratch = space_.scratch();
  host_.parallel_for(tokens, 1, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t t = begin; t < end; ++t) combine_row(args, ws, t, ws.rows + worker * scratch);
  });
}

void MoERunner::combine_row(const moert_runner_args_t& args, const Workspace& ws, int64_t t,
                            double* scratch) const {
  const bool padded =
      args.valid != nullptr && static_cast<const uint8_t*>(args.valid->data)[t] == 0;
  double* sum = scratch + space_.width();
  space_.leave(ws.routed_out + t * space_.width(), output_scale_, scratch, sum);
  // Zero experts return the layer's own row; their sum is what weighs it.
  double zero = 0;
  const auto* ids = row_of<int32_t>(*args.ids, t);
  for (int64_t j = 0; j < top_k_; ++j)
    if (ids[j] >= num_experts_)
      zero += output_scale_ * static_cast<double>(row_of<float>(*args.weights, t)[j]);
  for (int64_t h = 0; h < hidden_size_; ++h) {
    if (ws.shared_out != nullptr)
      sum[h] += shared_scale_ * static_cast<double>(ws.shared_out[t * hidden_size_ + h]);
    if (zero != 0)
      sum[h] += zero * static_cast<double>(read_f32(*args.hidden, t * args.hidden->strides[0] +
                                                                      h * args.hidden->strides[1]));
    write_f32(*args.out, t * args.out->strides[0] + h, padded ? 0.0f : static_cast<float>(sum[h]));
  }
}

void MoERunner::set_expert_map(const moert_tensor_t& map) {
  expect_tensor(&map, "expert map", MOERT_DTYPE_I32, {num_experts_, -1});
  const int64_t copies = map.shape[1];
  std::vector<int32_t> fresh(static_cast<size_t>(num_experts_ * copies), -1);
  for (int64_t e = 0; e < num_experts_; ++e) {
    int64_t held = 0;  // copies stand at the front of the row
    for (int64_t r = 0; r < copies; ++r) {
      const int32_t id =
          static_cast<const int32_t*>(map.data)[e * map.strides[0] + r * map.strides[1]];
      if (id < -1 || id >= num_local_)
        throw PluginError(MOERT_OUT_OF_RANGE, "expert map of expert " + std::to_string(e) +
                                                  " names local id " + std::to_string(id) + " of " +
                                                  std::to_string(num_local_));
      if (id >= 0) fresh[static_cast<size_t>(e * copies + held++)] = id;
    }
  }
  map_ = std::move(fresh);
  copies_ = copies;
}

void MoERunner::expert_map(const moert_tensor_t& map) const {
  expect_tensor(&map, "expert map", MOERT_DTYPE_I32, {num_experts_, copies_});
  for (int64_t e = 0; e < num_experts_; ++e)
    for (int64_t r = 0; r < copies_; ++r)
      static_cast<int32_t*>(map.data)[e * map.strides[0] + r * map.strides[1]] =
          map_.empty() ? static_cast<int32_t>(e) : map_[static_cast<size_t>(e * copies_ + r)];
}

void MoERunner::load_statistics(const moert_tensor_t& counts, bool reset) {
  expect_tensor(&counts, "counts", MOERT_DTYPE_I64, {num_ids_});
  for (int64_t e = 0; e < num_ids_; ++e)
    static_cast<int64_t*>(counts.data)[e * counts.strides[0]] = counts_[static_cast<size_t>(e)];
  if (reset) std::fill(counts_.begin(), counts_.end(), 0);
}

uint64_t MoERunner::bundle_bytes() {
  uint64_t bytes = 0;
  call_part(parts_.experts->bundle_bytes, parts_.experts_self, &bytes);
  return bytes;
}

void MoERunner::read_expert(int64_t expert, void* bundle, uint64_t bytes,
                            const moert_stream_t* stream) {
  call_part(parts_.experts->read_expert, parts_.experts_self, expert, bundle, bytes, stream);
}

void MoERunner::write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                             const moert_stream_t* stream) {
  call_part(parts_.experts->write_expert, parts_.experts_self, expert, bundle, bytes, stream);
}

}  // namespace moert::runtime
