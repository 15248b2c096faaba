// The header of a safetensors file: what is accepted, and how each kind of damage is reported.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>

#include "unit/weights/support.hpp"
#include "weights/header.hpp"

namespace moert::weights {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// A file with this JSON text and so many bytes of data. `length` replaces the true header length.
std::string file_of(const std::string& json, size_t data, int64_t length = -1) {
  const auto n = length < 0 ? json.size() : static_cast<uint64_t>(length);
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(n >> (8 * i));
  return text + json + std::string(data, '\1');
}

// {"NAME": {"dtype": ..., "shape": ..., "data_offsets": ...}} without the outer braces.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{" + entry("t", dtype, shape, offsets) + "}";
}

TEST(Header, ReadsTensorsInOrderOfOffset) {
  const std::string json = "{" + entry("b", "F32", "[2,3]", "[4,28]") +
                           ",\"__metadata__\":{\"format\":\"pt\",\"k\":\"\\u00e9\"}," +
                           entry("a", "BF16", "[2]", "[0,4]") + "}   ";
  const Header header = parse_header(bytes_of(file_of(json, 28)), "f");
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, uint32_t{MOERT_DTYPE_BF16});
  EXPECT_EQ(header.tensors[0].offset, 8 + json.size());
  EXPECT_EQ(header.tensors[0].bytes, 4u);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[1].offset, 12 + json.size());
  EXPECT_EQ(header.metadata,
            (std::map<std::string, std::string>{{"format", "pt"}, {"k", "\u00e9"}}));
}

struct Accepted {
  const char* name;
  std::string json;
  size_t data;
};
std::ostream& operator<<(std::ostream& out, const Accepted& c) { return out << c.name; }

class HeaderAccepts : public ::testing::TestWithParam<Accepted> {};

TEST_P(HeaderAccepts, Whole) {
  EXPECT_NO_THROW(parse_header(bytes_of(file_of(GetParam().json, GetParam().data)), "f"));
}

INSTANTIATE_TEST_SUITE_P(
    Headers, HeaderAccepts,
    ::testing::Values(Accepted{"no_tensors", "{}", 0}, Accepted{"padded", "{}      ", 0},
                      Accepted{"scalar", one("F32", "[]", "[0,4]"), 4},
                      Accepted{"zero_size", one("F32", "[0,5]", "[0,0]"), 0},
                      Accepted{"zero_sizes_between",
                               "{" + entry("a", "U8", "[2]", "[0,2]") + "," +
                                   entry("z", "U8", "[0]", "[2,2]") + "," +
                                   entry("y", "U8", "[0]", "[2,2]") + "," +
                                   entry("b", "U8", "[1]", "[2,3]") + "}",
                               3},
                      Accepted{"rank_8", one("U8", "[1,1,1,1,1,1,1,2]", "[0,2]"), 2},
                      Accepted{"four_bits", one("F4", "[3,2]", "[0,3]"), 3},
                      Accepted{"eight_bits_of_each_kind",
                               "{" + entry("a", "F8_E4M3", "[1]", "[0,1]") + "," +
                                   entry("b", "F8_E5M2", "[1]", "[1,2]") + "," +
                                   entry("c", "F8_E8M0", "[1]", "[2,3]") + "," +
                                   entry("d", "BOOL", "[1]", "[3,4]") + "}",
                               4},
                      Accepted{"empty_name", "{" + entry("", "U8", "[1]", "[0,1]") + "}", 1},
                      Accepted{"fields_in_another_order",
                               R"({"t":{"data_offsets":[0,8],"shape":[1],"dtype":"I64"}})", 8},
                      Accepted{"empty_metadata", R"({"__metadata__":{}})", 0}),
    [](const auto& test) { return std::string(test.param.name); });

struct Refused {
  const char* name;
  std::string file;
  const char* problem;
  const char* place = "f: tensor t";
};
std::ostream& operator<<(std::ostream& out, const Refused& c) { return out << c.name; }

class HeaderRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(HeaderRefuses, WithAReason) {
  expect_input_error([&] { parse_header(bytes_of(GetParam().file), "f"); }, GetParam().problem,
                     GetParam().place);
}

