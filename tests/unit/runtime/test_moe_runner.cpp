// The default runner, reached through its table, with parts whose results can be told by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <moert/sdk/plugin.hpp>

#include "runtime/host_services.hpp"
#include "runtime/moe_runner.hpp"

namespace {

using namespace moert;

constexpr int64_t kHidden = 2, kExperts = 4, kSlots = 2;

// Token t goes to experts t mod E and (t + 1) mod E with weights 0.75 and 0.25; forced ids win.
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
    for (int64_t t = 0; t < args.ids->shape[0]; ++t)
      for (int64_t j = 0; j < kSlots; ++j) {
        row_of<int32_t>(*args.ids, t)[j] = args.forced_ids != nullptr
                                               ? row_of<int32_t>(*args.forced_ids, t)[j]
                                               : static_cast<int32_t>((t + j) % kExperts);
        row_of<float>(*args.weights, t)[j] = j == 0 ? 0.75f : 0.25f;
      }
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
    for (int64_t t = 0; t < args.hidden->shape[0]; ++t)
      for (int64_t h = 0; h < kHidden; ++h) {
        double sum = 0;
        for (int64_t j = 0; j < kSlots; ++j) {
          const int32_t id = row_of<int32_t>(*args.ids, t)[j];
          if (id >= 0)
            sum += static_cast<double>(row_of<float>(*args.weights, t)[j]) * (id + 1) *
                   static_cast<double>(read_f32(*args.hidden, t * kHidden + h));
        }
        write_f32(*args.out, t * kHidden + h, static_cast<float>(sum));
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
class RunnerTest : public testing::Test {
 protected:
  void build(bool with_shared, double output_scale) {
    activation_ = {sizeof activation_, 0, "silu", 0, 0, 0};
    problem_.struct_size = sizeof problem_;
    problem_.device = kCpu;
    problem_.layer_id = 5;
    problem_.hidden_size = kHidden;
    problem_.intermediate_size = 1;
    problem_.num_experts = problem_.num_physical_experts = problem_.num_local_experts = kExperts;
    problem_.top_k = kSlots;
    problem_.activation_dtype = problem_.output_dtype = MOERT_DTYPE_F32;
    problem_.weight_scheme = "f32";
    problem_.activation = &activation_;
    routing_.struct_size = sizeof routing_;
    shared_.struct_size = sizeof shared_;
    routing_.num_experts = kExperts;
    layer_ = {sizeof layer_, 0,     &problem_, &routing_, with_shared ? &shared_ : nullptr,
              output_scale,  "f32", 0,         0,         kHidden};
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
    ASSERT_EQ(table().create(host(), &layer_, &parts, nullptr, 0, &self_, &error_), MOERT_OK)
        << error_.message;
    ASSERT_EQ(table().finish(self_, &error_), MOERT_OK) << error_.message;
  }
  void TearDown() override {
    if (self_ != nullptr) table().destroy(self_);
    EXPECT_EQ(ScalingExperts::alive, 0) << "the runner owns its parts and destroys them";
  }

  moert_code_t forward(int64_t tokens, const uint8_t* valid = nullptr,
                       const int32_t* forced = nullptr) {
    const auto n = static_cast<size_t>(tokens);
    hidden_.resize(n * kHidden);
    for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = static_cast<float>(i + 1);
    out_.assign(n * kHidden, -99);
    logits_.assign(n * kExperts, 0);
    ids_.assign(n * kSlots, -7);
    weights_.assign(n * kSlots, -7);
    uint64_t bytes = 0;
    EXPECT_EQ(table().workspace(self_, tokens, &bytes, nullptr), MOERT_OK);
    workspace_.assign(bytes + 1, std::byte{0xff});
    const TensorView hidden(hidden_.data(), MOERT_DTYPE_F32, {tokens, kHidden});
    const TensorView out(out_.data(), MOERT_DTYPE_F32, {tokens, kHidden});
    const TensorView logits(logits_.data(), MOERT_DTYPE_F32, {tokens, kExperts});
    const TensorView ids(ids_.data(), MOERT_DTYPE_I32, {tokens, kSlots});
    const TensorView weights(weights_.data(), MOERT_DTYPE_F32, {tokens, kSlots});
    const TensorView marks(static_cast<const void*>(valid), MOERT_DTYPE_U8, {tokens});
    const TensorView replay(static_cast<const void*>(forced), MOERT_DTYPE_I32, {tokens, kSlots});
    moert_runner_args_t args{};
    args.struct_size = sizeof args;
    args.flags = flags_;
    args.hidden = hidden;
    args.out = out;
    args.logits = logits;
    args.ids = ids;
    args.weights = weights;
    args.valid = valid != nullptr ? marks.get() : nullptr;
    args.forced_ids = forced != nullptr ? replay.get() : nullptr;
    args.workspace = workspace_.data();
    args.workspace_bytes = bytes - shortage_;
    return table().forward(self_, &args, &error_);
  }
  std::vector<int64_t> statistics(bool reset) {
    std::vector<int64_t> counts(kExperts);
    const TensorView view(counts.data(), MOERT_DTYPE_I64, {kExperts});
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
  uint32_t flags_ = 0;
  uint64_t shortage_ = 0;
  std::vector<float> hidden_, out_, logits_, weights_;
  std::vector<int32_t> ids_;
  std::vector<std::byte> workspace_;
};

TEST_F(RunnerTest, RoutesComputesAndReports) {
  build(false, 1);
  ASSERT_EQ(forward(2), MOERT_OK) << error_.message;
  // token 0: 0.75 * 1 + 0.25 * 2 = 1.25; token 1: 0.75 * 2 + 0.25 * 3 = 2.25
  EXPECT_EQ(out_, (std::vector<float>{1.25f, 2.5f, 6.75f, 9}));
  EXPECT_EQ(ids_, (std::vector<int32_t>{0, 1, 1, 2}));
  EXPECT_EQ(statistics(true), (std::vector<int64_t>{1, 2, 1, 0}));
  EXPECT_EQ(statistics(false), (std::vector<int64_t>{0, 0, 0, 0}));
  moert_runner_info_t info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(table().info(self_, &info, nullptr), MOERT_OK);
  EXPECT_EQ(info.layer_id, 5);
  EXPECT_STREQ(info.activation, "silu");
  EXPECT_STREQ(info.expert_placement, "linear");
  EXPECT_EQ(info.is_monolithic, 0u);
}

// Bug 70: the routed scale multiplies routed output only.
TEST_F(RunnerTest, OutputScaleLeavesSharedExpertsAlone) {
  build(true, 2);
  ASSERT_EQ(forward(1), MOERT_OK) << error_.message;
  EXPECT_EQ(out_, (std::vector<float>{2 * 1.25f + 100, 2 * 2.5f + 100}));
}

TEST_F(RunnerTest, PaddedRowsGetNoIdsNoOutputAndDoNotCount) {
  for (const bool with_shared : {false, true}) {
    build(with_shared, 1);
    const uint8_t valid[] = {1, 0, 1};
    ASSERT_EQ(forward(3, valid), MOERT_OK) << error_.message;
    EXPECT_EQ(ids_[2], -1);
    EXPECT_EQ(ids_[3], -1);
    EXPECT_EQ(weights_[2], 0);
    EXPECT_EQ(out_[2], 0);
    EXPECT_EQ(out_[3], 0);
    EXPECT_NE(out_[4], 0);
    EXPECT_EQ(statistics(true), (std::vector<int64_t>{1, 1, 1, 1}));
    table().destroy(self_);
    self_ = nullptr;
  }
}

// Bugs 86, 88: nothing to do is no error.
TEST_F(RunnerTest, NoTokens) {
  build(true, 1);
  EXPECT_EQ(forward(0), MOERT_OK) << error_.message;
}

TEST_F(RunnerTest, ExpertMapSendsTokensToLocalCopiesAndDropsRemoteExperts) {
  build(false, 1);
  // Expert 0 has two copies (locals 3 and 2), expert 1 is elsewhere, 2 and 3 stay.
  std::vector<int32_t> map = {3, 2, -1, -1, 2, -1, -1, 3};
  const TensorView view(map.data(), MOERT_DTYPE_I32, {kExperts, 2});
  ASSERT_EQ(table().set_expert_map(self_, view, &error_), MOERT_OK) << error_.message;
  const std::vector<int32_t> forced = {0, 1, 0, 1, 3, 2};
  ASSERT_EQ(forward(3, nullptr, forced.data()), MOERT_OK) << error_.message;
  EXPECT_FLOAT_EQ(out_[0], 0.75f * 4);                    // token 0: copy 0 of expert 0 is local 3
  EXPECT_FLOAT_EQ(out_[2], 0.75f * 3 * 3);                // token 1: copy 1 is local 2
  EXPECT_FLOAT_EQ(out_[4], (0.75f * 4 + 0.25f * 3) * 5);  // token 2
  EXPECT_EQ(ids_, forced) << "reported ids stay logical";
  std::vector<int32_t> read(8, 0);
  const TensorView back(read.data(), MOERT_DTYPE_I32, {kExperts, 2});
  ASSERT_EQ(table().expert_map(self_, back, nullptr), MOERT_OK);
  EXPECT_EQ(read, (std::vector<int32_t>{3, 2, -1, -1, 2, -1, 3, -1}));
  map[0] = kExperts;
  EXPECT_EQ(table().set_expert_map(self_, view, &error_), MOERT_OUT_OF_RANGE);
}

TEST_F(RunnerTest, RefusesWhatItCannotUnderstandOrFit) {
  build(false, 1);
  flags_ = 1u << 30;
  EXPECT_EQ(forward(1), MOERT_UNIMPLEMENTED);
  flags_ = 0;
  shortage_ = 1;
  EXPECT_EQ(forward(1), MOERT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("workspace"), std::string::npos);
  EXPECT_EQ(table().finish(self_, &error_), MOERT_FAILED_PRECONDITION);
  EXPECT_EQ(table().forward(nullptr, nullptr, &error_), MOERT_INVALID_ARGUMENT);
}

TEST_F(RunnerTest, CreateWithoutPartsLeavesThemToTheCaller) {
  build(false, 1);
  moert_moe_parts_t parts{};
  parts.struct_size = sizeof parts;
  void* other = nullptr;
  EXPECT_EQ(table().create(host(), &layer_, &parts, nullptr, 0, &other, &error_),
            MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(other, nullptr);
}

}  // namespace
