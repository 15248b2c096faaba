// Shapes of other programs: bytes that NumPy made, round trips, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "capture/foreign.hpp"
#include "capture/npy.hpp"
#include "unit/capture/support.hpp"

namespace moert::capture {
namespace {

using testing::capture_info;
using testing::CaptureFolder;
using testing::decision_of;
using testing::keys_of_sequence;
using testing::write_capture;

using namespace std::string_literals;

// Layer 0 of `hidden` is dense, the others have experts.
CaptureInfo model(int64_t hidden, int64_t experts, int64_t k) {
  CaptureInfo info = capture_info(hidden, experts, k);
  info.layers.erase(info.layers.begin());
  return info;
}

ForeignOptions options(Foreign format, std::optional<Encoding> encoding = {}) {
  ForeignOptions made;
  made.format = format;
  made.encoding = encoding;
  return made;
}

// base64(numpy.save(...)) of uint8 [[[0,0],[3,1],[2,0]],[[0,0],[255,7],[9,254]]]
const char* const kVllmU8 =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnfHUxJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMsIDIpLC"
    "B9"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAMBAgAAAP8HCf4=";
// of uint16 [[[0,0],[256,1]]]
const char* const kVllmU16 =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPHUyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsIDIsIDIpLC"
    "B9"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAEBAA==";
// base64 of int32 [[[0,0],[3,1]],[[0,0],[255,7]]]
const char* const kSglang = "AAAAAAAAAAADAAAAAQAAAAAAAAAAAAAA/wAAAAcAAAA=";

struct Golden {
  const char* name;
  Foreign format;
  CaptureInfo info;
  std::string bytes;
  std::vector<std::vector<std::vector<int32_t>>> ids;  // of rows and MoE layers; empty: absent
};

const Golden kGolden[] = {
    {"VllmU8", Foreign::vllm, model(3, 256, 2), kVllmU8, {{{3, 1}, {2, 0}}, {{255, 7}, {9, 254}}}},
    {"VllmU16", Foreign::vllm, model(2, 257, 2), kVllmU16, {{{256, 1}}}},
    {"Sglang", Foreign::sglang, model(2, 256, 2), kSglang, {{{3, 1}}, {{255, 7}}}},
    {"TensorrtLlm",
     Foreign::tensorrt_llm,
     model(3, 32768, 2),
     "\x01\x00\xff\x7f\xff\xff\xff\xff"s
     "\xff\xff\xff\xff\x00\x01\x02\x00"s,
     {{{1, 32767}, {}}, {{}, {256, 2}}}},
    {"Megatron",
     Foreign::megatron,
     model(3, 100000, 1),
     "\x9f\x86\x01\x00\x00\x00\x00\x00"s,
     {{{99999}, {0}}}},
    {"PrimeRl",
     Foreign::prime_rl,
     model(2, 256, 3),
     "\x00\x00\x00\xff\x00\x01\x00\x00\x00\x07\x08\xfe"s,
     {{{255, 0, 1}}, {{7, 8, 254}}}},
};

class Goldens : public ::testing::TestWithParam<Golden> {};

TEST_P(Goldens, AreReadAndWrittenByteForByte) {
  const Golden& g = GetParam();
  const CaptureFolder folder(std::string("golden_") + g.name);
  ForeignOptions with = options(g.format);
  with.sequence = 11;
  with.first_position = 40;
  read_foreign(g.bytes, "answer", with, g.info, folder / "x");
  const CaptureFile file(folder / "x");
  EXPECT_EQ(file.info().slot_order, "unknown");
  EXPECT_EQ(file.info().source, foreign_formats()[static_cast<size_t>(g.format)].name);
  ASSERT_EQ(file.rows(), static_cast<int64_t>(g.ids.size()));
  for (int64_t row = 0; row < file.rows(); ++row) {
    EXPECT_EQ(file.key(row), (RowKey{11, 40 + row}));
    for (size_t layer = 0; layer < g.info.layers.size(); ++layer) {
      const std::optional<Decision> got = decision_of(file, row, layer);
      const std::vector<int32_t>& want = g.ids[static_cast<size_t>(row)][layer];
      ASSERT_EQ(got.has_value(), !want.empty());
      if (got) {
        EXPECT_EQ(got->ids, want);
      }
    }
  }
  EXPECT_EQ(write_foreign(file, with), g.bytes);
  // In the other encoding, too.
  const bool text = foreign_formats()[static_cast<size_t>(g.format)].usual == Encoding::base64;
  with.encoding = text ? Encoding::raw : Encoding::base64;
  const std::string other = write_foreign(file, with);
  EXPECT_NE(other, g.bytes);
  read_foreign(with.encoding == Encoding::base64 ? other + "\n" : other, "answer", with, g.info,
               folder / "y");
  EXPECT_EQ(bytes_of(folder / "x"), bytes_of(folder / "y"));
}

INSTANTIATE_TEST_SUITE_P(OfNumPy, Goldens, ::testing::ValuesIn(kGolden),
                         [](const auto& param) { return std::string(param.param.name); });

// Ours, theirs, ours: ids of one sequence without absent decisions survive in every format.
TEST(Foreigns, RandomRoundTrips) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const CaptureFolder folder("foreign_random");
    std::mt19937 random(seed);
    const ForeignFormat& format = foreign_formats()[seed % foreign_formats().size()];
    const int64_t experts = std::vector<int64_t>{4, 129, 256, 257, 300}[random() % 5];
    if (format.format == Foreign::prime_rl && experts > 256) continue;
    CaptureInfo info = capture_info(4, experts, 1 + static_cast<int64_t>(random() % 4));
    info.layers.erase(info.layers.begin() + static_cast<int64_t>(random() % 4));
    info.slot_order = "unknown";
    info.source = format.name;
    std::vector<RowKey> keys = keys_of_sequence(2, 1 + static_cast<int64_t>(random() % 6));
    write_capture(folder / "a", info, keys, [&](RowKey, size_t layer) -> std::optional<Decision> {
      if (format.format == Foreign::tensorrt_llm && random() % 4 == 0) return {};
      return random_decision(info.layers[layer], &random);
    });
    ForeignOptions with =
        options(format.format, random() % 2 == 0 ? Encoding::raw : Encoding::base64);
    with.sequence = 2;
    const std::string bytes = write_foreign(CaptureFile(folder / "a"), with);
    read_foreign(bytes, "answer", with, info, folder / "b");
    EXPECT_EQ(bytes_of(folder / "a"), bytes_of(folder / "b"));
    EXPECT_EQ(write_foreign(CaptureFile(folder / "b"), with), bytes);
  }
}