Refused tensor(const char* name, const std::string& json, size_t data, const char* problem) {
  return {name, file_of(json, data), problem};
}
Refused whole(const char* name, const std::string& file, const char* problem) {
  return {name, file, problem, "f"};
}

INSTANTIATE_TEST_SUITE_P(
    Length, HeaderRefuses,
    ::testing::Values(
        whole("empty_file", "", "the file has 0 bytes"),
        whole("seven_bytes", std::string(7, '\0'), "the file has 7 bytes"),
        whole("length_only", std::string(8, '\0'), "does not begin with '{'"),
        whole("length_past_the_end", file_of("{}", 0, 3),
              "header length 3 is more than the file's 10"),
        whole("length_above_the_limit", file_of("{}", 0, 100'000'001), "above the limit"),
        whole("length_all_ones", std::string(8, '\xff') + "{}",
              "header length 18446744073709551615"),
        whole("git_lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
              "Git LFS pointer"),
        whole("text_file", "hello, this is no tensor file", "above the limit")),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Json, HeaderRefuses,
    ::testing::Values(
        whole("cut", file_of("{\"t\":{\"dtype\":", 0), "no valid JSON at byte"),
        whole("an_array", file_of("[]", 0), "does not begin with '{'"),
        whole("leading_space", file_of(" {}", 0), "does not begin with '{'"),
        whole("byte_order_mark", file_of("\xef\xbb\xbf{}", 0), "does not begin with '{'"),
        whole("text_after", file_of("{} x", 0), "no valid JSON at byte"),
        whole("zero_byte_after", file_of(std::string("{}\0\0", 4), 0), "zero byte"),
        whole("two_objects", file_of("{}{}", 0), "no valid JSON"),
        whole("no_utf8", file_of("{\"\xff\":{}}", 0), "no valid JSON"),
        whole("lone_surrogate", file_of("{\"\\ud800\":{}}", 0), "no valid JSON"),
        whole("comment", file_of("{/**/}", 0), "no valid JSON"),
        whole("trailing_comma", file_of("{\"__metadata__\":{},}", 0), "no valid JSON"),
        whole("tensor_is_a_number", file_of("{\"t\":1}", 0), "'t' is 1, expected an object"),
        whole("tensor_is_an_array", file_of("{\"t\":[[[]]]}", 0), "'t' is an array"),
        whole("metadata_is_null", file_of("{\"__metadata__\":null}", 0), "'__metadata__' is null"),
        whole("metadata_number", file_of("{\"__metadata__\":{\"a\":1}}", 0),
              "'a' in __metadata__ is 1, expected a text"),
        whole("metadata_nested", file_of("{\"__metadata__\":{\"a\":{}}}", 0), "is an object"),
        whole("metadata_key_twice", file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0),
              "the key 'a' stands twice"),
        whole("metadata_twice", file_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0),
              "__metadata__ stands twice"),
        whole("deep", file_of("{\"t\":" + std::string(100000, '['), 0), "'t' is an array")),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Tensors, HeaderRefuses,
    ::testing::Values(
        tensor("unknown_dtype", one("F99", "[1]", "[0,4]"), 4, "the dtype 'F99' is not known"),
        tensor("lower_case_dtype", one("f32", "[1]", "[0,4]"), 4, "the dtype 'f32' is not known"),
        tensor("dtype_number", R"({"t":{"dtype":1,"shape":[],"data_offsets":[0,4]}})", 4,
               "'dtype' is 1"),
        tensor("no_dtype", R"({"t":{"shape":[],"data_offsets":[0,4]}})", 4, "'dtype' is missing"),
        tensor("no_shape", R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4,
               "'shape' is missing"),
        tensor("no_offsets", R"({"t":{"dtype":"F32","shape":[]}})", 4, "'data_offsets' is missing"),
        tensor("empty_entry", R"({"t":{}})", 0, "is missing"),
        tensor("field_twice", R"({"t":{"dtype":"F32","dtype":"F32"}})", 0, "'dtype' stands twice"),
        tensor("unknown_field", R"({"t":{"strides":[1]}})", 0, "'strides' is no field of a tensor"),
        tensor("shape_is_a_text", R"({"t":{"shape":"[1]"}})", 0, "'shape' is the text"),
        tensor("nested_shape", R"({"t":{"shape":[[1]]}})", 0, "an array in the shape"),
        tensor("negative_size", one("F32", "[-1]", "[0,4]"), 4, "-1 in the shape"),
        tensor("fractional_size", one("F32", "[1.5]", "[0,4]"), 4, "1.5 in the shape"),
        tensor("size_above_63_bits", one("U8", "[9223372036854775808]", "[0,4]"), 4,
               "9223372036854775808"),
        tensor("size_above_64_bits", one("U8", "[99999999999999999999]", "[0,4]"), 4,
               "99999999999999999999"),
        tensor("product_overflows", one("U8", "[4294967296,4294967296]", "[0,0]"), 0,
               "too many elements"),
        tensor("product_wraps_to_4", one("U8", "[4611686018427387905,4]", "[0,4]"), 4,
               "too many elements"),
        tensor("product_overflows_around_0", one("U8", "[0,4294967296,4294967296]", "[0,0]"), 0,
               "too many elements"),
        tensor("rank_9", one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "more than 8 dimensions"),
        tensor("half_a_byte", one("F4", "[3]", "[0,2]"), 2, "no whole number of bytes")),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Ranges, HeaderRefuses,
    ::testing::Values(
        tensor("one_offset", one("F32", "[1]", "[0]"), 4, "has not two numbers"),
        tensor("three_offsets", one("F32", "[1]", "[0,4,8]"), 4, "more than two numbers"),
        tensor("negative_offset", one("F32", "[1]", "[-4,0]"), 4, "-4 in data_offsets"),
        tensor("backwards", one("F32", "[1]", "[4,0]"), 4, "[4, 0] run backwards"),
        tensor("too_few_bytes", one("F32", "[2]", "[0,4]"), 4, "hold 4 bytes, but f32 [2] needs 8"),
        tensor("too_many_bytes", one("F32", "[1]", "[0,8]"), 8,
               "hold 8 bytes, but f32 [1] needs 4"),
        tensor("past_the_end", one("F32", "[2]", "[0,8]"), 7,
               "end outside the file's data section of 7"),
        tensor("far_past_the_end", one("U8", "[1]", "[18446744073709551614,18446744073709551615]"),
               1, "end outside"),
        tensor("gap_first", one("F32", "[1]", "[4,8]"), 8, "leave a gap"),
        whole("bytes_left_over", file_of(one("F32", "[1]", "[0,4]"), 5), "1 bytes at the end"),
        whole("bytes_without_tensors", file_of("{}", 3), "3 bytes at the end"),
        tensor("overlap",
               "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("t", "U8", "[4]", "[2,6]") +
                   "}",
               6, "overlap the tensor before"),
        tensor("same_range",
               "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("t", "U8", "[4]", "[0,4]") +
                   "}",
               4, "overlap the tensor before"),
        tensor("gap_between",
               "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("t", "U8", "[4]", "[5,9]") +
                   "}",
               9, "leave a gap: the tensor before ends at 4"),
        tensor("zero_size_inside_another",
               "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("t", "U8", "[0]", "[2,2]") +
                   "}",
               4, "overlap the tensor before"),
        tensor("name_twice",
               "{" + entry("t", "U8", "[1]", "[0,1]") + "," + entry("t", "U8", "[1]", "[1,2]") +
                   "}",
               2, "'t' stands twice")),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Header, MessagesHoldNoControlCharactersAndEnd) {
  const std::string name = "\\u001b[2J" + std::string(100000, 'x');
  const auto error = error_of([&] {
    parse_header(bytes_of(file_of("{" + entry(name, "F99", "[1]", "[0,1]") + "}", 1)), "f");
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->place().find('\x1b'), std::string::npos);
  EXPECT_NE(error->place().find("\\x1b[2J"), std::string::npos);
  EXPECT_LT(std::strlen(error->what()), 1000u);
}

}  // namespace
}  // namespace moert::weights
