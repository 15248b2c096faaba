// What the tests of this room share: errors as values, random rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <moert/error.hpp>

#include "support/capture_rows.hpp"

namespace moert::capture {

using testing::Decision;

inline std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

// The body throws an Error of that fault whose text holds all of `texts` and which says what to do.
inline void expect_error(const std::function<void()>& body, Fault fault,
                         std::initializer_list<std::string> texts) {
  const std::optional<Error> error = error_of(body);
  ASSERT_TRUE(error) << "no error; expected: " << *texts.begin();
  EXPECT_EQ(error->fault(), fault) << error->what();
  EXPECT_FALSE(error->place().empty()) << error->what();
  EXPECT_FALSE(error->remedy().empty()) << error->what();
  for (const std::string& text : texts)
    EXPECT_NE(std::string(error->what()).find(text), std::string::npos)
        << error->what() << "\nexpected: " << text;
}

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// k distinct experts, any order.
inline std::vector<int32_t> random_ids(int64_t experts, int64_t k, std::mt19937* random) {
  std::vector<int32_t> ids;
  while (static_cast<int64_t>(ids.size()) < k) {
    const auto id = static_cast<int32_t>((*random)() % static_cast<uint64_t>(experts));
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

inline Decision random_decision(const CapturedLayer& layer, std::mt19937* random) {
  Decision decision{random_ids(layer.num_experts, layer.top_k, random), {}, 0};
  for (int64_t j = 0; j < layer.top_k; ++j)
    decision.weights.push_back(static_cast<float>((*random)() % 1000) / 1000);
  decision.margin = static_cast<float>((*random)() % 1000) / 100'000;
  return decision;
}

}  // namespace moert::capture
