// The default runner, reached through its table, with parts whose results can be told by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <moert/sdk/plugin.hpp>

#include "runtime/host_services.hpp"
#include "runtime/moe_runner.hpp"

namespace moert::runtime {

constexpr int64_t kHidden = 2, kExperts = 4, kSlots = 2, kVocabulary = 100;

// Token t goes to experts t mod E and (t + 1) mod E with weights 0.75 and 0.25; forced ids win. Those that are neither
// -1 nor experts are an error, and so are such token ids.
class FixedRouter : public Router {
 public:
  static constexpr FeatureInfo kFeature = {"test.router"};
  static Support supports(const Host&, const moert_routing_t&) { return Support::yes(); }
  FixedRouter(const Host&, const moert_routing_t&, const Options&) {}
  void load(uint32_t, const moert_tensor_t&) override {}
  void finish() override {}
  void logits(const moert_router_args_t& args) override {
    for (int64_t i = 0; i < element_count(*args.logits); ++i)
      static_cast<float*>(args.logits->data)[i] = 7;
  }
  void route(const moert_router_args_t& args) override {
    for (int64_t t = 0; t < args.ids->shape[0]; ++t) {
      if (args.token_ids != nullptr)
        expect_known(*row_of<int64_t>(*args.token_ids, t), kVocabulary);
      for (int64_t j = 0; j < kSlots; ++j) {
        int32_t& id = row_of<int32_t>(*args.ids, t)[j];
        id = static_cast<int32_t>((t + j) % kExperts);
        if (args.forced_ids != nullptr) id = row_of<int32_t>(*args.forced_ids, t)[j];
        expect_known(id, args.logits->shape[1]);
        row_of<float>(*args.weights, t)[j] = j == 0 ? 0.75f : 0.25f;
      }
    }
  }

 private:
  static void expect_known(int64_t id, int64_t count) {
    if (id < -1 || id >= count)
      throw PluginError(MOERT_INVALID_ARGUMENT, "nobody knows " + std::to_string(id));
  }
};

// Expert e multiplies its input by e + 1; id -1 adds nothing.
class ScalingExperts : public RoutedExperts {
 public:
  static constexpr FeatureInfo kFeature = {"test.experts"};
  static Support supports(const Host&, const moert_moe_problem_t&) { return Support::yes(); }
  ScalingExperts(const Host&, const moert_moe_problem_t&, const Options&) { ++alive; }
  ~ScalingExperts() override { --alive; }
  void load(const moert_piece_t&) override { ++loaded; }
  void finish() override {}
  uint64_t workspace(int64_t tokens) override { return static_cast<uint64_t>(tokens) * 3; }
  void forward(const moert_experts_args_t& args) override {
    const int64_t width = args.hidden->shape[1];
    for (int64_t t = 0; t < args.hidden->shape[0]; ++t)
      for (int64_t h = 0; h < width; ++h) {
        double sum = 0;
        for (int64_t j = 0; j < kSlots; ++j) {
          const int32_t id = row_of<int32_t>(*args.ids, t)[j];
          if (id >= 0)
            sum += static_cast<double>(row_of<float>(*args.weights, t)[j]) * (id + 1) *
                   static_cast<double>(read_f32(*args.hidden, t * width + h));
        }
        write_f32(*args.out, t * width + h, static_cast<float>(sum));
      }
  }
  static inline int alive = 0, loaded = 0;
};

class AddingShared : public SharedExperts {
 public:
  static constexpr FeatureInfo kFeature = {"test.shared"};
  static Support supports(const Host&, const moert_shared_problem_t&) { return Support::yes(); }
  AddingShared(const Host&, const moert_shared_problem_t&, const Options&) {}
  void load(const moert_piece_t&) override {}
  void finish() override {}
  void forward(const moert_shared_args_t& args) override {
    for (int64_t i = 0; i < element_count(*args.out); ++i)
      static_cast<float*>(args.out->data)[i] = 100;
  }
};

template <class Kind, class T, class Spec>
void* make(const moert_host_t* host, const Spec* spec) {
  void* self = nullptr;
  EXPECT_EQ((Kind::template table<T>.create(host, spec, nullptr, 0, &self, nullptr)), MOERT_OK);
  return self;
}

// A runner over the parts above; everything through the C tables.
class RunnerTest : public ::testing::Test {
 protected:
  void build(bool with_shared, double output_scale) {
    ASSERT_EQ(create(with_shared, output_scale), MOERT_OK) << error_.message;
    ASSERT_EQ(table().finish(self_, &error_), MOERT_OK) << error_.message;
  }
  void describe(bool with_shared, double output_scale) {
    activation_ = {sizeof activation_, 0, "silu", 0, 0, 0};
    problem_.struct_size = sizeof problem_;
    problem_.device = kCpu;
    problem_.layer_id = 5;
    problem_.hidden_size = width_;
    problem_.intermediate_size = 1;
    problem_.num_experts = problem_.num_physical_experts = problem_.num_local_experts = kExperts;
    problem_.top_k = kSlots;
    problem_.activation_dtype = MOERT_DTYPE_F32;
    problem_.output_dtype = MOERT_DTYPE_F32;
    problem_.weight_scheme = "f32";
    problem_.activation = &activation_;
    routing_.struct_size = sizeof routing_;
    shared_.struct_size = sizeof shared_;
    routing_.num_experts = kExperts + zero_experts_;
    layer_ = {
        sizeof layer_, layer_flags_, &problem_,     &routing_, with_shared ? &shared_ : nullptr,
        output_scale,  "f32",        shared_scale_, norm_eps_, kHidden};
  }
  // Without finish: `self_` may still be loaded.
  moert_code_t create(bool with_shared, double output_scale) {
    describe(with_shared, output_scale);
    moert_moe_parts_t parts{};
    parts.struct_size = sizeof parts;
    parts.router = &Router::Kind::table<FixedRouter>;
    parts.router_self = make<Router::Kind, FixedRouter>(host(), &routing_);
    parts.experts = &RoutedExperts::Kind::table<ScalingExperts>;
    parts.experts_self = make<RoutedExperts::Kind, ScalingExperts>(host(), &problem_);
    if (with_shared) {
      parts.shared = &SharedExperts::Kind::table<AddingShared>;
      parts.shared_self = make<SharedExperts::Kind, AddingShared>(host(), &shared_);
    }
    const moert_code_t code = table().create(host(), &layer_, &parts, nullptr, 0, &self_, &error_);
    if (code == MOERT_OK) return code;
    parts.router->destroy(parts.router_self);  // a create that fails leaves them to the caller
    parts.experts->destroy(parts.experts_self);
    if (with_shared) parts.shared->destroy(parts.shared_self);
    return code;
  }
  void drop() {
    if (self_ != nullptr) table().destroy(self_);
    self_ = nullptr;
  }
  void TearDown() override {
    drop();
    EXPECT_EQ(ScalingExperts::alive, 0) << "the runner owns its parts and destroys them";
  }

