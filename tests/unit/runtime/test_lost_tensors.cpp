// Every tensor that a quantised checkpoint uses is needed: lost, turned or cut, it is missed by its name.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include <moert/abi/quant_method.h>
#include <moert/error.hpp>

#include "config/config.hpp"
#include "support/safetensors_edit.hpp"
#include "weights/companions.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {
namespace {

namespace fs = std::filesystem;
using moert::testing::SafetensorsEdit;

const config::Families& families() {
  static const config::Families it =
      config::Families::load({fs::path(MOERT_SOURCE_DIR) / "configs/families"});
  return it;
}

// A folder of tests/data, and plans of what remains of it.
class LostTensors : public ::testing::TestWithParam<std::string> {
 protected:
  LostTensors()
      : like_(fs::path(MOERT_SOURCE_DIR) / "tests/data" / GetParam()),
        file_(fs::path(::testing::TempDir()) / ("moert_lost_" + GetParam() + ".safetensors")),
        whole(like_),
        model_(families().resolve(like_)),
        tensors_(families().tensors(model_)) {
    const weights::Checkpoint checkpoint(like_);
    const weights::Plan plan = weights::make_plan(model_, tensors_, checkpoint);
    for (const weights::LayerPlan& layer : plan.layers)
      for (const weights::Source& source : layer.sources) {
        if (source.format == weights::kNoFormat) continue;
        used.insert(source.tensor->name);
        for (const weights::Companion& companion : source.companions)
          used.insert(companion.tensor->name);
      }
  }
  std::vector<weights::Finding> findings(SafetensorsEdit edit) const {
    std::stable_sort(edit.tensors.begin(), edit.tensors.end(), [](const auto& a, const auto& b) {
      return dtype_bits(a.dtype) > dtype_bits(b.dtype);  // aligned
    });
    edit.write(file_);
    const weights::Checkpoint checkpoint(file_);
    return weights::make_plan(model_, tensors_, checkpoint).findings;
  }
  // A weight that is missing is called as the family calls it.
  static std::string plain(const std::string& name) {
    for (const std::string end : {".qweight", ".weight_packed"})
      if (name.ends_with(end)) return name.substr(0, name.size() - end.size()) + ".weight";
    return name;
  }
  void expect_found(const SafetensorsEdit& edit, const std::string& name, const char* what) const {
    const std::vector<weights::Finding> all = findings(edit);
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const weights::Finding& f) { return f.name == name; });
    EXPECT_NE(it, all.end()) << what << " " << name << ": "
                             << (all.empty() ? "nothing is said"
                                             : "others are named, the first " + all[0].name);
  }
  // Experts 0 and 2 stand for all.
  bool is_sampled(const std::string& name) const {
    const size_t at = name.find("experts.");
    const char digit = at == std::string::npos ? '0' : name[at + 8];
    return used.contains(name) && (digit < '0' || digit > '9' || digit == '0' || digit == '2');
  }

 private:
  fs::path like_, file_;

 protected:
  SafetensorsEdit whole;
  std::set<std::string> used;

 private:
  spec::Model model_;
  spec::Tensors tensors_;
};

TEST_P(LostTensors, AreMissing) {
  ASSERT_GE(used.size(), 4u);
  size_t tried = 0;
  for (const std::string& name : whole.names()) {
    if (!is_sampled(name)) continue;
    SafetensorsEdit edit = whole;
    edit.drop(name);
    expect_found(edit, plain(name), "dropped");
    ++tried;
  }
  EXPECT_GE(tried, 4u);
}

TEST_P(LostTensors, InAnotherShapeDoNotFit) {
  for (const std::string& name : whole.names()) {
    if (!is_sampled(name)) continue;
    const std::vector<int64_t> shape = whole.at(name).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      SafetensorsEdit longer = whole;
      std::vector<int64_t> changed = shape;
      ++changed[d];
      longer.reshape(name, changed);
      expect_found(longer, name, "longer");
    }
    if (shape.size() < 2 || shape[shape.size() - 1] == shape[shape.size() - 2]) continue;
    SafetensorsEdit turned = whole;
    std::vector<int64_t> changed = shape;
    std::swap(changed[shape.size() - 1], changed[shape.size() - 2]);
    turned.reshape(name, changed);
    expect_found(turned, name, "turned");
  }
}

// A name that nearly fits is told as the one that was meant.
TEST_P(LostTensors, UnderAnotherNameAreMissingAndUnexpected) {
  for (const std::string& name : whole.names()) {
    if (!is_sampled(name) || name.find("scale") == std::string::npos) continue;
    SafetensorsEdit edit = whole;
    edit.rename(name, name + "x");
    expect_found(edit, name, "renamed");
    expect_found(edit, name + "x", "the new name of");
  }
}

INSTANTIATE_TEST_SUITE_P(Quantised, LostTensors,
                         ::testing::Values("deepseek-v3-fp8", "deepseek-v3-fp8-mixed",
                                           "deepseek-v4-fp4", "gpt-oss-mxfp4", "kimi-k25-int4",
                                           "llama4-fp8-dynamic", "mixtral-awq", "mixtral-gptq",
                                           "qwen3-5-moe-fp8", "qwen3-moe-fp8", "qwen3-moe-int8",
                                           "qwen3-moe-mxfp8", "qwen3-moe-nvfp4",
                                           "qwen3-moe-nvfp4-ct"),
                         [](const auto& folder) {
                           std::string name = folder.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace moert::runtime
