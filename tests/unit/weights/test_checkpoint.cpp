// Folders: one file, shards and their index, and every way in which they do not agree.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "unit/weights/support.hpp"

namespace moert::weights {
namespace {
namespace fs = std::filesystem;
using testing::SafetensorsEdit;

constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

class Folders : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = test_folder();
    first.add_f32("a", {2}, {1, 2});
    first.add_f32("b", {1}, {3});
    second.add_f32("c", {2}, {4, 5});
  }
  void TearDown() override { fs::remove_all(folder); }

  void write_shards() const {
    first.write(folder / kFirst);
    second.write(folder / kSecond);
  }
  // entries: "a" -> file
  void write_index(const std::vector<std::pair<std::string, std::string>>& entries) const {
    std::string text = "{\"metadata\":{\"total_size\":20,\"more\":[{\"x\":null}]},\"weight_map\":{";
    for (const auto& [name, file] : entries)
      text += (text.back() == '{' ? "\"" : ",\"") + name + "\":\"" + file + "\"";
    SafetensorsEdit::write_bytes(folder / kIndexFile, text + "}}");
  }
  void write_good_index() const { write_index({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}}); }
  void expect_refused(const std::string& problem, const std::string& place) const {
    expect_input_error([&] { Checkpoint checkpoint(folder); }, problem, place);
  }

  fs::path folder;
  SafetensorsEdit first, second;
};

TEST_F(Folders, OneFile) {
  first.write(folder / "model.safetensors");
  SafetensorsEdit::write_bytes(folder / "consolidated.safetensors", "not looked at");
  SafetensorsEdit::write_bytes(folder / "golden.safetensors", "not looked at");
  for (const fs::path& path : {folder, folder / "model.safetensors"}) {
    const Checkpoint checkpoint(path);
    ASSERT_EQ(checkpoint.tensors().size(), 2u);
    EXPECT_EQ(checkpoint.path(), path);
    const TensorInfo* b = checkpoint.find("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(checkpoint.place(*b), (folder / "model.safetensors").string() + ": tensor b");
    EXPECT_EQ(read_f32(*checkpoint.view(*b).get(), 0), 3);
    checkpoint.release(*b);
    EXPECT_EQ(read_f32(*checkpoint.view(*b).get(), 0), 3);
    EXPECT_EQ(checkpoint.find("c"), nullptr);
    EXPECT_EQ(checkpoint.find(""), nullptr);
  }
}

TEST_F(Folders, Shards) {
  write_shards();
  write_good_index();
  const Checkpoint checkpoint(folder);
  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  const TensorInfo* c = checkpoint.find("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(checkpoint.place(*c), (folder / kSecond).string() + ": tensor c");
  EXPECT_EQ(read_f32(*checkpoint.view(*c).get(), 1), 5);
}

TEST_F(Folders, AFileByItsOwnNameNeedsNoIndex) {
  write_shards();
  EXPECT_EQ(Checkpoint(folder / kSecond).tensors().size(), 1u);
}

TEST_F(Folders, ShardsMayBeSymbolicLinks) {
  write_shards();
  write_good_index();
  fs::create_directories(folder / "blobs");
  fs::rename(folder / kSecond, folder / "blobs/0123");
  fs::create_symlink("blobs/0123", folder / kSecond);
  EXPECT_EQ(Checkpoint(folder).tensors().size(), 3u);
}

TEST_F(Folders, CommittedShardsAgreeWithTheirIndex) {
  const Checkpoint checkpoint(data_folder("mixtral-f32"));
  EXPECT_EQ(checkpoint.metadata().at("format"), "pt");
  const TensorInfo* one = checkpoint.find("model.layers.0.block_sparse_moe.experts.0.w1.weight");
  const TensorInfo* three = checkpoint.find("model.layers.0.block_sparse_moe.experts.0.w3.weight");
  ASSERT_TRUE(one != nullptr && three != nullptr);
  EXPECT_NE(one->file, three->file);
}

TEST_F(Folders, NothingThere) {
  expect_refused("holds neither model.safetensors nor model.safetensors.index.json",
                 folder.string());
  expect_input_error([&] { Checkpoint checkpoint(folder / "absent"); }, "no such folder", "absent");
  SafetensorsEdit::write_bytes(folder / "model.bin", "x");
  expect_input_error([&] { Checkpoint checkpoint(folder / "model.bin"); }, "neither a folder nor",
                     "model.bin");
}

TEST_F(Folders, BothSingleAndSharded) {
  write_shards();
  write_good_index();
  first.write(folder / "model.safetensors");
  expect_refused("'model.safetensors' is not listed in the index", kIndexFile);
  fs::remove(folder / kIndexFile);
  expect_refused(std::string("'") + kFirst + "' is a shard", folder.string());
  fs::remove(folder / "model.safetensors");
  expect_refused("there is no model.safetensors.index.json", folder.string());
}

TEST_F(Folders, AnIndexMayListTheSingleFile) {
  first.write(folder / "model.safetensors");
  write_index({{"a", "model.safetensors"}, {"b", "model.safetensors"}});
  EXPECT_EQ(Checkpoint(folder).tensors().size(), 2u);
}

TEST_F(Folders, AShardIsMissing) {
  write_shards();
  write_good_index();
  fs::remove(folder / kSecond);
  expect_refused(std::string("lists '") + kSecond + "', which is not there", kIndexFile);
}

TEST_F(Folders, AShardThatNoIndexLists) {
  write_shards();
  write_index({{"a", kFirst}, {"b", kFirst}});
  expect_refused(std::string("'") + kSecond + "' is not listed", kIndexFile);
}

TEST_F(Folders, AShardIsDamaged) {
  write_shards();
  write_good_index();
  fs::resize_file(folder / kSecond, fs::file_size(folder / kSecond) - 1);
  expect_refused("end outside the file's data section", std::string(kSecond) + ": tensor c");
}

TEST_F(Folders, ATensorInTwoShards) {
  second.duplicate("c", "a");
  write_shards();
  write_good_index();
  expect_refused(std::string("the tensor 'a' also stands in ") + kFirst,
                 std::string(kSecond) + ": tensor a");
}

TEST_F(Folders, ATensorThatIsNotInItsShard) {
  first.drop("b");
  write_shards();
  write_good_index();
  expect_refused("the index lists the tensor 'b'", std::string(kIndexFile) + ": tensor b");
}

TEST_F(Folders, ATensorInAnotherShard) {
  write_shards();
  write_index({{"a", kFirst}, {"b", kSecond}, {"c", kSecond}});
  expect_refused(std::string("the index says ") + kSecond, std::string(kFirst) + ": tensor b");
}

TEST_F(Folders, ATensorThatIsNotInTheIndex) {
  write_shards();
  write_index({{"a", kFirst}, {"c", kSecond}});
  expect_refused("the tensor 'b' is not listed", std::string(kFirst) + ": tensor b");
}

TEST_F(Folders, ATensorTwiceInTheIndex) {
  write_shards();
  write_index({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}, {"b", kFirst}});
  expect_refused("'b' stands twice in the index", kIndexFile);
}

TEST_F(Folders, FilesOutsideTheFolder) {
  write_shards();
  for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..", "",
                           ".hidden.safetensors", "a\\\\b.safetensors", "passwd", ".safetensors"}) {
    write_index({{"a", name}});
    expect_refused("is no plain name of a .safetensors file", "tensor a");
  }
}