  moert_code_t forward(int64_t tokens, const uint8_t* valid = nullptr,
                       const int32_t* forced = nullptr) {
    const auto n = static_cast<size_t>(tokens);
    hidden_ = rows_;
    for (size_t i = hidden_.size(); i < n * kHidden; ++i)
      hidden_.push_back(static_cast<float>(i + 1));
    out_.assign(n * kHidden, -99);
    const int64_t rows = kExperts + zero_experts_;
    logits_.assign(n * static_cast<size_t>(rows), 0);
    ids_.assign(n * kSlots, -7);
    weights_.assign(n * kSlots, -7);
    uint64_t bytes = 0;
    EXPECT_EQ(table().workspace(self_, tokens, &bytes, nullptr), MOERT_OK);
    workspace_.assign(bytes + 1, std::byte{0xff});
    const TensorView hidden(hidden_.data(), MOERT_DTYPE_F32, {tokens, kHidden});
    const TensorView out(out_.data(), MOERT_DTYPE_F32, {tokens, kHidden});
    const TensorView logits(logits_.data(), MOERT_DTYPE_F32, {tokens, rows});
    const TensorView ids(ids_.data(), MOERT_DTYPE_I32, {tokens, kSlots});
    const TensorView weights(weights_.data(), MOERT_DTYPE_F32, {tokens, kSlots});
    const TensorView marks(static_cast<const void*>(valid), MOERT_DTYPE_U8, {tokens});
    TensorView replay(static_cast<const void*>(forced), MOERT_DTYPE_I32, {tokens, kSlots});
    if (apart_) {  // every other number, and every other row
      replay.set_stride(1, 2, 0);
      replay.set_stride(0, 4 * kSlots, (n * 4 * kSlots - 2) * sizeof(int32_t));
    }
    const TensorView token_ids(static_cast<const void*>(token_ids_.data()), MOERT_DTYPE_I64,
                               {tokens});
    moert_runner_args_t args{};
    args.struct_size = sizeof args;
    args.flags = flags_;
    args.hidden = hidden;
    args.out = out;
    args.logits = logits;
    args.ids = ids;
    args.weights = weights;
    args.valid = valid != nullptr ? marks.get() : nullptr;
    args.token_ids = token_ids_.empty() ? nullptr : token_ids.get();
    args.forced_ids = forced != nullptr ? replay.get() : nullptr;
    args.workspace = workspace_.data();
    args.workspace_bytes = bytes - shortage_;
    return table().forward(self_, &args, &error_);
  }
  std::vector<int64_t> statistics(bool reset) {
    std::vector<int64_t> counts(static_cast<size_t>(kExperts + zero_experts_));
    const TensorView view(counts.data(), MOERT_DTYPE_I64, {kExperts + zero_experts_});
    EXPECT_EQ(table().load_statistics(self_, view, reset ? 1 : 0, nullptr), MOERT_OK);
    return counts;
  }

  const moert_moe_runner_t& table() const {
    return MoERunnerInterface::Kind::table<runtime::MoERunner>;
  }
  const moert_host_t* host() const { return services_.table(); }

  runtime::HostServices services_{2, ignore_log};
  moert_activation_t activation_{};
  moert_moe_problem_t problem_{};
  moert_routing_t routing_{};
  moert_shared_problem_t shared_{};
  moert_moe_layer_t layer_{};
  moert_error_t error_{sizeof error_, 0, 0, {}, {}};
  void* self_ = nullptr;
  uint32_t flags_ = 0;  // of a forward
  // Of the layer, to be set before it is built.
  uint32_t layer_flags_ = 0;
  int64_t zero_experts_ = 0, width_ = kHidden;  // width: of the experts' rows
  double shared_scale_ = 0, norm_eps_ = 0;
  std::vector<int64_t> token_ids_;  // none unless a test gives them
  bool apart_ = false;              // forced ids do not lie close together
  std::vector<float> rows_;         // the first numbers of a forward's rows; 1, 2, 3 ... follow
  uint64_t shortage_ = 0;
  std::vector<float> hidden_, out_, logits_, weights_;
  std::vector<int32_t> ids_;
  std::vector<std::byte> workspace_;
};

}  // namespace moert::runtime
