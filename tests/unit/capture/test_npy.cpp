// Headers of NumPy's files: as NumPy writes them, as others do, and damaged ones.
// SPDX-License-Identifier: Apache-2.0
#include "capture/npy.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

namespace moert::capture {
namespace {

using namespace std::string_literals;

// Lengths and CRC-32 of numpy.lib.format.write_array_header_1_0, NumPy 2.4.
TEST(Npy, HeadersAreNumPys) {
  struct Header {
    NpyHeader header;
    size_t bytes;
    unsigned long crc;
  };
  constexpr int64_t kBig = 1'000'000'000'000'000'000;
  const Header cases[] = {
      {{"|u1", false, {7}}, 128, 0x8ad2f30a},
      {{"|u1", false, {}}, 128, 0xcf4fe6b8},
      {{"|u1", false, {5, 48, 8}}, 128, 0x68911391},
      {{"|u1", false, {123456, 61, 8}}, 128, 0xcee2118c},
      {{"<u2", false, {3, kBig, 10'000'000'000'000, 5}}, 128, 0x88ef52e5},
      {{"<u2", false, {3, kBig, 100'000'000'000'000, 5}}, 192, 0x7d473efe},
      {{"<u2", false, {3, kBig, 1'000'000'000'000'000, 5}}, 192, 0xaf6e4a9e},
  };
  for (const Header& c : cases) {
    const std::string text = npy_header(c.header);
    EXPECT_EQ(text.size(), c.bytes);
    EXPECT_EQ(::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()), c.crc)
        << text;
    NpyHeader back;
    size_t data = 0;
    std::string problem;
    ASSERT_TRUE(read_npy_header(text + "x", &back, &data, &problem)) << problem;
    EXPECT_EQ(data, text.size());
    EXPECT_EQ(back.descr, c.header.descr);
    EXPECT_EQ(back.shape, c.header.shape);
    EXPECT_FALSE(back.fortran_order);
  }
}

// Headers of a program that is not NumPy: other order, other spaces; and damaged ones.
TEST(Npy, ReadsOthersHeadersAndRefusesDamagedOnes) {
  const auto file = [](const std::string& text) {
    return "\x93NUMPY\x01\x00"s + static_cast<char>(text.size()) + '\0' + text;
  };
  NpyHeader header;
  size_t data = 0;
  std::string problem;
  ASSERT_TRUE(read_npy_header(file("{'shape':(2,),'fortran_order':True,'descr':'<i4'}\n"), &header,
                              &data, &problem));
  EXPECT_TRUE(header.fortran_order);
  EXPECT_EQ(header.shape, (std::vector<int64_t>{2}));
  for (const std::string& text :
       {""s, "{"s, "{}"s, "{'descr': '|u1', 'fortran_order': False}"s,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2 3)}"s,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-2,)}"s,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,)}"s,
        "{'descr': '|u1', 'fortran_order': Maybe, 'shape': (2,)}"s,
        "{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (2,)}"s,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), 'more': 1}"s,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,"s,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)} x"s}) {
    EXPECT_FALSE(read_npy_header(file(text), &header, &data, &problem)) << text;
  }
  for (const std::string& bytes :
       {""s, "\x93NUMPY"s, "\x93NUMPY\x01\x00\x76\x00{"s, "\x93NUMPY\x02\x00\x01\x00\x00\x00{"s}) {
    EXPECT_FALSE(read_npy_header(bytes, &header, &data, &problem));
  }
}

}  // namespace
}  // namespace moert::capture