TEST(Foreigns, ZeroRows) {
  const CaptureFolder folder("foreign_none");
  for (const ForeignFormat& format : foreign_formats()) {
    const CaptureInfo info = model(3, 16, 2);
    write_capture(folder / "a", info, {}, [](RowKey, size_t) { return Decision{}; });
    const std::string bytes = write_foreign(CaptureFile(folder / "a"), options(format.format));
    read_foreign(bytes, "answer", options(format.format), info, folder / "b");
    EXPECT_EQ(CaptureFile(folder / "b").rows(), 0) << format.name;
    EXPECT_EQ(write_foreign(CaptureFile(folder / "b"), options(format.format)), bytes);
  }
}

TEST(Foreigns, OneSequenceFromAPositionOn) {
  const CaptureFolder folder("foreign_from");
  std::vector<RowKey> keys = keys_of_sequence(1, 5);
  for (const RowKey& key : keys_of_sequence(2, 2)) keys.push_back(key);
  write_capture(folder / "x", capture_info(1, 256, 1), keys, [](RowKey key, size_t) {
    return Decision{{static_cast<int32_t>(key.sequence * 16 + key.position)}};
  });
  const CaptureFile file(folder / "x");
  ForeignOptions with = options(Foreign::prime_rl);
  with.sequence = 1;
  EXPECT_EQ(write_foreign(file, with), "\x10\x11\x12\x13\x14");
  with.first_position = 3;
  EXPECT_EQ(write_foreign(file, with), "\x13\x14");
  with.first_position = 5;
  EXPECT_EQ(write_foreign(file, with), "");
  with.sequence = 3;
  expect_error([&] { write_foreign(file, with); }, Fault::usage,
               {"sequence 3", "no such sequence", "first sequence is 1, its last is 2"});
}

