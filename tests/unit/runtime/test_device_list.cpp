// Two backends whose devices are of one kind: each device is called as its own feature says.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_list.hpp"

#include "unit/bugs/tiny_model.hpp"

namespace moert::runtime {
namespace {

using namespace bugs;

Session& with_both() {
  static Session it{[] {
    SessionOptions options;
    options.threads = 1;
    const std::string plugins = std::string(MOERT_BINARY_DIR) + "/tests/plugins/";
    options.plugin_path = {plugins + "far", plugins + "afar"};
    return options;
  }()};
  return it;
}

TEST(DeviceList, DevicesOfOneKindAreCalledAsTheirFeaturesSay) {
  std::map<std::string, std::string> words;
  for (const BackendDevices& backend : list_devices(with_both()))
    words[backend.candidate->name] = backend.word;
  EXPECT_EQ(words["far.device"], "far");
  EXPECT_EQ(words["afar.device"], "afar");
}

TEST(DeviceList, ALayerIsServedByTheBackendOfItsDevice) {
  for (const std::string device : {"far", "afar"}) {
    SCOPED_TRACE(device);
    const fs::path folder =
        olmoe({.experts = 4, .top_k = 2, .hidden = 6, .intermediate = 5, .layers = 1}).save();
    spec::Model spec = families().resolve(folder);
    spec::Tensors rules = families().tensors(spec);
    ModelSettings settings;
    settings.device = device;
    settings.dtype = MOERT_DTYPE_F32;
    const Model model(with_both(), std::move(spec), std::move(rules), settings);
    EXPECT_EQ(model.device().text(), device + ":0");
    const registry::Decision& decision = model.choices().at(0).find("runner")->decision;
    ASSERT_NE(decision.chosen, nullptr) << registry::decision_table(decision);
    EXPECT_EQ(decision.chosen->name, device + ".honest") << registry::decision_table(decision);
  }
}

}  // namespace
}  // namespace moert::runtime
