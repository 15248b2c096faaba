// Writing: the layout of the format's own library, and reading it back.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "unit/weights/support.hpp"
#include "weights/safetensors.hpp"

namespace moert::weights {
namespace {
namespace fs = std::filesystem;

TEST(Writer, ReadsBackWhatWasWritten) {
  std::mt19937 random(3);
  const fs::path file = test_folder() / "x.safetensors";
  const uint32_t dtypes[] = {MOERT_DTYPE_F64,       MOERT_DTYPE_F32, MOERT_DTYPE_BF16,
                             MOERT_DTYPE_I64,       MOERT_DTYPE_I32, MOERT_DTYPE_U8,
                             MOERT_DTYPE_F8_E4M3FN, MOERT_DTYPE_BOOL};
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    std::vector<testing::EditTensor> wanted(random() % 9);
    SafetensorsWriter writer;
    for (size_t i = 0; i < wanted.size(); ++i) {
      testing::EditTensor& t = wanted[i];
      t.name = "t\n\"" + std::to_string(i);
      t.dtype = dtypes[random() % std::size(dtypes)];
      t.shape.resize(random() % 4);
      int64_t n = 1;
      for (int64_t& size : t.shape) n *= size = static_cast<int64_t>(random() % 5);
      t.data.resize(dtype_bytes(t.dtype, n));
      for (std::byte& b : t.data) b = static_cast<std::byte>(random());
      writer.add(t.name, t.dtype, t.shape, t.data.data());
    }
    writer.set_metadata("key", "value \u00e9");
    writer.write(file);
    const Checkpoint checkpoint(file);
    EXPECT_EQ(checkpoint.metadata().at("key"), "value \u00e9");
    ASSERT_EQ(checkpoint.tensors().size(), wanted.size());
    int bits = 64;
    for (const TensorInfo& info : checkpoint.tensors()) {
      if (info.bytes == 0) continue;
      EXPECT_LE(dtype_bits(info.dtype), bits) << "widest types first";
      bits = dtype_bits(info.dtype);
      EXPECT_EQ(info.offset % static_cast<uint64_t>(bits / 8), 0u);
    }
    for (const testing::EditTensor& t : wanted) {
      const TensorInfo* info = checkpoint.find(t.name);
      ASSERT_NE(info, nullptr);
      EXPECT_EQ(info->dtype, t.dtype);
      EXPECT_EQ(info->shape, t.shape);
      ASSERT_EQ(info->bytes, t.data.size());
      const void* data = checkpoint.view(*info).get()->data;
      EXPECT_TRUE(t.data.empty() || std::memcmp(data, t.data.data(), t.data.size()) == 0);
    }
  }
}

TEST(Writer, LayoutIsByteForByteTheFormats) {
  const fs::path file = test_folder() / "x.safetensors";
  const float f[] = {1, 2};
  const unsigned char u[] = {7};
  SafetensorsWriter writer;
  writer.add("b", MOERT_DTYPE_U8, {1}, u);
  writer.add("z", MOERT_DTYPE_F32, {1}, f + 1);
  writer.add("a", MOERT_DTYPE_F32, {}, f);
  writer.write(file);
  std::string json = R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                     R"("z":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                     R"("b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string wanted(8, '\0');
  wanted[0] = static_cast<char>(json.size());
  wanted += json + std::string(reinterpret_cast<const char*>(f), 8) + "\7";
  EXPECT_EQ(read_text_file(file), wanted);
}

TEST(Writer, EmptyFile) {
  const fs::path file = test_folder() / "x.safetensors";
  SafetensorsWriter().write(file);
  EXPECT_TRUE(Checkpoint(file).tensors().empty());
  EXPECT_TRUE(Checkpoint(file).metadata().empty());
}

TEST(Writer, RefusesWhatTheFormatLacks) {
  const float f = 0;
  SafetensorsWriter writer;
  const std::pair<std::function<void()>, const char*> cases[] = {
      {[&] { writer.add("t", MOERT_DTYPE_INVALID, {1}, &f); }, "invalid dtype"},
      {[&] { writer.add("t", 999, {1}, &f); }, "invalid dtype"},
      {[&] { writer.add("t", MOERT_DTYPE_F32, {-1}, &f); }, "negative size"},
      {[&] { writer.add("t", MOERT_DTYPE_F32, {int64_t{1} << 40, int64_t{1} << 40}, &f); },
       "too many"},
      {[&] { writer.add("t", MOERT_DTYPE_F32, std::vector<int64_t>(9, 1), &f); }, "more than 8"},
      {[&] { writer.add("t", MOERT_DTYPE_F4_E2M1, {1}, &f); }, "whole number of bytes"},
      {[&] { writer.add("__metadata__", MOERT_DTYPE_F32, {1}, &f); }, "reserved"},
  };
  for (const auto& [body, problem] : cases) {
    const auto error = error_of(body);
    ASSERT_TRUE(error) << problem;
    EXPECT_EQ(error->fault(), Fault::usage);
    EXPECT_NE(error->problem().find(problem), std::string::npos) << error->what();
  }
}

TEST(Writer, KeepsTheOldFileWhereItFails) {
  const float f = 0;
  const fs::path file = test_folder() / "x.safetensors";
  SafetensorsWriter good;
  good.add("t", MOERT_DTYPE_F32, {1}, &f);
  good.write(file);
  SafetensorsWriter twins = good, no_utf8 = good;
  twins.add("t", MOERT_DTYPE_F32, {1}, &f);
  no_utf8.add("\xff", MOERT_DTYPE_F32, {1}, &f);
  for (const SafetensorsWriter& bad : {twins, no_utf8}) {
    const auto error = error_of([&] { bad.write(file); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->fault(), Fault::usage);
  }
  EXPECT_EQ(Checkpoint(file).tensors().size(), 1u);
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace moert::weights