// Absent decisions and missing tokens: -1 where the format has it, an error elsewhere.
TEST(Foreigns, WhatIsAbsentIsSaidOrRefused) {
  const CaptureFolder folder("foreign_absent");
  write_capture(folder / "x", capture_info(2, 8, 1), {{0, 1}, {0, 3}},
                [](RowKey key, size_t layer) -> std::optional<Decision> {
                  if (key.position == 3 && layer == 0) return {};
                  return Decision{{static_cast<int32_t>(key.position)}};
                });
  const CaptureFile file(folder / "x");
  EXPECT_EQ(write_foreign(file, options(Foreign::tensorrt_llm)),
            "\xff\xff\xff\xff\x01\x00\x01\x00\xff\xff\xff\xff\xff\xff\x03\x00"s);
  for (const Foreign format :
       {Foreign::vllm, Foreign::sglang, Foreign::megatron, Foreign::prime_rl}) {
    ForeignOptions with = options(format);
    expect_error([&] { write_foreign(file, with); }, Fault::usage, {"position 0 is not in", "-1"});
    with.first_position = 1;
    expect_error([&] { write_foreign(file, with); }, Fault::usage, {"position 2 is not in"});
    with.first_position = 3;
    expect_error([&] { write_foreign(file, with); }, Fault::usage,
                 {"position 3 has no decision of layer 0"});
  }
}

TEST(Foreigns, PositionsFarApartAreRefused) {
  const CaptureFolder folder("foreign_far");
  write_capture(folder / "x", capture_info(1, 8, 1), {{0, 0}, {0, int64_t{1} << 60}},
                [](RowKey, size_t) { return Decision{{1}}; });
  const CaptureFile file(folder / "x");
  expect_error([&] { write_foreign(file, options(Foreign::tensorrt_llm)); }, Fault::usage,
               {"too far apart"});
  expect_error([&] { write_foreign(file, options(Foreign::sglang)); }, Fault::usage,
               {"position 1 is"});
}

TEST(Foreigns, ModelsThatAShapeCannotHold) {
  const CaptureFolder folder("foreign_models");
  const auto refused = [&](const CaptureInfo& info, Foreign format,
                           std::initializer_list<std::string> texts) {
    write_capture(folder / "x", info, {}, [](RowKey, size_t) { return Decision{}; });
    const CaptureFile file(folder / "x");
    expect_error([&] { write_foreign(file, options(format)); }, Fault::usage, texts);
    expect_error([&] { read_foreign("", "answer", options(format), info, folder / "y"); },
                 Fault::input, texts);
    EXPECT_FALSE(std::filesystem::exists(folder / "y"));
  };
  refused(capture_info(1, 65537, 1), Foreign::vllm, {"65537 experts", "hold 65536"});
  refused(capture_info(1, 32769, 1), Foreign::tensorrt_llm, {"32769 experts", "hold 32768"});
  refused(capture_info(1, 257, 1), Foreign::prime_rl, {"257 experts", "hold 256"});
  CaptureInfo uneven = capture_info(2, 8, 1);
  uneven.layers[1].top_k = 2;
  for (const ForeignFormat& format : foreign_formats())
    refused(uneven, format.format, {"top_k differ", "layer 1 has 2"});
  CaptureInfo unknown = capture_info(2, 8, 1);
  unknown.hidden_layers = 0;
  for (const Foreign format : {Foreign::vllm, Foreign::sglang, Foreign::prime_rl})
    refused(unknown, format, {"number of hidden layers is not known"});
}

