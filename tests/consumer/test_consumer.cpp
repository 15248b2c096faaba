// Builds the plugin of docs/writing-a-plugin.md from that page alone, and a plugin in C, against the
// installed package; then the installed program must list them, choose them and get right numbers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kSource = MOERT_SOURCE_DIR;

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

struct Done {
  int code;
  std::string out;  // stdout
};

// By the shell, in `folder`. Nothing of the tests' environment says where plugins are.
Done run(const fs::path& folder, const std::string& command) {
  const std::string whole =
      "cd '" + folder.string() + "' && env -u MOERT_PLUGIN_PATH -u XDG_DATA_HOME " + command;
  FILE* pipe = popen(whole.c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::string out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

// The fenced blocks of a page that stand under a line <!-- file: NAME -->.
std::map<std::string, std::string> files_of(const fs::path& page) {
  std::map<std::string, std::string> files;
  std::istringstream lines(read(page));
  std::string line, name;
  bool inside = false;
  while (std::getline(lines, line)) {
    const std::string mark = "<!-- file: ";
    if (!inside && line.rfind(mark, 0) == 0) {
      name = line.substr(mark.size(), line.find(" -->") - mark.size());
    } else if (line.rfind("```", 0) == 0) {
      inside = !inside;
      if (!inside) name.clear();
    } else if (inside && !name.empty()) {
      files[name] += line + "\n";
    }
  }
  return files;
}

// Whether some object below `node` has this key with this value.
bool holds(const json& node, const std::string& key, const json& value) {
  if (node.is_object() && node.contains(key) && node[key] == value) return true;
  if (!node.is_structured()) return false;
  for (const json& child : node)
    if (holds(child, key, value)) return true;
  return false;
}

// A folder outside of the tree with the installed package, for the whole program.
class Installed : public testing::Environment {
 public:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "moert-consumer-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
    const Done done =
        run(root, std::string(CONSUMER_CMAKE) + " --install '" MOERT_BINARY_DIR "' --prefix '" +
                      (root / "prefix").string() + "' 2>&1");
    ASSERT_EQ(done.code, 0) << done.out;
  }
  void TearDown() override {
    if (!root.empty()) fs::remove_all(root);
  }
  static inline fs::path root;
};

class Consumer : public testing::Test {
 protected:
  static fs::path prefix() { return Installed::root / "prefix"; }
  static std::string program() { return "'" + (prefix() / "bin/moert").string() + "'"; }

  // Configures and builds the project in `folder`; returns the folder with its library.
  static fs::path build(const fs::path& folder) {
    const std::string sanitize = CONSUMER_SANITIZE;
    std::string flags = "-G '" CONSUMER_GENERATOR "' -DCMAKE_C_COMPILER='" CONSUMER_C
                        "' -DCMAKE_CXX_COMPILER='" CONSUMER_CXX "'";
    if (!sanitize.empty())  // as the host, or it would refuse the plugin
      flags += " -DMOERT_SANITIZE=" + sanitize + " -DCMAKE_C_FLAGS=-fsanitize=" + sanitize +
               " -DCMAKE_CXX_FLAGS=-fsanitize=" + sanitize;
    const std::string cmake = CONSUMER_CMAKE;
    const Done configured =
        run(folder, cmake + " -S . -B build " + flags + " -DCMAKE_PREFIX_PATH='" +
                        prefix().string() + "' 2>&1");
    EXPECT_EQ(configured.code, 0) << configured.out;
    const Done built = run(folder, cmake + " --build build 2>&1");
    EXPECT_EQ(built.code, 0) << built.out;
    return folder / "build";
  }

  // The page's plugin, built once; empty if that failed.
  static const fs::path& page_plugin() {
    static const fs::path folder = [] {
      for (const auto& [name, text] : files_of(kSource / "docs/writing-a-plugin.md"))
        write(Installed::root / "page" / name, text);
      fs::create_directory_symlink(kSource / "tests/data/olmoe-f32",
                                   Installed::root / "page/checkpoint");
      return build(Installed::root / "page");
    }();
    return folder;
  }

  static const fs::path& c_plugin() {
    static const fs::path folder = [] {
      fs::create_directories(Installed::root / "plain");
      fs::copy_file(kSource / "tests/consumer/c_plugin.c", Installed::root / "plain/plain.c");
      write(Installed::root / "plain/CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.25)\nproject(plain LANGUAGES C)\n"
            "set(CMAKE_C_STANDARD 11)\nset(CMAKE_C_EXTENSIONS OFF)\n"
            "find_package(moert REQUIRED)\nmoert_add_plugin(plain SOURCES plain.c LIBRARIES m)\n");
      return build(Installed::root / "plain");
    }();
    return folder;
  }
};

// Who reads the page and who copies the folder get the same files.
TEST_F(Consumer, PageAndExampleAreTheSame) {
  const auto files = files_of(kSource / "docs/writing-a-plugin.md");
  ASSERT_EQ(files.size(), 3u);
  for (const auto& [name, text] : files)
    EXPECT_EQ(text, read(kSource / "examples/vendor_plugin" / name)) << name;
}

TEST_F(Consumer, PluginOfThePageIsSmall) {
  const std::string source = files_of(kSource / "docs/writing-a-plugin.md")["acme.cpp"];
  EXPECT_LT(std::count(source.begin(), source.end(), '\n'), 150);
}

TEST_F(Consumer, PageBuildsOutsideTheTree) {
  EXPECT_TRUE(fs::is_regular_file(page_plugin() / "libmoert_acme.so")) << page_plugin();
}

// One exported symbol, and no C++ library among what is needed.
TEST_F(Consumer, CPluginNeedsNoCpp) {
  const fs::path library = c_plugin() / "libmoert_plain.so";
  ASSERT_TRUE(fs::is_regular_file(library)) << library;
  const Done symbols = run(Installed::root, "nm -D --defined-only '" + library.string() + "'");
  EXPECT_EQ(symbols.code, 0);
  EXPECT_EQ(std::count(symbols.out.begin(), symbols.out.end(), '\n'), 1) << symbols.out;
  EXPECT_NE(symbols.out.find(" T moert_plugin_query_v1"), std::string::npos) << symbols.out;
  const Done needed = run(Installed::root, "readelf -d '" + library.string() + "'");
  EXPECT_EQ(needed.out.find("libstdc++"), std::string::npos) << needed.out;
  EXPECT_EQ(needed.out.find("libmoert"), needed.out.find("libmoert_plain")) << needed.out;
}

// The suite that every plugin of the project is judged by.
TEST_F(Consumer, BothPassConformance) {
  for (const fs::path& library :
       {page_plugin() / "libmoert_acme.so", c_plugin() / "libmoert_plain.so"}) {
    const Done done = run(Installed::root, "'" CONSUMER_CONFORMANCE "' --gtest_brief=1 --plugin '" +
                                               library.string() + "' 2>&1");
    EXPECT_EQ(done.code, 0) << done.out;
  }
}

// What the installed program makes of the two.
class ConsumerProgram : public Consumer {
 protected:
  static json listing(const fs::path& folder) {
    const Done done = run(Installed::root, program() + " plugins list --plugin-path '" +
                                               folder.string() + "' --json");
    EXPECT_EQ(done.code, 0) << done.out;
    return json::parse(done.out, nullptr, false);
  }
  static Done run_page(const std::string& arguments) {
    return run(Installed::root / "page", program() + " run run.yaml --json " + arguments);
  }
};

TEST_F(ConsumerProgram, ListsBoth) {
  const json page = listing(page_plugin());
  EXPECT_TRUE(holds(page, "id", "com.acme.moert")) << page.dump(1);
  EXPECT_TRUE(holds(page, "name", "acme.experts")) << page.dump(1);
  const json plain = listing(c_plugin());
  EXPECT_TRUE(holds(plain, "id", "org.example.plain")) << plain.dump(1);
  EXPECT_TRUE(holds(plain, "name", "plain.router")) << plain.dump(1);
}

// The page's own run.yaml pins acme.experts and expects the checkpoint's golden numbers.
TEST_F(ConsumerProgram, RunsThePagesPlugin) {
  const Done done = run_page("--plugin-path '" + page_plugin().string() + "'");
  EXPECT_EQ(done.code, 0) << done.out;
  const json report = json::parse(done.out, nullptr, false);
  EXPECT_TRUE(holds(report, "routed_experts", "acme.experts")) << done.out;
  EXPECT_TRUE(holds(report, "router", "cpu.simd")) << done.out;
}

// Without the plugin the pin is an error, so the run before this one did use it.
TEST_F(ConsumerProgram, PinWithoutPluginIsRefused) {
  page_plugin();
  EXPECT_EQ(run_page("2>&1").code, 4);
}

TEST_F(ConsumerProgram, RunsBoth) {
  const Done done = run_page("--plugin-path '" + page_plugin().string() + "' --plugin-path '" +
                             c_plugin().string() + "' --set layers.router=plain.router");
  EXPECT_EQ(done.code, 0) << done.out;
  const json report = json::parse(done.out, nullptr, false);
  EXPECT_TRUE(holds(report, "routed_experts", "acme.experts")) << done.out;
  EXPECT_TRUE(holds(report, "router", "plain.router")) << done.out;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new Installed);  // gtest owns it
  return RUN_ALL_TESTS();
}
