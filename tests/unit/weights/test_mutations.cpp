// Damaged files by the thousand: each parses to what a reader may rely on, or is an Error(input).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <random>

#include "unit/weights/support.hpp"
#include "weights/header.hpp"
#include "weights/index.hpp"

namespace moert::weights {
namespace {

constexpr int kFiles = 20000, kIndices = 5000;
constexpr const char* kPieces[] = {"\"",
                                   "{",
                                   "}",
                                   "[",
                                   "]",
                                   ",",
                                   ":",
                                   "null",
                                   "-1",
                                   "1e999",
                                   "0",
                                   "\\",
                                   "\\u0000",
                                   "F32",
                                   "BF16",
                                   "F4",
                                   "[0,0]",
                                   "18446744073709551615",
                                   "9223372036854775807",
                                   "\"__metadata__\":{}",
                                   "\xff",
                                   "{\"a\":",
                                   "[[[["};

// A valid file of a few tensors, some of them empty, scalar or packed.
std::string valid_file(std::mt19937* random) {
  testing::SafetensorsEdit edit;
  const uint32_t dtypes[] = {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F4_E2M1,
                             MOERT_DTYPE_I64};
  const size_t n = (*random)() % 5;
  for (size_t i = 0; i < n; ++i) {
    std::vector<int64_t> shape((*random)() % 4);
    for (int64_t& size : shape) size = static_cast<int64_t>((*random)() % 5) * 2;
    uint32_t dtype = dtypes[(*random)() % 4];
    if (shape.empty() && dtype == MOERT_DTYPE_F4_E2M1) dtype = MOERT_DTYPE_F32;
    edit.add("model.layers." + std::to_string(i) + ".t", shape, dtype);
  }
  return edit.bytes();
}

// One to four small damages, most of them in the header. `text_begin` is where the JSON begins.
void damage(std::string* file, size_t text_begin, std::mt19937* random) {
  const auto below = [random](size_t n) { return n == 0 ? 0 : (*random)() % n; };
  for (size_t n = 1 + below(4); n > 0; --n) {
    const size_t at =
        below(10) == 0 ? below(file->size()) : std::min(file->size(), text_begin + below(200));
    switch (below(7)) {
      case 0:
        if (at < file->size()) (*file)[at] = static_cast<char>(below(256));
        break;
      case 1:
        if (at < file->size()) (*file)[at] = static_cast<char>((*file)[at] ^ (1 << below(8)));
        break;
      case 2: file->erase(at, 1 + below(20)); break;
      case 3: file->insert(at, kPieces[below(std::size(kPieces))]); break;
      case 4: file->insert(at, file->substr(below(file->size()), below(60))); break;
      case 5:
        if (at < file->size()) (*file)[at] = static_cast<char>('0' + below(10));
        break;
      default: file->resize(at); break;
    }
  }
}

// Gives most files a length that fits the damaged text, so that the parser sees all of it.
void repair_length(std::string* file, size_t data, std::mt19937* random) {
  if (file->size() < 8 + data || (*random)() % 4 == 0) return;
  const uint64_t length = file->size() - 8 - data;
  for (size_t i = 0; i < 8; ++i) (*file)[i] = static_cast<char>(length >> (8 * i));
}

// Reads every byte that the header claims; a copy of exactly the file's size lets the address
// sanitizer see a read past its end.
void check(const Header& header, const std::byte* data, size_t size) {
  uint64_t position = header.tensors.empty() ? size : header.tensors.front().offset;
  unsigned sum = 0;
  for (const TensorInfo& tensor : header.tensors) {
    ASSERT_EQ(tensor.offset, position);
    uint64_t bytes = 0;
    std::string problem;
    ASSERT_TRUE(tensor_bytes(tensor.dtype, tensor.shape, &bytes, &problem));
    ASSERT_EQ(bytes, tensor.bytes);
    for (uint64_t i = 0; i < tensor.bytes; ++i)
      sum += static_cast<unsigned>(data[tensor.offset + i]);
    position += tensor.bytes;
  }
  ASSERT_EQ(position, size) << sum;
}

TEST(Mutations, FilesParseOrAreRefused) {
  int parsed = 0, refused = 0;
  for (int seed = 0; seed < kFiles; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    std::string file = valid_file(&random);
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
    const size_t data = file.size() - 8 - length;
    damage(&file, 8, &random);
    repair_length(&file, data, &random);
    const auto copy = std::make_unique<std::byte[]>(file.size());
    std::memcpy(copy.get(), file.data(), file.size());
    const auto error = error_of([&] {
      check(parse_header({copy.get(), file.size()}, "f"), copy.get(), file.size());
      ++parsed;
    });
    if (error) {
      ++refused;
      ASSERT_EQ(error->fault(), Fault::input) << error->what();
      ASSERT_FALSE(error->problem().empty() || error->place().empty() || error->remedy().empty());
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(parsed + refused, kFiles);
  EXPECT_GT(parsed, kFiles / 100)
      << "the damages are too rough to test anything but the first check";
  EXPECT_GT(refused, kFiles / 2);
}

TEST(Mutations, IndicesParseOrAreRefused) {
  const std::string whole =
      R"({"metadata":{"total_size":191104,"more":[null,true,1.5]},"weight_map":{)"
      R"("a.0.weight":"model-1-of-2.safetensors","a.1.weight":"model-2-of-2.safetensors"}})";
  ASSERT_EQ(parse_index(whole, "i").tensors.size(), 2u);
  int parsed = 0;
  for (int seed = 0; seed < kIndices; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    std::string text = whole;
    damage(&text, 0, &random);
    const auto error = error_of([&] {
      const ShardIndex index = parse_index(text, "i");
      for (const auto& [name, file] : index.tensors) ASSERT_LT(file, index.files.size());
      for (const std::string& file : index.files) ASSERT_EQ(file.find('/'), std::string::npos);
      ++parsed;
    });
    if (error) {
      ASSERT_EQ(error->fault(), Fault::input) << error->what();
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(parsed, 10);
}

// Every length of a small file, so that no check depends on which byte is the last.
TEST(Mutations, EveryTruncationIsRefused) {
  std::mt19937 random(7);
  testing::SafetensorsEdit edit;
  edit.add("a", {2, 3});
  edit.add("b", {4}, MOERT_DTYPE_BF16);
  const std::string file = edit.bytes();
  for (size_t size = 0; size < file.size(); ++size) {
    const auto copy = std::make_unique<std::byte[]>(size);
    std::memcpy(copy.get(), file.data(), size);
    expect_input_error([&] { parse_header({copy.get(), size}, "f"); }, "", "f");
  }
}

}  // namespace
}  // namespace moert::weights
