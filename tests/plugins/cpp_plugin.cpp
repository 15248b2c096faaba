// A complete plugin in C++ whose forward throws whatever its options ask for.
// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <string>

#include <moert/sdk/plugin.hpp>

namespace {

class Thrower final : public moert::RoutedExperts {
 public:
  static constexpr moert::FeatureInfo kFeature = {"zoo_cpp.thrower", MOERT_RANK_BEST};
  static moert::Support supports(const moert::Host&, const moert_moe_problem_t& problem) {
    if (problem.top_k > 8) throw std::runtime_error("supports threw");
    return moert::Support::yes();
  }
  Thrower(const moert::Host&, const moert_moe_problem_t& problem, const moert::Options& options)
      : what_(options.get("throw")) {
    if (problem.top_k == 0) throw moert::PluginError(MOERT_INVALID_ARGUMENT, "top_k is 0");
  }
  void load(const moert_piece_t&) override {}
  void finish() override {}
  void forward(const moert_experts_args_t&) override {
    if (what_ == "plugin_error") throw moert::PluginError(MOERT_DATA_LOSS, "thrown on purpose", 42);
    if (what_ == "standard") throw std::runtime_error(std::string(1000, 'x'));
    if (what_ == "memory") throw std::bad_alloc();
    if (what_ == "number") throw 7;
  }

 private:
  std::string what_;
};

}  // namespace

MOERT_PLUGIN("org.zoo.cpp", "zoo_cpp", "The zoo", "1.2.3", Thrower)
