// A complete backend that computes nothing: copy it to begin one, or time the runtime with it.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

namespace moert::null {
namespace {
// Pin-only: it is never chosen, only taken when a run names it. A real backend leaves the flag out.
constexpr uint32_t kFlags = MOERT_FEATURE_PIN_ONLY;
constexpr moert_kv_t kCaps[] = {{"device", "cpu"}};

// A "no" names what is in the way, for `moert explain`. Unknown bits are refused, never ignored.
Support accept(moert_device_id_t device, uint32_t flags, uint32_t known) {
  if (device.kind != MOERT_DEVICE_CPU) return Support::no("device is not the cpu");
  if ((flags & ~known) != 0)
    return Support::no("problem flag bits " + std::to_string(flags & ~known) + " are not known");
  return Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_CONCURRENT_LOAD);
}

// Rows may lie apart.
void zero_rows(const moert_tensor_t& t) {
  const size_t row = dtype_bytes(t.dtype, t.shape[1]);
  for (int64_t r = 0; r < t.shape[0] && row != 0; ++r)
    std::memset(static_cast<char*>(t.data) + dtype_bytes(t.dtype, r * t.strides[0]), 0, row);
}

// Order of calls: load..., finish once, then the rest. Anything else is the caller's mistake.
class State {
 public:
  void expect_loading() const {
    if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  }
  void finish() {
    expect_loading();
    finished_ = true;
  }
  void expect_finished() const {
    if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was not called yet");
  }

 private:
  bool finished_ = false;
};

class NullExperts final : public RoutedExperts {
 public:
  static constexpr FeatureInfo kFeature = {"null.routed_experts", MOERT_RANK_REFERENCE, kFlags,
                                           kCaps, 1};
  static Support supports(const Host&, const moert_moe_problem_t& p) {
    return accept(p.device, p.flags,
                  MOERT_PROBLEM_NON_GATED | MOERT_PROBLEM_BIAS | MOERT_PROBLEM_WEIGHT_ON_INPUT);
  }
  // Records that come across the border live as long as the call: copy what you keep.
  NullExperts(const Host&, const moert_moe_problem_t& p, const Options& options)
      : hidden_(p.hidden_size), top_k_(p.top_k), output_dtype_(p.output_dtype) {
    options.allow({});  // a misspelt option is an error, not a default
  }
  // A real backend packs piece.tensor here, one tensor at a time, and remembers what came.
  void load(const moert_piece_t& piece) override {
    must_understand(piece.flags, 0, "piece");
    state_.expect_loading();
  }
  // Throws if any tensor is missing: the last moment at which that can be noticed.
  void finish() override { state_.finish(); }
  // Allocates nothing: scratch memory is args.workspace, of the size that workspace() told. Check
  // everything before the first write, so that a refused call has changed nothing.
  void forward(const moert_experts_args_t& args) override {
    state_.expect_finished();
    must_understand(args.flags, 0, "arguments of forward");
    if (args.hidden == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "hidden is missing");
    const int64_t tokens = args.hidden->shape[0];
    expect_tensor(args.ids, "ids", MOERT_DTYPE_I32, {tokens, top_k_});
    zero_rows(expect_tensor(args.out, "out", output_dtype_, {tokens, hidden_}));
  }

 private:
  State state_;
  int64_t hidden_, top_k_;
  uint32_t output_dtype_;
};

class NullRouter final : public Router {
 public:
  static constexpr FeatureInfo kFeature = {"null.router", MOERT_RANK_REFERENCE, kFlags, kCaps, 1};
  static Support supports(const Host&, const moert_routing_t& r) {
    return accept(r.device, r.flags, (MOERT_ROUTING_NEEDS_TOKEN_IDS << 1) - 1);
  }
  NullRouter(const Host&, const moert_routing_t& r, const Options& options)
      : experts_(r.num_experts), top_k_(r.top_k) {
    options.allow({});
  }
  void load(uint32_t, const moert_tensor_t&) override { state_.expect_loading(); }
  void finish() override { state_.finish(); }
  void logits(const moert_router_args_t& args) override {
    state_.expect_finished();
    must_understand(args.flags, 0, "arguments of logits");
    zero_rows(expect_tensor(args.logits, "logits", MOERT_DTYPE_F32, {-1, experts_}));
  }
  // Every token takes experts 0 .. k-1 in equal parts.
  void route(const moert_router_args_t& args) override {
    state_.expect_finished();
    must_understand(args.flags, 0, "arguments of route");
    const moert_tensor_t& ids = expect_tensor(args.ids, "ids", MOERT_DTYPE_I32, {-1, top_k_});
    const int64_t tokens = ids.shape[0];
    const moert_tensor_t& weights =
        expect_tensor(args.weights, "weights", MOERT_DTYPE_F32, {tokens, top_k_});
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t j = 0; j < top_k_; ++j) {
        row_of<int32_t>(ids, t)[j] = static_cast<int32_t>(j);
        row_of<float>(weights, t)[j] = 1.0f / static_cast<float>(top_k_);
      }
    }
    if (args.margins != nullptr)
      for (int64_t t = 0; t < tokens; ++t) static_cast<float*>(args.margins->data)[t] = 0;
  }

 private:
  State state_;
  int64_t experts_, top_k_;
};

class NullShared final : public SharedExperts {
 public:
  static constexpr FeatureInfo kFeature = {"null.shared_experts", MOERT_RANK_REFERENCE, kFlags,
                                           kCaps, 1};
  static Support supports(const Host&, const moert_shared_problem_t& p) {
    return accept(p.device, p.flags, (MOERT_SHARED_BIAS << 1) - 1);
  }
  NullShared(const Host&, const moert_shared_problem_t& p, const Options& options)
      : hidden_(p.hidden_size), output_dtype_(p.output_dtype) {
    options.allow({});
  }
  void load(const moert_piece_t&) override { state_.expect_loading(); }
  void finish() override { state_.finish(); }
  void forward(const moert_shared_args_t& args) override {
    state_.expect_finished();
    must_understand(args.flags, 0, "arguments of forward");
    zero_rows(expect_tensor(args.out, "out", output_dtype_, {-1, hidden_}));
  }

 private:
  State state_;
  int64_t hidden_;
  uint32_t output_dtype_;
};
}  // namespace
}  // namespace moert::null

// The one exported symbol, the descriptor and the ELF note.
MOERT_PLUGIN("org.moert.null", "null", "MoERT", "0.1.0", moert::null::NullExperts,
             moert::null::NullRouter, moert::null::NullShared)
