// Edit distance and the suggestions made from it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "util/nearest.hpp"

namespace moert {
namespace {

struct DistanceCase {
  const char *name, *a, *b;
  size_t distance;
};
std::ostream& operator<<(std::ostream& out, const DistanceCase& c) { return out << c.name; }

class Distance : public ::testing::TestWithParam<DistanceCase> {};

TEST_P(Distance, BothWays) {
  EXPECT_EQ(edit_distance(GetParam().a, GetParam().b), GetParam().distance);
  EXPECT_EQ(edit_distance(GetParam().b, GetParam().a), GetParam().distance);
}

INSTANTIATE_TEST_SUITE_P(Words, Distance,
                         ::testing::Values(DistanceCase{"both_empty", "", "", 0},
                                           DistanceCase{"one_empty", "", "abc", 3},
                                           DistanceCase{"equal", "gate_proj", "gate_proj", 0},
                                           DistanceCase{"one_replaced", "top_k", "top_j", 1},
                                           DistanceCase{"one_added", "expert", "experts", 1},
                                           DistanceCase{"two_swapped", "rnu", "run", 1},
                                           DistanceCase{"shifted", "abcdef", "bcdefa", 2},
                                           DistanceCase{"kitten", "kitten", "sitting", 3}),
                         [](const auto& test) { return std::string(test.param.name); });

// Against the definition, computed without memory of rows.
size_t by_definition(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const size_t one = std::min({by_definition(a.substr(1), b) + 1, by_definition(a, b.substr(1)) + 1,
                               by_definition(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1)});
  const bool swapped = a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0];
  return swapped ? std::min(one, by_definition(a.substr(2), b.substr(2)) + 1) : one;
}

TEST(DistanceRandom, AgreesWithTheDefinition) {
  std::mt19937 random(1);
  const auto word = [&random] {
    std::string text(random() % 7, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 300; ++i) {
    const std::string a = word(), b = word();
    EXPECT_EQ(edit_distance(a, b), by_definition(a, b)) << a << " " << b;
  }
}

TEST(NearestNames, OrderIsDistanceThenBytes) {
  const std::vector<std::string> names = {"cpd", "cpv", "cpu", "cuda", "hip"};
  EXPECT_EQ(nearest_names("cpx", names, 9), (std::vector<std::string>{"cpd", "cpu", "cpv"}));
  EXPECT_EQ(nearest_names("cpx", names), std::vector<std::string>{"cpd"});
  EXPECT_TRUE(nearest_names("cpx", names, 0).empty());
}

TEST(NearestNames, NoneFartherThanHalfTheLength) {
  EXPECT_EQ(nearest_names("abcdefgh", {"abcdxxxx"}).size(), 1u);
  EXPECT_TRUE(nearest_names("abcdefgh", {"abcxxxxx"}).empty());
  EXPECT_EQ(nearest_names("a", {"xyz", "xy"}), std::vector<std::string>{"xy"});
  EXPECT_TRUE(nearest_names("abc", {}).empty());
}

TEST(Suggestion, NamesTheNearestOrAll) {
  EXPECT_EQ(suggestion("softmx", {"sigmoid", "softmax"}), "did you mean 'softmax'?");
  EXPECT_EQ(suggestion("relu", {"softmax", "sigmoid"}), "known are: softmax, sigmoid");
}

TEST(Suggestion, ShowsTwelveAtMost) {
  std::vector<std::string> names;
  for (char c = 'a'; c < 'a' + 13; ++c) names.emplace_back(10, c);
  const std::string text = suggestion("zz", names);
  EXPECT_NE(text.find("llllllllll, ..."), std::string::npos) << text;
  EXPECT_EQ(text.find("mmmmmmmmmm"), std::string::npos) << text;
  names.pop_back();
  EXPECT_EQ(suggestion("zz", names).find("..."), std::string::npos);
}

TEST(Joined, Separates) {
  EXPECT_EQ(joined({}), "");
  EXPECT_EQ(joined({"a"}), "a");
  EXPECT_EQ(joined({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(joined({"a", "b"}, "."), "a.b");
}

}  // namespace
}  // namespace moert