TEST(Foreigns, BytesThatDoNotFit) {
  const CaptureFolder folder("foreign_bytes");
  const CaptureInfo info = model(3, 256, 2);
  const auto refused = [&](const std::string& bytes, const ForeignOptions& with,
                           std::initializer_list<std::string> texts) {
    expect_error([&] { read_foreign(bytes, "answer.b64", with, info, folder / "x"); }, Fault::input,
                 texts);
    EXPECT_FALSE(std::filesystem::exists(folder / "x"));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  };
  const ForeignOptions prime = options(Foreign::prime_rl), megatron = options(Foreign::megatron);
  refused("\0\0\1\2\3"s, prime, {"answer.b64", "5 bytes", "3 layers, 2 experts and 1 bytes each"});
  refused("\0\0\1\2\3\3"s, prime, {"row 0, layer 2: expert 3 stands twice"});
  refused("\0\0\0\0\0\0"s, prime, {"row 0, layer 1: expert 0 stands twice"});
  refused("\0\0\1\2\3\4\0\5\1\2\3\4"s, prime, {"row 1, layer 0", "not zero"});
  refused("\1\0\0\0\0\1\0\0\1\0\0\0\2\0\0\0"s, megatron, {"layer 1: expert 256 is out of range"});
  refused("\1\0\0\0\xff\xff\xff\xff\1\0\0\0\2\0\0\0"s, megatron, {"expert -1 is out of range"});
  refused("\1\0\xff\xff\1\0\2\0"s, options(Foreign::tensorrt_llm), {"expert -1 is out of range"});
  refused("AAA", options(Foreign::sglang), {"no base64", "sglang is"});
  refused("\x93NUMPY", options(Foreign::vllm), {"no base64: byte 0"});
  const auto npy = [](const char* descr, std::vector<int64_t> shape, bool fortran, size_t bytes) {
    return npy_header({descr, fortran, std::move(shape)}) + std::string(bytes, '\0');
  };
  const ForeignOptions raw = options(Foreign::vllm, Encoding::raw);
  refused("xx", raw, {"header of a .npy file"});
  refused(npy("|u1", {1, 2, 2}, false, 4), raw, {"shape (1, 2, 2, )", "3 hidden layers"});
  refused(npy("|u1", {6}, false, 6), raw, {"shape (6, )"});
  refused(npy("<f4", {1, 3, 2}, false, 24), raw, {"type '<f4'"});
  refused(npy("|u1", {1, 3, 2}, true, 6), raw, {"Fortran"});
  refused(npy("|u1", {2, 3, 2}, false, 6), raw, {"says 2 rows, but 1 follow"});
}

// Versions before the narrow types wrote int32.
TEST(Foreigns, ArraysOfOtherIntegersAreRead) {
  const CaptureFolder folder("foreign_older");
  const std::string bytes =
      npy_header({"<i4", false, {1, 1, 2}}) + "\xff\x00\x00\x00\x02\x00\x00\x00"s;
  read_foreign(bytes, "answer", options(Foreign::vllm, Encoding::raw), capture_info(1, 256, 2),
               folder / "x");
  EXPECT_EQ(decision_of(CaptureFile(folder / "x"), 0, 0)->ids, (std::vector<int32_t>{255, 2}));
}

TEST(Foreigns, NamesAreKnownOrSuggested) {
  for (const ForeignFormat& format : foreign_formats())
    EXPECT_EQ(foreign_format(format.name).format, format.format);
  expect_error([] { foreign_format("tensort-llm"); }, Fault::usage,
               {"'tensort-llm'", "tensorrt-llm"});
}

// Cut, flipped and random bytes: a capture or an error, never a crash.
TEST(Foreigns, DamagedBytes) {
  const CaptureFolder folder("foreign_damaged");
  int read = 0;
  for (unsigned seed = 0; seed < 800; ++seed) {
    std::mt19937 random(seed);
    const Golden& g = kGolden[random() % std::size(kGolden)];
    std::string bytes = g.bytes;
    for (size_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) {
      const size_t at = random() % bytes.size();
      if (random() % 3 == 0)
        bytes.resize(at);
      else
        bytes[at] = static_cast<char>(random());
    }
    const std::optional<Error> error = error_of([&] {
      read_foreign(bytes, "answer", options(g.format), g.info, folder / "x");
      const CaptureFile file(folder / "x");
      ++read;
    });
    if (error) {
      ASSERT_EQ(error->fault(), Fault::input) << error->what();
    }
  }
  EXPECT_GT(read, 15);
}

}  // namespace
}  // namespace moert::capture
