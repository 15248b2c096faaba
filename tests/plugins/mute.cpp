// Runners of whole layers that are bad at telling which experts they chose.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include "whole_runner.hpp"

namespace {

using namespace moert;

template <class T>
class Of : public zoo::WholeRunner {
 public:
  static Support supports(const Host&, const moert_moe_layer_t& layer) {
    if (layer.experts->device.kind != MOERT_DEVICE_CPU) return Support::no("runs on the cpu alone");
    return Support::yes(MOERT_SUPPORT_MONOLITHIC | T::kFlags);
  }
  Of(const Host&, const moert_moe_layer_t& layer, const moert_moe_parts_t* parts, const Options&)
      : WholeRunner(layer, parts) {}
  void forward(const moert_runner_args_t& args) override {
    compute(
        {args.out->data, static_cast<int32_t*>(args.ids->data),
         static_cast<float*>(args.weights->data),
         args.margins == nullptr ? nullptr : static_cast<float*>(args.margins->data),
         args.forced_ids == nullptr ? nullptr : static_cast<const int32_t*>(args.forced_ids->data),
         args.hidden->shape[0], args.out->bytes});
  }
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
