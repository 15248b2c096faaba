// The GPU's runner with parts whose results can be told by hand; everything goes through the C tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <moert/sdk/plugin.hpp>

#include "gpu/dense/numbers.hpp"
#include "gpu/device_array.hpp"
#include "gpu/parts/runner_parts.hpp"
#include "gpu/runner/runner.hpp"
#include "unit/runtime/pieces.hpp"

namespace moert::gpu {

inline const moert_host_t kNoHost{};

// Token t goes to experts t mod E and (t + 1) mod E with weights 0.75 and 0.25; forced ids win, whatever they are.
// Those that are neither -1 nor experts are reported, and so are token ids. Logits are 7.
class FixedRouter : public Router {
 public:
  static constexpr FeatureInfo kFeature = {"test.router"};
  static Support supports(const Host&, const moert_routing_t&) { return Support::yes(); }
  FixedRouter(const Host&, const moert_routing_t&, const Options&) {}
  void load(uint32_t which, const moert_tensor_t&) override {
    throw PluginError(MOERT_DATA_LOSS, "tensor " + std::to_string(which) + " is odd", 77);
  }
  void finish() override {}
  void logits(const moert_router_args_t& args) override {
    const auto out = static_cast<float*>(args.logits->data);
    launch_fill_logits(args.stream->native, out, element_count(*args.logits));
  }
  void route(const moert_router_args_t& args) override {
    const auto data = [](const moert_tensor_t* given) {
      return given != nullptr ? static_cast<const void*>(given->data) : nullptr;
    };
    const Told told = {static_cast<const int32_t*>(data(args.forced_ids)),
                       static_cast<const int64_t*>(data(args.token_ids)), args.logits->shape[1],
                       fault_record(args.ids->device.ordinal)};
    launch_fill_slots(args.stream->native, static_cast<int32_t*>(args.ids->data),
                      static_cast<float*>(args.weights->data), told, args.ids->shape[0]);
  }
};

// Expert e multiplies its input by e + 1; id -1 adds nothing.
class ScalingExperts : public RoutedExperts {
 public:
  static constexpr FeatureInfo kFeature = {"test.experts"};
  static Support supports(const Host&, const moert_moe_problem_t&) { return Support::yes(); }
  ScalingExperts(const Host&, const moert_moe_problem_t&, const Options&) { ++alive; }
  ~ScalingExperts() override { --alive; }
  void load(const moert_piece_t&) override {}
  void finish() override {}
  uint64_t workspace(int64_t tokens) override { return static_cast<uint64_t>(tokens) * 3; }
  void forward(const moert_experts_args_t& args) override {
    const auto rows = [](const moert_tensor_t* t) {
      return float_rows(matrix(t, "rows", {t->dtype}, -1, -1, t->device));
    };
    launch_scale_rows(args.stream->native, rows(args.hidden), rows(args.out),
                      static_cast<const int32_t*>(args.ids->data),
                      static_cast<const float*>(args.weights->data));
  }
  static inline int alive = 0;
};

// 100 + t in row t.
class AddingShared : public SharedExperts {
 public:
  static constexpr FeatureInfo kFeature = {"test.shared"};
  static Support supports(const Host&, const moert_shared_problem_t&) { return Support::yes(); }
  AddingShared(const Host&, const moert_shared_problem_t&, const Options&) {}
  void load(const moert_piece_t&) override {}
  void finish() override {}
  void forward(const moert_shared_args_t& args) override {
    launch_fill_shared(args.stream->native, static_cast<float*>(args.out->data), args.out->shape[0],
                       args.out->shape[1]);
  }
};

struct RunnerLayer {
  const char* label;
  uint32_t flags = 0;
  bool shared = false;
  double output_scale = 1;
  int64_t hidden = 10, width = 10;  // of the layer's rows, and of the experts'
  uint32_t dtype = MOERT_DTYPE_F32;
  double shared_scale = 0;
  int64_t zero_experts = 0;
  bool has(uint32_t flag) const { return (flags & flag) != 0; }
};
inline void PrintTo(const RunnerLayer& c, std::ostream* out) { *out << c.label; }

class RunnerRig {
 public:
  explicit RunnerRig(const RunnerLayer& c, int32_t ordinal = 0)
      : c_(c), here_{kDeviceKind, ordinal} {
    describe();
    const moert_moe_parts_t parts = make_parts();
    code_ = table().create(&kNoHost, &layer_, &parts, nullptr, 0, &self_, &error_);
    if (code_ == MOERT_OK) return;
    parts.router->destroy(parts.router_self);  // a create that fails leaves them to the caller
    parts.experts->destroy(parts.experts_self);
    if (parts.shared != nullptr) parts.shared->destroy(parts.shared_self);
  }
  ~RunnerRig() {
    if (self_ != nullptr) table().destroy(self_);
  }
  RunnerRig(const RunnerRig&) = delete;
  RunnerRig& operator=(const RunnerRig&) = delete;

