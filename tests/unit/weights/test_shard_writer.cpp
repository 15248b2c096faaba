// Writing a checkpoint as a stream: shards, their index, and what becomes of one that is not finished.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <moert/error.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "unit/weights/support.hpp"
#include "util/file.hpp"
#include "weights/header_text.hpp"
#include "weights/shard_writer.hpp"

namespace moert::weights {
namespace {
namespace fs = std::filesystem;

const auto kNothing = [] {};

fs::path empty_folder(const std::string& name) {
  const fs::path folder = test_folder() / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::vector<TensorInfo> some_tensors() {
  return {new_tensor("a", MOERT_DTYPE_U8, {3}), new_tensor("b.weight", MOERT_DTYPE_F32, {2, 4}),
          new_tensor("b.scale", MOERT_DTYPE_BF16, {5}),
          new_tensor("empty", MOERT_DTYPE_F32, {0, 4}), new_tensor("c", MOERT_DTYPE_I64, {2})};
}

std::vector<std::byte> bytes_of(const TensorInfo& info) {
  std::vector<std::byte> bytes(info.bytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + info.name.size());
  return bytes;
}

// Backwards, and each tensor in two pieces: the order is the caller's.
void write_all(ShardWriter& writer) {
  for (size_t i = writer.tensors().size(); i-- > 0;) {
    const std::vector<std::byte> bytes = bytes_of(writer.tensors()[i]);
    const size_t half = bytes.size() / 2;
    writer.write(i, half, bytes.data() + half, bytes.size() - half, kNothing);
    writer.write(i, 0, bytes.data(), half, kNothing);
  }
}

void expect_all(const fs::path& folder) {
  const Checkpoint checkpoint(folder);
  EXPECT_EQ(checkpoint.metadata().at("format"), "pt");
  EXPECT_EQ(checkpoint.tensors().size(), some_tensors().size());
  for (const TensorInfo& wanted : some_tensors()) {
    const TensorInfo* info = checkpoint.find(wanted.name);
    ASSERT_NE(info, nullptr) << wanted.name;
    EXPECT_EQ(info->dtype, wanted.dtype);
    EXPECT_EQ(info->shape, wanted.shape);
    const std::vector<std::byte> bytes = bytes_of(wanted);
    ASSERT_EQ(info->bytes, bytes.size());
    if (!bytes.empty()) {
      EXPECT_EQ(std::memcmp(checkpoint.view(*info).get()->data, bytes.data(), bytes.size()), 0);
    }
  }
}

TEST(ShardWriter, OneFileWhereOneIsEnough) {
  const fs::path folder = empty_folder("one");
  ShardWriter writer(folder, some_tensors(), 1000);
  EXPECT_EQ(writer.files(), 1u);
  write_all(writer);
  writer.finish(kNothing);
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));
  expect_all(folder);
}

TEST(ShardWriter, ShardsOfAnySizeReadBackAndTheIndexAgrees) {
  for (const uint64_t size : {1u, 9u, 32u, 35u, 45u}) {
    SCOPED_TRACE(size);
    const fs::path folder = empty_folder("many");
    ShardWriter writer(folder, some_tensors(), size);
    ASSERT_GT(writer.files(), 1u);
    write_all(writer);
    writer.finish(kNothing);
    expect_all(folder);
    const auto index =
        nlohmann::json::parse(read_text_file(folder / "model.safetensors.index.json"));
    EXPECT_EQ(index.at("metadata").at("total_size"), writer.bytes());
    EXPECT_EQ(index.at("weight_map").size(), some_tensors().size());
    const std::string last =
        "model-0000" + std::to_string(writer.files()) + "-of-0000" + std::to_string(writer.files());
    EXPECT_EQ(index.at("weight_map").at("c"), last + ".safetensors");
  }
}

TEST(ShardWriter, NoShardIsLargerUnlessOneTensorIs) {
  ShardWriter writer(empty_folder("sizes"), some_tensors(), 12);
  std::vector<uint64_t> sizes(writer.files()), counts(writer.files());
  for (const TensorInfo& info : writer.tensors()) {
    sizes[info.file] += info.bytes;
    ++counts[info.file];
  }
  for (size_t i = 0; i < sizes.size(); ++i)
    EXPECT_TRUE(sizes[i] <= 12 || counts[i] == 1) << i << ": " << sizes[i];
}

TEST(ShardWriter, WhatIsNotWrittenIsNoticed) {
  ShardWriter writer(empty_folder("short"), some_tensors(), 1000);
  const float numbers[8] = {};
  writer.write(1, 0, numbers, sizeof numbers, kNothing);
  EXPECT_THROW(writer.finish(kNothing), Error);
  EXPECT_THROW(writer.write(1, 4, numbers, sizeof numbers, kNothing), Error);
}

TEST(ShardWriter, StopsWhereThePollThrows) {
  ShardWriter writer(empty_folder("stop"), {new_tensor("a", MOERT_DTYPE_U8, {40 << 20})}, 1 << 30);
  const std::vector<std::byte> bytes(40 << 20);
  int polls = 0;
  const auto poll = [&] {
    if (++polls == 2) throw 7;
  };
  EXPECT_THROW(writer.write(0, 0, bytes.data(), bytes.size(), poll), int);
}

TEST(ShardWriter, RefusesTwoOfOneName) {
  EXPECT_THROW(
      ShardWriter(empty_folder("twins"),
                  {new_tensor("a", MOERT_DTYPE_U8, {1}), new_tensor("a", MOERT_DTYPE_I8, {1})},
                  1000),
      Error);
}

}  // namespace
}  // namespace moert::weights
