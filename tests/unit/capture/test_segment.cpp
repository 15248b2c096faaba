// The reader of shared segments against files that lie: every size and offset is checked before it is used.
// SPDX-License-Identifier: Apache-2.0
#include "capture/segment.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <random>

#include <moert/abi/capture_segment.h>
#include <moert/error.hpp>
#include <moert/sdk/capture_row.hpp>

namespace moert::capture {
namespace {

namespace fs = std::filesystem;

using Header = moert_capture_segment_t;
using Layer = moert_capture_segment_layer_t;

// A segment as its owner would write it, with three rows that wait, as bytes.
class Made {
 public:
  Made() {
    const std::vector<int64_t> ids = {3, 4}, experts = {256, 257}, k = {2, 1};
    moert_capture_spec_t spec{};
    spec.what = MOERT_CAPTURE_IDS | MOERT_CAPTURE_MARGINS;
    spec.n_layers = 2;
    spec.layer_ids = ids.data();
    spec.num_experts = experts.data();
    spec.top_k = k.data();
    const CaptureRowLayout layout(spec);
    Header& h = header;
    std::memcpy(h.magic, MOERT_CAPTURE_SEGMENT_MAGIC, sizeof h.magic);
    h.version = MOERT_CAPTURE_SEGMENT_VERSION;
    h.byte_order = MOERT_CAPTURE_SEGMENT_BYTE_ORDER;
    h.header_bytes = sizeof(Header);
    h.layer_bytes = sizeof(Layer);
    h.what = spec.what;
    h.n_layers = 2;
    h.layers_offset = sizeof(Header);
    h.facts_offset = 304;
    h.facts_bytes = facts.size();
    h.rows_offset = 320;
    h.row_bytes = layout.bytes();
    h.capacity = 4;
    h.total_bytes = h.rows_offset + h.capacity * h.row_bytes;
    h.head = 9;
    h.tail = 6;
    layers = {{3, 256, 2}, {4, 257, 1}};
    rows.resize(h.capacity * h.row_bytes);
    for (uint64_t n = h.tail; n < h.head; ++n) {
      std::byte* row = &rows[n % h.capacity * h.row_bytes];
      layout.start(row, 5, static_cast<int64_t>(n));
      const int32_t two[] = {255, static_cast<int32_t>(n)};
      const float margin = 0.5f;
      layout.put(row, 0, two, nullptr, &margin);
    }
  }
  std::string bytes() const {
    std::string all(320, '\0');
    std::memcpy(all.data(), &header, sizeof header);
    std::memcpy(all.data() + sizeof header, layers.data(), layers.size() * sizeof(Layer));
    std::memcpy(&all[304], facts.data(), facts.size());
    return all.append(reinterpret_cast<const char*>(rows.data()), rows.size());
  }
  Header header{};
  std::string facts = std::string("simulated\0zipf", 14) + '\0';
  std::vector<Layer> layers;
  std::vector<std::byte> rows;
};

class SegmentFileTest : public ::testing::Test {
 protected:
  SegmentFileTest()
      : folder_(fs::path(::testing::TempDir()) / ("moert_segment_" + std::to_string(::getpid()))),
        path_(folder_ / ("moert." + std::to_string(::geteuid()) + ".made")) {
    fs::create_directories(folder_);
  }
  ~SegmentFileTest() override { fs::remove_all(folder_); }
  // A new file: one that is cut and written again costs some file systems a wait for the disk.
  void write(const std::string& bytes) const {
    fs::remove(path_);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  // Attaches and takes everything; the error, if there was one.
  std::optional<Error> take(SegmentRows* into = nullptr) const {
    try {
      SegmentReader reader("made", folder_);
      SegmentRows rows;
      reader.take(into == nullptr ? rows : *into);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  fs::path folder_, path_;
};

TEST_F(SegmentFileTest, ASoundOneIsReadAcrossTheEndOfTheRing) {
  write(Made().bytes());
  SegmentRows rows;
  const auto error = take(&rows);
  ASSERT_FALSE(error) << error->what();
  ASSERT_EQ(rows.rows(), 3);
  for (int64_t r = 0; r < 3; ++r) {
    int32_t ids[2] = {};
    float margin = 0;
    EXPECT_EQ(rows.key(r), (RowKey{5, 6 + r}));
    ASSERT_TRUE(rows.read(r, 0, ids, nullptr, &margin));
    EXPECT_EQ(ids[0], 255);
    EXPECT_EQ(ids[1], 6 + r);
    EXPECT_EQ(margin, 0.5f);
    EXPECT_FALSE(rows.present(r, 1));
  }
  SegmentReader reader("made", folder_);
  EXPECT_EQ(reader.waiting(), 0) << "they were taken";
  EXPECT_EQ(reader.state(), SegmentState::owner_died) << "nobody holds its lock";
}

struct Lie {
  const char* name;
  void (*tell)(Made&);
  const char* says;  // part of the problem
};
void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

class Lies : public SegmentFileTest, public ::testing::WithParamInterface<Lie> {};

TEST_P(Lies, AreErrorsOfTheInput) {
  Made made;
  GetParam().tell(made);
  write(made.bytes());
  const auto error = take();
  ASSERT_TRUE(error) << "it was believed";
  EXPECT_EQ(error->fault(), Fault::input) << error->what();
  EXPECT_NE(error->problem().find(GetParam().says), std::string::npos) << error->what();
  EXPECT_EQ(error->place(), path_.string());
}

constexpr uint64_t kHuge = UINT64_MAX - 7;
const Lie kLies[] = {
    {"magic", [](Made& m) { m.header.magic[7] = 'X'; }, "does not begin with its mark"},
    {"version", [](Made& m) { m.header.version = 2; }, "version 2"},
    {"byte_order", [](Made& m) { m.header.byte_order = 0x04030201; }, "byte order"},
    {"header_bytes", [](Made& m) { m.header.header_bytes = 128; }, "sizes of the header's parts"},
    {"layer_bytes", [](Made& m) { m.header.layer_bytes = 16; }, "sizes of the header's parts"},
    {"no_ids", [](Made& m) { m.header.what = MOERT_CAPTURE_MARGINS; }, "no meaning"},
    {"unknown_what", [](Made& m) { m.header.what |= 1u << 9; }, "no meaning"},
    {"no_layers", [](Made& m) { m.header.n_layers = 0; }, "0 layers"},
    {"many_layers", [](Made& m) { m.header.n_layers = UINT32_MAX; }, "4294967295 layers"},
    {"more_layers_than_fit", [](Made& m) { m.header.n_layers = 60; }, "table of layers"},
    {"total_more", [](Made& m) { m.header.total_bytes += 8; }, "the file has"},
    {"total_less", [](Made& m) { m.header.total_bytes -= 8; }, "the file has"},
    {"layers_in_header", [](Made& m) { m.header.layers_offset = 128; }, "table of layers"},
    {"layers_outside", [](Made& m) { m.header.layers_offset = kHuge; }, "table of layers"},
    {"layers_on_rows", [](Made& m) { m.header.layers_offset = 304; }, "table of layers"},
    {"facts_outside", [](Made& m) { m.header.facts_offset = kHuge; }, "facts of the model"},
    {"facts_on_layers", [](Made& m) { m.header.facts_offset = 303; }, "facts of the model"},
    {"facts_on_rows", [](Made& m) { m.header.facts_bytes = 17; }, "facts of the model"},
    {"facts_huge", [](Made& m) { m.header.facts_bytes = kHuge; }, "facts of the model"},
    {"facts_without_end", [](Made& m) { m.header.facts_bytes = 14; }, "cut off"},
    {"facts_without_text", [](Made& m) { m.header.facts_bytes = 10; }, "cut off"},
    {"rows_outside", [](Made& m) { m.header.rows_offset = kHuge; }, "table of layers"},
    {"rows_on_header", [](Made& m) { m.header.rows_offset = 0; }, "table of layers"},
    {"rows_not_aligned", [](Made& m) { m.header.rows_offset += 1; }, "table of layers"},
    {"rows_shifted", [](Made& m) { m.header.rows_offset += 8; }, "do not lie in the file"},
    {"no_row_bytes", [](Made& m) { m.header.row_bytes = 0; }, "do not lie in the file"},
    {"other_row_bytes", [](Made& m) { m.header.row_bytes -= 8; }, "its layers take"},
    {"huge_row_bytes", [](Made& m) { m.header.row_bytes = kHuge; }, "do not lie in the file"},
    {"no_capacity", [](Made& m) { m.header.capacity = 0; }, "do not lie in the file"},
    {"more_capacity", [](Made& m) { m.header.capacity = 5; }, "do not lie in the file"},
    {"huge_capacity", [](Made& m) { m.header.capacity = kHuge; }, "do not lie in the file"},
    {"product_wraps",
     [](Made& m) { m.header.capacity = uint64_t{1} << 61, m.header.row_bytes = 8; },
     "do not lie in the file"},
    {"layers_fall", [](Made& m) { m.layers[1].layer_id = 3; }, "does not come after"},
    {"negative_layer", [](Made& m) { m.layers[0].layer_id = -1; }, "does not come after"},
    {"no_experts", [](Made& m) { m.layers[0].num_experts = 0; }, "of 0 experts"},
    {"huge_experts", [](Made& m) { m.layers[0].num_experts = INT64_MAX; }, "experts"},
    {"no_slots", [](Made& m) { m.layers[0].top_k = 0; }, "top_k 0"},
    {"negative_slots", [](Made& m) { m.layers[0].top_k = -1; }, "top_k -1"},
    {"more_slots_than_experts", [](Made& m) { m.layers[1].top_k = 258; }, "top_k 258"},
    {"wider_ids", [](Made& m) { m.layers[1].num_experts = 70000; }, "its layers take"},
    {"more_than_the_ring", [](Made& m) { m.header.head = 11; }, "cannot have"},
    {"tail_beyond_head", [](Made& m) { m.header.tail = 10; }, "cannot have"},
    {"tail_wraps", [](Made& m) { m.header.tail = UINT64_MAX, m.header.head = 1; }, "cannot have"},
};
INSTANTIATE_TEST_SUITE_P(All, Lies, ::testing::ValuesIn(kLies),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(SegmentFileTest, EveryShorterFileIsRefused) {
  const std::string bytes = Made().bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    write(bytes.substr(0, size));
    const auto error = take();
    ASSERT_TRUE(error) << size << " bytes";
    EXPECT_EQ(error->fault(), Fault::input) << size << " bytes: " << error->what();
    const auto listed = list_segments(folder_);
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_NE(listed[0].problem, "") << size << " bytes";
    EXPECT_TRUE(remove_stale(folder_).empty()) << "what is not understood is not removed";
  }
}

// Whatever the header says, reading ends in rows or in an error of the input.
TEST_F(SegmentFileTest, RandomDamageIsNeverWorse) {
  constexpr uint64_t kSeed = 20261130;
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  const std::string bytes = Made().bytes();
  const auto edge = [&] {
    const uint64_t edges[] = {0, 1, 7, 8, 0xff, 0x7fffffff, 0xffffffff, kHuge, uint64_t{1} << 63};
    return edges[random() % std::size(edges)];
  };
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = bytes;
    for (uint64_t n = 1 + random() % 3; n-- > 0;) {
      const size_t at = random() % (320 / 8) * 8;
      const uint64_t value = random() % 2 == 0 ? edge() : random() >> random() % 64;
      const size_t width = size_t{1} << (random() % 4);
      std::memcpy(damaged.data() + at, &value, width);
    }
    write(damaged);
    const auto error = take();
    if (!error) continue;
    ++refused;
    EXPECT_EQ(error->fault(), Fault::input) << "round " << round << ": " << error->what();
  }
  EXPECT_GT(refused, 2000);
}

TEST_F(SegmentFileTest, AFileThatIsCutWhileItIsReadIsAnError) {
  write(Made().bytes());
  SegmentReader reader("made", folder_);
  SegmentRows rows;
  fs::resize_file(path_, 300);
  try {
    reader.take(rows);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_NE(error.problem().find("now has 300"), std::string::npos) << error.what();
  }
}

TEST_F(SegmentFileTest, WhatIsNoFileIsNoSegment) {
  fs::create_directory(path_);
  EXPECT_TRUE(take());
  fs::remove(path_);
  fs::create_symlink("/dev/zero", path_);
  EXPECT_TRUE(take()) << "links are not followed";
  EXPECT_EQ(list_segments(folder_).size(), 1u);
  fs::remove(path_);
  std::ofstream(folder_ / "moert.x.made") << "no number of a user";
  std::ofstream(folder_ / "moert.7.") << "no name";
  std::ofstream(folder_ / "other.7.made") << "another's";
  EXPECT_TRUE(list_segments(folder_).empty());
  EXPECT_TRUE(list_segments(folder_ / "none").empty());
}

}  // namespace
}  // namespace moert::capture