  const moert_moe_runner_t& table() const { return MoERunnerInterface::Kind::table<GpuRunner>; }
  void* self() const { return self_; }
  moert_error_t* error() { return &error_; }
  moert_code_t created() const { return code_; }
  const moert_moe_layer_t& layer() const { return layer_; }
  int64_t ids() const { return kExperts + c_.zero_experts; }
  void finish() { ASSERT_EQ(table().finish(self_, &error_), MOERT_OK) << error_.message; }
  void load(uint32_t part, const std::vector<float>& values, int64_t rows, int64_t cols) {
    const runtime::Stored stored(values, rows, cols, MOERT_DTYPE_F32, runtime::Stored::spread);
    const moert_piece_t piece = stored.piece(part);
    ASSERT_EQ(table().load_layer(self_, &piece, &error_), MOERT_OK) << error_.message;
  }
  void set_map(std::vector<int32_t> map, moert_code_t want = MOERT_OK) {
    const int64_t copies = static_cast<int64_t>(map.size()) / kExperts;
    const TensorView view(map.data(), MOERT_DTYPE_I32, {kExperts, copies});
    EXPECT_EQ(table().set_expert_map(self_, view, &error_), want) << error_.message;
  }
  std::vector<int64_t> statistics(bool reset) {
    std::vector<int64_t> counts(static_cast<size_t>(ids()), -1);
    const TensorView view(counts.data(), MOERT_DTYPE_I64, {ids()});
    EXPECT_EQ(table().load_statistics(self_, view, reset ? 1 : 0, &error_), MOERT_OK)
        << error_.message;
    return counts;
  }

