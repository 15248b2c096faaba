// YAML as the room reads it: types, places, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "config/yaml_node.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

YamlNode parse(const std::string& text) {
  return parse_yaml(text, std::make_shared<Source>(Source{"t.yaml", true, "/base"}));
}

struct Scalar {
  const char* name;
  const char* text;
  YamlNode::Type type;
};
void PrintTo(const Scalar& s, std::ostream* out) { *out << s.name; }

class ScalarTypes : public ::testing::TestWithParam<Scalar> {};

TEST_P(ScalarTypes, AreThoseOfTheCoreSchema) {
  const YamlNode document = parse(std::string("k: ") + GetParam().text);
  EXPECT_EQ(static_cast<int>(document.find("k")->type), static_cast<int>(GetParam().type));
}

INSTANTIATE_TEST_SUITE_P(Yaml, ScalarTypes,
                         ::testing::Values(Scalar{"yes", "yes", YamlNode::Type::string},
                                           Scalar{"on", "on", YamlNode::Type::string},
                                           Scalar{"n", "n", YamlNode::Type::string},
                                           Scalar{"true_", "true", YamlNode::Type::boolean},
                                           Scalar{"False", "False", YamlNode::Type::boolean},
                                           Scalar{"tRue", "tRue", YamlNode::Type::string},
                                           Scalar{"quoted", "\"true\"", YamlNode::Type::string},
                                           Scalar{"single", "'12'", YamlNode::Type::string},
                                           Scalar{"zero", "0", YamlNode::Type::integer},
                                           Scalar{"minus", "-12", YamlNode::Type::integer},
                                           Scalar{"hex", "0x1F", YamlNode::Type::integer},
                                           Scalar{"octal", "0o17", YamlNode::Type::integer},
                                           Scalar{"underscore", "1_000", YamlNode::Type::string},
                                           Scalar{"sexagesimal", "1:30", YamlNode::Type::string},
                                           Scalar{"point", "1.5", YamlNode::Type::number},
                                           Scalar{"exponent", "1e-5", YamlNode::Type::number},
                                           Scalar{"bare_point", ".5", YamlNode::Type::number},
                                           Scalar{"trailing", "5.", YamlNode::Type::number},
                                           Scalar{"only_point", ".", YamlNode::Type::string},
                                           Scalar{"version", "1.2.3", YamlNode::Type::string},
                                           Scalar{"range", "0-5", YamlNode::Type::string},
                                           Scalar{"tilde", "~", YamlNode::Type::null},
                                           Scalar{"null_", "null", YamlNode::Type::null},
                                           Scalar{"empty", "", YamlNode::Type::null},
                                           Scalar{"device", "cuda:0", YamlNode::Type::string},
                                           Scalar{"hex_no_digits", "0x", YamlNode::Type::string}),
                         case_name<Scalar>);

TEST(Yaml, NumbersAreExact) {
  EXPECT_EQ(parse("k: 9223372036854775807").find("k")->integer, INT64_MAX);
  EXPECT_EQ(parse("k: -9223372036854775808").find("k")->integer, INT64_MIN);
  EXPECT_EQ(parse("k: 0xff").find("k")->integer, 255);
  EXPECT_EQ(parse("k: +7").find("k")->integer, 7);
  EXPECT_EQ(parse("k: 1.0e-20").find("k")->number, 1e-20);
}

TEST(Yaml, NodesKnowTheirPlace) {
  const YamlNode document = parse("a: 1\nb:\n  - x\n  - {c: 2}\n");
  const YamlNode& inner = document.find("b")->items[1].items[0];
  EXPECT_EQ(inner.key_place(), "t.yaml:4:6");
  EXPECT_EQ(inner.place(), "t.yaml:4:9");
}

struct YamlFault {
  const char* name;
  std::string text;
  std::vector<std::string> parts;
};
void PrintTo(const YamlFault& f, std::ostream* out) { *out << f.name; }