TEST_F(Folders, IndicesThatAreNone) {
  write_shards();
  const std::pair<std::string, const char*> cases[] = {
      {"", "no valid JSON"},
      {"[]", "the index is an array"},
      {"3", "the index is a number"},
      {"{}", "has no 'weight_map'"},
      {"{\"weight_map\":[]}", "'weight_map' is an array"},
      {"{\"weight_map\":{}}", "lists no tensor"},
      {"{\"weight_map\":{\"a\":1}}", "'a' is a number"},
      {"{\"weight_map\":{\"a\":{}}}", "'a' is an object"},
      {"{\"weight_map\":{},\"weight_map\":{}}", "stands twice"},
      {std::string("{}\0", 3), "zero byte"},
      {"{\"metadata\":" + std::string(100000, '['), "nested more than 32 deep"},
  };
  for (const auto& [text, problem] : cases) {
    SafetensorsEdit::write_bytes(folder / kIndexFile, text);
    expect_refused(problem, kIndexFile);
  }
  fs::remove(folder / kIndexFile);
  fs::create_directory(folder / kIndexFile);
  expect_refused("not a regular file", kIndexFile);
}

// The format allows it; reading its elements in place does not.
TEST_F(Folders, MisalignedDataAreRefusedWhenTheyAreUsed) {
  SafetensorsEdit edit;
  edit.add("byte", {1}, MOERT_DTYPE_U8);
  edit.add_f32("word", {1}, {1});
  edit.write(folder / "model.safetensors");
  const Checkpoint checkpoint(folder);
  EXPECT_NO_THROW(checkpoint.view(*checkpoint.find("byte")));
  expect_input_error([&] { checkpoint.view(*checkpoint.find("word")); }, "no multiple of 4",
                     "tensor word");
}

}  // namespace
}  // namespace moert::weights
