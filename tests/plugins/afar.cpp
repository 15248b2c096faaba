// A second backend with devices of the kind that `far` has, and a word of its own for them.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include "far_runner.hpp"

namespace {

using namespace moert;

constexpr moert_kv_t kAfar[] = {{"device", "afar"}};

struct AfarDevice final : zoo::FarDevice {
  static constexpr FeatureInfo kFeature = {"afar.device", MOERT_RANK_GOOD, 0, kAfar, 1};
};
struct Honest final : zoo::FarRunner<Honest> {
  static constexpr FeatureInfo kFeature = {"afar.honest", MOERT_RANK_REFERENCE, 0, kAfar, 1};
  using FarRunner::FarRunner;
};

}  // namespace

MOERT_PLUGIN("org.zoo.afar", "afar", "The zoo", "1.0.0", AfarDevice, Honest)