std::string many_entries() {
  std::string text = "a: [";
  for (int i = 0; i <= 10'000; ++i) text += "x,";
  return text + "]";
}

class YamlFaults : public ::testing::TestWithParam<YamlFault> {};

TEST_P(YamlFaults, AreSaidWithTheirPlace) {
  expect_error(Fault::usage, GetParam().parts, [] { parse(GetParam().text); });
}

INSTANTIATE_TEST_SUITE_P(
    Yaml, YamlFaults,
    ::testing::Values(
        YamlFault{"duplicate_key", "a: 1\nb: 2\na: 3\n", {"'a'", "t.yaml:3:1", "line 1"}},
        YamlFault{"duplicate_in_flow", "m: {x: 1, x: 2}", {"'x'", "t.yaml:1:11"}},
        YamlFault{"duplicate_quoted", "a: 1\n\"a\": 2\n", {"'a'", "t.yaml:2:1"}},
        YamlFault{"anchor", "a: &x 1\n", {"anchor", "t.yaml:1:4"}},
        YamlFault{"alias", "a: 1\nb: *x\n", {"t.yaml:2:4"}},
        YamlFault{"laughs", "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", {"anchor", "t.yaml:1:4"}},
        YamlFault{"tag", "a: !!str 1\n", {"tag", "t.yaml:1:4"}},
        YamlFault{"own_tag", "a: !python/object x\n", {"tag"}},
        YamlFault{"two_documents", "a: 1\n---\nb: 2\n", {"several documents"}},
        YamlFault{"empty", "", {"empty"}}, YamlFault{"only_comment", "# nothing\n", {"empty"}},
        YamlFault{"list_as_key", "? [a, b]\n: 1\n", {"where a key must stand", "t.yaml:1:3"}},
        YamlFault{"null_key", "~: 1\n", {"key is empty", "t.yaml:1:1"}},
        YamlFault{"unclosed", "a: [1, 2\n", {"this is no YAML", "t.yaml:"}},
        YamlFault{"tab_indent", "a:\n\tb: 1\n", {"this is no YAML"}},
        YamlFault{"reserved", "a: @x\n", {"this is no YAML"}},
        YamlFault{"leading_zero", "a: 010\n", {"010", "octal", "t.yaml:1:4"}},
        YamlFault{"too_large", "a: 9223372036854775808\n", {"64 bits", "t.yaml:1:4"}},
        YamlFault{"too_small", "a: -9223372036854775809\n", {"64 bits"}},
        YamlFault{"huge_hex", "a: 0x10000000000000000\n", {"64 bits"}},
        YamlFault{"overflow", "a: 1e400\n", {"range of a double"}},
        YamlFault{"underflow", "a: 1e-400\n", {"range of a double"}},
        YamlFault{"nan", "a: .nan\n", {"finite", "t.yaml:1:4"}},
        YamlFault{"infinity", "a: -.INF\n", {"finite"}},
        YamlFault{"nul_byte", std::string("a: b\0c\n", 7), {"UTF-8", "t.yaml:1:5"}},
        YamlFault{"nul_escape", "a: \"b\\0c\"\n", {"NUL", "t.yaml:1:4"}},
        YamlFault{"not_utf8", "a: b\nc: \xff\n", {"UTF-8", "t.yaml:2:4"}},
        YamlFault{"overlong", "a: \xc0\xaf\n", {"UTF-8"}},
        YamlFault{"surrogate", "a: \xed\xa0\x80\n", {"UTF-8"}},
        YamlFault{"cut_character", "a: \xe2\x82", {"UTF-8"}},
        YamlFault{"utf16",
                  std::string("\xff\xfe"
                              "a\0:\0",
                              6),
                  {"UTF-8", "t.yaml:1:1"}},
        YamlFault{"deep_flow", "a: " + std::string(100, '['), {"t.yaml:1:"}},
        YamlFault{"very_deep_flow", "a: " + std::string(200'000, '['), {"t.yaml"}},
        YamlFault{"very_deep_map", "a: " + std::string(200'000, '{'), {"t.yaml"}},
        YamlFault{"many_entries", many_entries(), {"more than 10000 entries"}},
        YamlFault{"long_text", "a: " + std::string(5000, 'x'), {"5000 bytes", "4096"}},
        YamlFault{"too_long", "a: [" + std::string(1 << 20, ' ') + "]", {"bytes at most"}}),
    case_name<YamlFault>);

TEST(Yaml, DepthIsBoundedInBlockStyle) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::string(static_cast<size_t>(i), ' ') + "k:\n";
  expect_error(Fault::usage, {"nested deeper than 32"},
               [&] { parse(text + std::string(40, ' ') + "v: 1\n"); });
}

// The most that a file may hold of what a parser could be slow at. Each takes well below a second;
// the bound is loose, for sanitizers and busy machines.
struct Piece {
  const char* name;
  std::string_view text;
};
void PrintTo(const Piece& p, std::ostream* out) { *out << p.name; }

class LongInputs : public ::testing::TestWithParam<Piece> {};

TEST_P(LongInputs, EndInTime) {
  std::string text = "a: ";
  while (text.size() + GetParam().text.size() < kMaxYamlBytes) text += GetParam().text;
  const auto start = std::chrono::steady_clock::now();
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.fault()), static_cast<int>(Fault::usage));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

INSTANTIATE_TEST_SUITE_P(
    Yaml, LongInputs,
    ::testing::Values(Piece{"list", "["}, Piece{"map", "{"}, Piece{"items", "\n - a"},
                      Piece{"dashes", "- "}, Piece{"questions", "? "}, Piece{"colons", "a: "},
                      Piece{"lines", "\n\n"}, Piece{"folded", "x\n "}, Piece{"comments", "\n# c"},
                      Piece{"anchors", "&a "}, Piece{"tags", "!a "}, Piece{"aliases", "*a "},
                      Piece{"bars", "|"}, Piece{"single_quotes", "'"}, Piece{"double_quotes", "\""},
                      Piece{"backslashes", "\\"}, Piece{"nested_maps", "{a: "},
                      Piece{"nested_lists", "[a, "}, Piece{"commas", ","},
                      Piece{"documents", "\n---"}, Piece{"ends", "\n..."},
                      Piece{"directives", "\n%"}, Piece{"tabs", "\t"}, Piece{"blanks", " "},
                      Piece{"letters", "x"}),
    case_name<Piece>);

TEST(Yaml, FileFaultsAreUsageFaults) {
  const TempFolder folder;
  expect_error(Fault::usage, {(folder.path() / "none.yaml").string()},
               [&] { read_yaml_file(folder.path() / "none.yaml"); });
  expect_error(Fault::usage, {folder.path().string()}, [&] { read_yaml_file(folder.path()); });
}

TEST(Yaml, ByteOrderMarkIsSkipped) {
  const TempFolder folder;
  EXPECT_EQ(read_yaml_file(folder.write("a.yaml",
                                        "\xef\xbb\xbf"
                                        "a: 1\n"))
                .find("a")
                ->integer,
            1);
}

}  // namespace
}  // namespace moert::config::test
