// Ctrl-C, memory that runs out, terminals, and results that nobody can take.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "program.hpp"

namespace moert::testing {
namespace {

std::vector<std::string> long_run() {
  return {"run", run_file("olmoe-tiny"), "--set", "repeat=1000000"};
}

TEST(CtrlC, EndsALongRunWith130AndLeavesNothing) {
  const TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const Ended ended = run_moert(long_run(), {.folder = folder.path(), .interrupt_after_ms = 400});
  EXPECT_EQ(ended.code, 130) << MOERT_SHOW(ended);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(ended.out, "");
  EXPECT_TRUE(files_below(folder.path()).empty());
}

TEST(CtrlC, AtOnceIsNoCrash) {
  const TemporaryFolder folder;
  for (int delay = 0; delay < 40; delay += 5) {
    const Ended ended =
        run_moert(long_run(), {.folder = folder.path(), .interrupt_after_ms = delay});
    // Before the program has begun, the signal's own default ends it.
    EXPECT_TRUE(ended.code == 130 || ended.signal == 2) << delay << " ms" << MOERT_SHOW(ended);
    EXPECT_TRUE(files_below(folder.path()).empty());
  }
}

// Work that does not look up for long is ended, and not in silence: a log that waits for its reader stands for it.
class CtrlCWithoutAnswer : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::mkfifo((folder / "log").c_str(), 0600), 0); }
  const TemporaryFolder folder;
};

TEST_F(CtrlCWithoutAnswer, EndsTheProgramAndSaysSo) {
  const Ended ended =
      run_moert({"env", "--log-file", "log"}, {.folder = folder.path(), .interrupt_after_ms = 400});
  EXPECT_EQ(ended.code, 130) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.err, "interrupted\n") << MOERT_SHOW(ended);
}

TEST_F(CtrlCWithoutAnswer, TwiceEndsItAtOnceAndSaysSo) {
  const Ended ended = run_moert(
      {"--version"},
      {.folder = folder.path(),
       .shell =
           " >version; " + std::string(MOERT_PROGRAM) +
           " env --log-file log & sleep 0.4; kill -TERM $!; sleep 0.4; kill -TERM $!; wait $!"});
  EXPECT_EQ(ended.code, 130) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.err, "interrupted\n") << MOERT_SHOW(ended);
}

TEST(LostOutput, ClosedStdoutIsAnError) {
  const Ended ended = run_moert({"plugins", "list"}, {.shell = " >&-"});
  EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "cannot write the results")) << MOERT_SHOW(ended);
}

TEST(LostOutput, FullDeviceIsAnError) {
  const Ended ended = run_moert({"plugins", "list"}, {.shell = " >/dev/full"});
  EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "No space left")) << MOERT_SHOW(ended);
}

TEST(LostOutput, ClosedPipeIsQuietButNoSuccess) {
  const TemporaryFolder folder;
  // The subshell keeps the program's own exit code; `true` never reads.
  const Ended ended =
      run_moert({"plugins", "list"}, {.folder = folder.path(), .shell = " ; echo $? >code"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(read_file(folder / "code"), "0\n");
  const Ended broken =
      run_moert({"--version"}, {.folder = folder.path(),
                                .shell = "; (sleep 0.3; " + std::string(MOERT_PROGRAM) +
                                         " plugins list; echo $? >code) | true; sleep 1"});
  EXPECT_EQ(read_file(folder / "code"), "5\n") << MOERT_SHOW(broken);
  EXPECT_EQ(broken.err, "") << MOERT_SHOW(broken);
}

TEST(LostOutput, ClosedStderrAndStdinDoNotMatter) {
  const Ended ended = run_moert({"plugins", "list"}, {.shell = " 2>&- <&-"});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "org.moert.core")) << MOERT_SHOW(ended);
}

// What is written when stdout is closed must not land in a file that got its number.
TEST(LostOutput, ClosedStdoutDoesNotReachTheLog) {
  const TemporaryFolder folder;
  const Ended ended =
      run_moert({"plugins", "list", "--log-file", (folder / "log").string()}, {.shell = " >&-"});
  EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
  EXPECT_FALSE(contains(read_file(folder / "log"), "org.moert.core"));
}

// Memory that runs out, at whatever place: an error or a result, never a crash, never a partial file.
TEST(Memory, RunningOutIsAnErrorWhereverItHappens) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer reserves more than any limit";
#endif
  for (const char* threads : {"1", "64"}) {
    bool was_refused = false, was_enough = false;
    for (int megabytes = 8; megabytes < 4000 && !was_enough;
         megabytes += megabytes < 40 ? 1 : megabytes / 3) {
      const TemporaryFolder folder;
      const Ended ended = run_moert(
          {"--version"}, {.folder = folder.path(),
                          .shell = " >version; ulimit -v " + std::to_string(megabytes * 1024) +
                                   "; exec " + std::string(MOERT_PROGRAM) + " run " +
                                   run_file("olmoe-tiny") + " --threads " + threads});
      EXPECT_EQ(ended.signal, 0) << megabytes << " MB" << MOERT_SHOW(ended);
      was_enough = ended.code == 0;
      was_refused |= ended.code == 5;
      // 127: even the libraries did not fit. 3: a plugin's library did not. 4: none of them did.
      const bool no_plugin =
          ended.code == 4 && ended.err.find("failed to map") != std::string::npos;
      EXPECT_TRUE(was_enough || no_plugin || ended.code == 5 || ended.code == 127 ||
                  ended.code == 3)
          << megabytes << " MB, " << threads << " threads" << MOERT_SHOW(ended);
      if (!was_enough) {
        EXPECT_FALSE(std::filesystem::exists(folder / "out/olmoe-tiny.safetensors"));
      }
    }
    EXPECT_TRUE(was_refused);
    EXPECT_TRUE(was_enough);
  }
}

// `script` gives the program a terminal.
class Terminal : public ::testing::Test {
 protected:
  void SetUp() override {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0) GTEST_SKIP() << "no pseudo-terminal can be opened here";
    ::close(terminal);
  }
  static bool has_colour(const std::string& command,
                         std::map<std::string, std::string> environment = {}) {
    environment.try_emplace("TERM", "xterm");
    const Ended ended = run_moert(
        {"--version"}, {.environment = std::move(environment),
                        .shell = " >/dev/null; script -qec '" + std::string(MOERT_PROGRAM) + " " +
                                 command + "' /dev/null"});
    EXPECT_TRUE(contains(ended.out, "org.moert.core")) << MOERT_SHOW(ended);
    return contains(ended.out, "\x1b[");
  }
};

TEST_F(Terminal, HasColourUnlessSomebodyDoesNotWantIt) {
  EXPECT_TRUE(has_colour("plugins list"));
  EXPECT_FALSE(has_colour("plugins list --no-color"));
  EXPECT_FALSE(has_colour("plugins list", {{"NO_COLOR", "1"}}));
  EXPECT_TRUE(has_colour("plugins list", {{"NO_COLOR", ""}}));
  EXPECT_FALSE(has_colour("plugins list", {{"TERM", "dumb"}}));
  EXPECT_FALSE(has_colour("plugins list --json"));
}

}  // namespace
}  // namespace moert::testing