  // What a forward is called with, on the rig's device, which must be the current one. Outputs are poisoned.
  struct Batch {
    DeviceArray<unsigned char> hidden, out, valid, workspace;
    DeviceArray<float> logits, weights;
    DeviceArray<int32_t> ids, forced;
    DeviceArray<int64_t> token_ids;  // none unless a test gives them
    int64_t tokens = 0;
  };
  void prepare(Batch& batch, const std::vector<float>& hidden, const std::vector<int32_t>& forced,
               const std::vector<unsigned char>& valid) {
    batch.tokens = static_cast<int64_t>(hidden.size()) / c_.hidden;
    const auto count = static_cast<int64_t>(hidden.size());
    batch.hidden.resize(static_cast<int64_t>(dtype_bytes(c_.dtype, count)));
    const TensorView host(batch.hidden.host(), c_.dtype, {count});
    for (int64_t i = 0; i < count; ++i) write_f32(*host.get(), i, hidden[static_cast<size_t>(i)]);
    batch.hidden.upload();
    batch.out.resize(batch.hidden.size());
    batch.logits.resize(batch.tokens * ids());
    batch.ids.resize(batch.tokens * kSlots);
    batch.weights.resize(batch.tokens * kSlots);
    batch.forced.assign(forced);
    batch.valid.assign(valid);
    uint64_t bytes = 0;
    EXPECT_EQ(table().workspace(self_, batch.tokens, &bytes, &error_), MOERT_OK);
    batch.workspace.resize(static_cast<int64_t>(bytes) - shortage);
    for (auto* memory : {&batch.out, &batch.workspace}) memory->poison();
    batch.ids.poison();
    batch.weights.poison();
  }
  moert_code_t forward(Batch& batch, Stream stream) {
    const int64_t t = batch.tokens;
    const auto here = [this](TensorView view) {
      view.set_device(here_);
      return view;
    };
    const TensorView hidden = here({batch.hidden.device(), c_.dtype, {t, c_.hidden}});
    const TensorView out = here({batch.out.device(), c_.dtype, {t, c_.hidden}});
    const TensorView logits = here({batch.logits.device(), MOERT_DTYPE_F32, {t, ids()}});
    const TensorView slots = here({batch.ids.device(), MOERT_DTYPE_I32, {t, kSlots}});
    const TensorView weights = here({batch.weights.device(), MOERT_DTYPE_F32, {t, kSlots}});
    const TensorView forced = here({batch.forced.device(), MOERT_DTYPE_I32, {t, kSlots}});
    const TensorView token_ids = here({batch.token_ids.device(), MOERT_DTYPE_I64, {t}});
    const TensorView valid = here({batch.valid.device(), MOERT_DTYPE_U8, {t}});
    const moert_stream_t at = {sizeof at, 0, here_, stream};
    moert_runner_args_t args{};
    args.struct_size = sizeof args;
    args.flags = flags;
    args.stream = &at;
    args.hidden = hidden;
    args.logits = logits;
    args.ids = slots;
    args.weights = weights;
    args.out = out;
    args.forced_ids = batch.forced.size() != 0 ? forced.get() : nullptr;
    args.token_ids = batch.token_ids.size() != 0 ? token_ids.get() : nullptr;
    args.valid = batch.valid.size() != 0 ? valid.get() : nullptr;
    args.workspace = batch.workspace.device();
    args.workspace_bytes = static_cast<uint64_t>(batch.workspace.size());
    return table().forward(self_, &args, &error_);
  }
  std::vector<float> output(const Batch& batch) const {
    std::vector<unsigned char> bytes = batch.out.download();
    const int64_t count = batch.tokens * c_.hidden;
    const TensorView view(bytes.data(), c_.dtype, {count});
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(read_f32(*view.get(), i));
    return values;
  }
  uint32_t flags = 0;
  int64_t shortage = 0;

 private:
  void describe() {
    problem_.struct_size = sizeof problem_;
    problem_.device = here_;
    problem_.layer_id = 5;
    problem_.hidden_size = c_.width;
    problem_.num_experts = problem_.num_local_experts = kExperts;
    problem_.top_k = kSlots;
    problem_.activation_dtype = c_.dtype;
    problem_.weight_scheme = "f32";
    problem_.activation = &activation_;
    routing_.struct_size = sizeof routing_;
    routing_.num_experts = ids();
    shared_.struct_size = sizeof shared_;
    layer_ = {sizeof layer_,   c_.flags, &problem_,       &routing_, c_.shared ? &shared_ : nullptr,
              c_.output_scale, "f32",    c_.shared_scale, 0.25,      c_.hidden};
  }
  template <class Kind, class T, class Spec>
  static void* make(const Spec& spec) {
    void* self = nullptr;
    EXPECT_EQ((Kind::template table<T>.create(&kNoHost, &spec, nullptr, 0, &self, nullptr)),
              MOERT_OK);
    return self;
  }
  moert_moe_parts_t make_parts() const {
    moert_moe_parts_t parts{};
    parts.struct_size = sizeof parts;
    parts.router = &Router::Kind::table<FixedRouter>;
    parts.router_self = make<Router::Kind, FixedRouter>(routing_);
    parts.experts = &RoutedExperts::Kind::table<ScalingExperts>;
    parts.experts_self = make<RoutedExperts::Kind, ScalingExperts>(problem_);
    if (!c_.shared) return parts;
    parts.shared = &SharedExperts::Kind::table<AddingShared>;
    parts.shared_self = make<SharedExperts::Kind, AddingShared>(shared_);
    return parts;
  }

  const RunnerLayer c_;
  const moert_device_id_t here_;
  moert_activation_t activation_ = {sizeof activation_, 0, "silu", 0, 0, 0};
  moert_moe_problem_t problem_{};
  moert_routing_t routing_{};
  moert_shared_problem_t shared_{};
  moert_moe_layer_t layer_{};
  moert_error_t error_{sizeof error_, 0, 0, "", ""};
  void* self_ = nullptr;
  moert_code_t code_ = MOERT_OK;
};

}  // namespace moert::gpu
