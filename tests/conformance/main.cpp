// moert_conformance --plugin FILE [--plugin FILE]... [--kind KIND]... [--unsupported FILE] [--seed N] [--gtest_...]
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "kinds.hpp"

namespace moert::conformance {
namespace {

constexpr char kUsage[] =
    "usage: moert_conformance --plugin FILE [--plugin FILE]... [--kind KIND]... [--unsupported "
    "FILE]\n"
    "                         [--seed N]\n"
    "Judges every feature of the plugins through the ABI alone.\n"
    "  --plugin FILE       a plugin to judge\n"
    "  --kind KIND         judge features of this kind alone, such as router; the others are what "
    "they\n"
    "                      are composed of, and run on\n"
    "  --unsupported FILE  tests that it cannot pass, one per line: 'name: reason'; '*' in a name "
    "is\n"
    "                      any text. A test that passes all the same is an error\n"
    "  --seed N            other random numbers\n"
    "  --gtest_filter=...  only some tests; a test's name is <kind>/<feature>.<subject>/<case>\n";

struct Arguments {
  std::vector<std::string> plugins, kinds, unsupported;

  bool judges(const std::string& kind) const {
    return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  settings().command = argv[0];
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help") {
      std::cout << kUsage;
      std::exit(0);
    }
    if (i + 1 == argc) throw std::runtime_error("'" + word + "' is not known, or needs a value");
    const std::string value = argv[++i];
    if (word == "--plugin") {
      out.plugins.push_back(value);
      settings().command += " --plugin " + value;
    } else if (word == "--kind") {
      out.kinds.push_back(value);
    } else if (word == "--unsupported") {
      out.unsupported.push_back(value);
    } else if (word == "--seed") {
      char* end = nullptr;
      settings().seed = std::strtoull(value.c_str(), &end, 10);
      if (value.empty() || *end != '\0') throw std::runtime_error("--seed " + value);
    } else {
      throw std::runtime_error("'" + word + "' is not known");
    }
  }
  if (out.plugins.empty()) throw std::runtime_error("no --plugin was given");
  return out;
}

int run() {
  const int failed = RUN_ALL_TESTS();
  const std::string filter = testing::GTEST_FLAG(filter);
  if (filter != "*") return failed;
  const std::string stale = stale_unsupported();
  std::cerr << stale;
  return stale.empty() ? failed : 1;
}

}  // namespace
}  // namespace moert::conformance

int main(int argc, char** argv) {
  using namespace moert::conformance;
  testing::InitGoogleTest(&argc, argv);
  try {
    const Arguments arguments = parse(argc, argv);
    for (const std::string& path : arguments.unsupported) read_unsupported(path);
    int judged = 0;
    for (const Feature& feature : open_plugins(arguments.plugins))
      if (arguments.judges(feature.kind_word)) judged += add_tests(feature);
    if (judged == 0) throw std::runtime_error("no feature of a kind that this suite judges");
    return run();
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n" << kUsage;
    return 2;
  }
}
