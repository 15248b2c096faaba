// Capture, replay and verify over every folder of tests/data, with every candidate for experts and every one for
// routers on the processor.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/routed_experts.h>
#include <moert/abi/router.h>

#include "capture/capture_file.hpp"
#include "unit/golden/support.hpp"

namespace moert::golden {
namespace {

struct Choice {
  std::string experts, router;
};

// What runs on the processor and computes something: every candidate of a kind, beside the oracle of the other.
std::vector<Choice> choices() {
  std::vector<Choice> made = {{"cpu.ref", "cpu.ref"}};
  const auto each = [](const char* kind, auto use) {
    for (const registry::Candidate* candidate : session(2).registry().candidates(kind))
      if (candidate->name.starts_with("cpu.") && candidate->name != "cpu.ref") use(candidate->name);
  };
  each(MOERT_KIND_ROUTED_EXPERTS, [&](const auto& name) { made.push_back({name, "cpu.ref"}); });
  each(MOERT_KIND_ROUTER, [&](const auto& name) { made.push_back({"cpu.ref", name}); });
  return made;
}

spec::Run run_of(const std::string& folder, const Choice& choice) {
  spec::Run run = plain_run(folder);
  run.layers["routed_experts"] = choice.experts;
  run.layers["router"] = choice.router;
  return run;
}

class ReplayFolder : public testing::TestWithParam<std::string> {
 protected:
  // Runs natively and captures; false where this candidate does not serve the folder.
  bool capture(const Choice& choice) {
    spec::Run run = run_of(GetParam(), choice);
    run.output = native_.path();
    for (const char* to : {"memory", "file"}) {
      spec::Capture wanted;
      wanted.to = to;
      wanted.path = to == std::string("file") ? by_file_.path() : routes_.path();
      wanted.what = {"ids", "weights", "margins"};
      run.capture.push_back(wanted);
    }
    try {
      runtime::run(session(2), families(), run);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::refused) << error.what() << again();
      EXPECT_NE(choice.experts, "cpu.ref") << "the oracle serves what has numbers" << again();
      return false;
    }
    return true;
  }
  const Output native_{"native"}, replayed_{"replayed"}, routes_{"routes"}, by_file_{"by_file"};
};

TEST_P(ReplayFolder, OwnRoutesGiveTheSameBitsAndVerify) {
  if (!families().resolve(data_folder() / GetParam()).unsupported.empty())
    GTEST_SKIP() << "described, not run";
  for (const Choice& choice : choices()) {
    SCOPED_TRACE("experts " + choice.experts + ", router " + choice.router + again());
    if (!capture(choice)) continue;
    EXPECT_TRUE(bytes_of(routes_.path()) == bytes_of(by_file_.path())) << "capturers disagree";

    spec::Run replay = run_of(GetParam(), choice);
    replay.replay = routes_.path();
    replay.output = replayed_.path();
    const runtime::RunReport followed = runtime::run(session(2), families(), replay);
    ASSERT_TRUE(followed.routes.has_value());
    EXPECT_GT(followed.routes->replayed, 0);
    EXPECT_EQ(followed.routes->native, 0);
    EXPECT_TRUE(followed.routes->same_router);
    EXPECT_TRUE(bytes_of(native_.path()) == bytes_of(replayed_.path()));

    spec::Run verify = run_of(GetParam(), choice);
    verify.replay = routes_.path();
    verify.verify = true;
    const runtime::RunReport compared = runtime::run(session(2), families(), verify);
    EXPECT_TRUE(compared.passed);
    ASSERT_TRUE(compared.routes->difference.has_value());
    EXPECT_TRUE(compared.routes->difference->same());
    EXPECT_GT(compared.routes->difference->rows, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReplayFolder, testing::ValuesIn(folders()), folder_name);

}  // namespace
}  // namespace moert::golden
