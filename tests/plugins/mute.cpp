// Runners of whole layers that are bad at telling which experts they chose. Outputs are zero.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

namespace {

using namespace moert;

// Row t goes to experts t, t + 1 ... (mod E), all with weight 1/k.
class Runner : public MoERunnerInterface {
 public:
  explicit Runner(const moert_moe_layer_t& layer, const moert_moe_parts_t* parts)
      : problem_(*layer.experts) {
    if (parts != nullptr && parts->router != nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT, "routes inside");
  }
  void load_expert(const moert_piece_t&) override {}
  void load_router(uint32_t, const moert_tensor_t&) override {}
  void load_shared(const moert_piece_t&) override {}
  void load_layer(const moert_piece_t&) override {}
  void finish() override {}
  uint64_t workspace(int64_t) override { return 0; }
  int64_t layer_id() const override { return problem_.layer_id; }
  bool is_monolithic() const override { return true; }
  const char* activation() const override { return "silu"; }
  const char* quant_method() const override { return "f32"; }
  const char* expert_placement() const override { return "linear"; }
  bool has_shared_experts() const override { return false; }
  void set_expert_map(const moert_tensor_t&) override {}
  void expert_map(const moert_tensor_t&) const override {}
  void load_statistics(const moert_tensor_t&, bool) override {}
  void forward(const moert_runner_args_t& args) override {
    const int64_t tokens = args.hidden->shape[0], k = problem_.top_k;
    for (int64_t i = 0; i < element_count(*args.out); ++i) write_f32(*args.out, i, 0.0f);
    for (int64_t t = 0; t < tokens && tells(t); ++t)
      for (int64_t j = 0; j < k; ++j) {
        const bool forced =
            obeys() && args.forced_ids != nullptr && row_of<int32_t>(*args.forced_ids, t)[0] >= 0;
        row_of<int32_t>(*args.ids, t)[j] =
            forced ? row_of<int32_t>(*args.forced_ids, t)[j]
                   : static_cast<int32_t>((t + j) % problem_.num_experts);
        row_of<float>(*args.weights, t)[j] = 1.0f / static_cast<float>(k);
        if (args.margins != nullptr) *row_of<float>(*args.margins, t) = 1;
      }
  }

 protected:
  virtual bool tells(int64_t /*row*/) const { return true; }
  virtual bool obeys() const { return true; }

 private:
  moert_moe_problem_t problem_;
};

template <class T>
class Of : public Runner {
 public:
  static Support supports(const Host&, const moert_moe_layer_t&) {
    return Support::yes(MOERT_SUPPORT_MONOLITHIC | T::kFlags);
  }
  Of(const Host&, const moert_moe_layer_t& layer, const moert_moe_parts_t* parts, const Options&)
      : Runner(layer, parts) {}
};

struct Honest final : Of<Honest> {
  static constexpr uint32_t kFlags = 0;
  static constexpr FeatureInfo kFeature = {"mute.honest", MOERT_RANK_REFERENCE};
  using Of::Of;
};
struct Silent final : Of<Silent> {  // forgets to report the last row
  static constexpr uint32_t kFlags = 0;
  static constexpr FeatureInfo kFeature = {"mute.silent", MOERT_RANK_REFERENCE};
  using Of::Of;
  bool tells(int64_t row) const override { return row < 2; }
};
struct Stubborn final : Of<Stubborn> {  // takes no forced ids
  static constexpr uint32_t kFlags = 0;
  static constexpr FeatureInfo kFeature = {"mute.stubborn", MOERT_RANK_REFERENCE};
  using Of::Of;
  bool obeys() const override { return false; }
};
struct Hidden final : Of<Hidden> {  // and says so
  static constexpr uint32_t kFlags = MOERT_SUPPORT_HIDES_ROUTING;
  static constexpr FeatureInfo kFeature = {"mute.hidden", MOERT_RANK_REFERENCE};
  using Of::Of;
  bool tells(int64_t) const override { return false; }
  bool obeys() const override { return false; }
};

}  // namespace

MOERT_PLUGIN("org.zoo.mute", "mute", "The zoo", "1.0.0", Honest, Silent, Stubborn, Hidden)
