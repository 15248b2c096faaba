// What the tests of this room share: a folder per test, errors as values, the rules of families.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <moert/error.hpp>

#include "spec/family.hpp"
#include "spec/model.hpp"
#include "support/safetensors_edit.hpp"
#include "weights/plan.hpp"

namespace moert::weights {

// A fresh folder, named after the running test.
inline std::filesystem::path test_folder() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string("moert_") + info->test_suite_name() + "_" + info->name();
  for (char& c : name)
    if (c == '/') c = '_';
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline spec::TensorRule rule_of(spec::Target target, std::string pattern,
                                std::vector<uint32_t> parts) {
  spec::TensorRule rule;
  rule.target = target;
  rule.pattern = std::move(pattern);
  rule.parts = std::move(parts);
  return rule;
}

inline std::filesystem::path data_folder(const std::string& name) {
  return std::filesystem::path(MOERT_SOURCE_DIR) / "tests/data" / name;
}

inline std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

// The body throws Error(input) whose three lines are useful: the first says `problem`, the second
// begins with `place` (or holds it), the third is there.
inline void expect_input_error(const std::function<void()>& body, const std::string& problem,
                               const std::string& place) {
  const std::optional<Error> error = error_of(body);
  ASSERT_TRUE(error) << "no error; expected: " << problem;
  EXPECT_EQ(error->fault(), Fault::input) << error->what();
  EXPECT_NE(error->problem().find(problem), std::string::npos)
      << error->what() << "\nexpected: " << problem;
  EXPECT_NE(error->place().find(place), std::string::npos)
      << error->what() << "\nexpected: " << place;
  EXPECT_FALSE(error->remedy().empty());
}

// A family as a rules file would give it, and the model of one of the committed checkpoints.
struct Family {
  spec::Model model;
  spec::Tensors tensors;
};
Family olmoe();        // tests/data/olmoe-f32
Family mixtral();      // tests/data/mixtral-f32
Family qwen3_moe();    // tests/data/qwen3-moe-f32 and -fused-f32
Family qwen2_moe();    // tests/data/qwen2-moe-f32
Family deepseek_v3();  // tests/data/deepseek-v3-f32

// "missing NAME" and the like, one each.
std::vector<std::string> texts_of(const Plan& plan);

}  // namespace moert::weights
