// Capture files that are damaged or lie: each is refused and says where, none is misread.
// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "support/safetensors_edit.hpp"
#include "unit/capture/support.hpp"

namespace moert::capture {
namespace {

using testing::capture_info;
using testing::CaptureFolder;
using testing::decision_of;
using testing::SafetensorsEdit;
using testing::write_capture;

// A file as tensors and metadata, to be changed and written again.
struct Draft {
  SafetensorsEdit edit;
  std::map<std::string, std::string> metadata;

  // Writes it with checksums of what it holds now, so that other checks are reached.
  void save(const std::filesystem::path& path, bool sums = true) {
    weights::SafetensorsWriter writer;
    for (testing::EditTensor& tensor : edit.tensors) {
      if (sums && metadata.count("crc32." + tensor.name) != 0) {
        char text[9];
        std::snprintf(
            text, sizeof text, "%08lx",
            ::crc32_z(0, reinterpret_cast<const Bytef*>(tensor.data.data()), tensor.data.size()));
        metadata["crc32." + tensor.name] = text;
      }
      writer.add(tensor.name, tensor.dtype, tensor.shape, tensor.data.data());
    }
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    writer.write(path);
  }
  std::byte& byte(const std::string& tensor, size_t at) { return edit.at(tensor).data.at(at); }
  void store(const std::string& tensor, size_t row, int64_t value) {
    std::memcpy(&byte(tensor, row * 8), &value, sizeof value);
  }
};

// Three tokens, layers 2 and 5 of 8 hidden, k = 2 of 4; of the last token layer 5 is absent.
Draft draft(const CaptureFolder& folder) {
  const std::filesystem::path path = folder / "draft.safetensors";
  CaptureInfo info = capture_info(1, 4, 2);
  info.layers = {{2, 4, 2}, {5, 4, 2}};
  info.hidden_layers = 8;
  info.weights = info.margins = true;
  write_capture(path, info, {{0, 0}, {0, 1}, {3, 0}},
                [](RowKey key, size_t layer) -> std::optional<Decision> {
                  if (key.sequence == 3 && layer == 1) return {};
                  return Decision{{1, 3}, {0.5f, 0.25f}, 0.125f};
                });
  return {SafetensorsEdit(path), weights::SafetensorsFile(path).metadata()};
}

struct HostileFile {
  const char* name;
  std::function<void(Draft&)> tell;
  std::vector<std::string> texts;  // that the error holds
  bool sums = true;
};

const HostileFile kHostile[] = {
    {"NoFormat", [](Draft& d) { d.metadata.erase("format"); }, {"no capture file"}},
    {"OtherFormat", [](Draft& d) { d.metadata["format"] = "pt"; }, {"no capture file"}},
    {"NewerVersion", [](Draft& d) { d.metadata["version"] = "2"; }, {"written by a newer version"}},
    {"NoVersion", [](Draft& d) { d.metadata.erase("version"); }, {"version", "missing"}},
    {"OddVersion", [](Draft& d) { d.metadata["version"] = "1.5"; }, {"'1.5' is no version"}},
    {"NoLayers", [](Draft& d) { d.metadata.erase("layers"); }, {"metadata layers", "missing"}},
    {"EmptyLayers", [](Draft& d) { d.metadata["layers"] = ""; }, {"metadata layers", "no number"}},
    {"LettersInLayers", [](Draft& d) { d.metadata["layers"] = "2,x"; }, {"'x' in the list"}},
    {"FallingLayers",
     [](Draft& d) { d.metadata["layers"] = "5,2"; },
     {"layer 2 stands after layer 5"}},
    {"MissingExperts",
     [](Draft& d) { d.metadata["num_experts"] = "4"; },
     {"1 numbers for 2 layers"}},
    {"MissingTopK", [](Draft& d) { d.metadata["top_k"] = "2,2,2"; }, {"3 numbers for 2 layers"}},
    {"TopKAboveExperts", [](Draft& d) { d.metadata["top_k"] = "2,5"; }, {"top_k 5 of 4"}},
    {"HugeNumber", [](Draft& d) { d.metadata["rows"] = "99999999999999999999"; }, {"is no number"}},
    {"NegativeLost",
     [](Draft& d) { d.metadata["lost"] = "-1"; },
     {"metadata lost", "is no number"}},
    {"LeadingZero", [](Draft& d) { d.metadata["rows"] = "03"; }, {"'03' is no number"}},
    {"TooManyRows",
     [](Draft& d) { d.metadata["rows"] = "9223372036854775807"; },
     {"metadata rows", "too many"}},
    {"FewHiddenLayers",
     [](Draft& d) { d.metadata["hidden_layers"] = "5"; },
     {"hidden_layers is 5"}},
    {"LayerMajor", [](Draft& d) { d.metadata["order"] = "layer"; }, {"metadata order", "'layer'"}},
    {"OddSlotOrder", [](Draft& d) { d.metadata["slot_order"] = "sorted"; }, {"slot_order"}},
    {"RowsAgainstShape", [](Draft& d) { d.metadata["rows"] = "4"; }, {"u8 [3, 2, 2]", "[4, 2, 2]"}},
    {"WidthAgainstExperts",
     [](Draft& d) { d.metadata["num_experts"] = "257,4"; },
     {"tensor ids", "u16 [3, 2, 2]"}},
    {"KAgainstShape", [](Draft& d) { d.metadata["top_k"] = "2,1"; }, {"tensor ids", "[3, 3]"}},
    {"AbsentAgainstBits",
     [](Draft& d) { d.metadata["absent"] = "2"; },
     {"absent is 2", "leave out 1"}},
    {"AbsentAboveAll", [](Draft& d) { d.metadata["absent"] = "7"; }, {"7 of 6 decisions"}},
    {"CompleteThoughAbsent",
     [](Draft& d) { d.metadata["complete"] = "true"; },
     {"metadata complete"}},
    {"OtherSum",
     [](Draft& d) { d.metadata["crc32.weights"] = "00000000"; },
     {"tensor weights", "checksum"},
     false},
    {"OddSum", [](Draft& d) { d.metadata["crc32.ids"] = "123"; }, {"crc32.ids", "8 digits"}, false},
    {"NoSum", [](Draft& d) { d.metadata.erase("crc32.ids"); }, {"tensor ids", "crc32.ids"}},
    {"NoSumOfWeights", [](Draft& d) { d.metadata.erase("crc32.weights"); }, {"tensor weights"}},
    {"SumOfNothing", [](Draft& d) { d.metadata["crc32.x"] = "00000000"; }, {"tensor x"}, false},
    {"NoIds",
     [](Draft& d) { std::erase_if(d.edit.tensors, [](auto& t) { return t.name == "ids"; }); },
     {"tensor ids", "missing"}},
    {"NoMargins",
     [](Draft& d) { std::erase_if(d.edit.tensors, [](auto& t) { return t.name == "margins"; }); },
     {"tensor margins", "missing"}},
    {"MoreTensors",
     [](Draft& d) { d.edit.add("extra", {2}); },
     {"tensor extra", "no tensor of a capture"}},
    {"SignedIds",
     [](Draft& d) { d.edit.at("ids").dtype = MOERT_DTYPE_I8; },
     {"tensor ids", "i8 [3, 2, 2]", "u8 [3, 2, 2]"}},
    {"FlatWeights",
     [](Draft& d) { d.edit.at("weights").shape = {3, 4}; },
     {"tensor weights", "[3, 4]", "[3, 2, 2]"}},
    {"TwiceTheSameKey",
     [](Draft& d) { d.store("positions", 1, 0); },
     {"row 1", "same sequence and position"}},
    {"FallingPositions",
     [](Draft& d) { d.store("positions", 0, 7); },
     {"tensor positions", "row 1", "not in order"}},
    {"FallingSequences",
     [](Draft& d) { d.store("sequences", 0, 9); },
     {"tensor sequences", "row 1"}},
    {"NegativePosition",
     [](Draft& d) { d.store("positions", 0, -1); },
     {"row 0", "negative position"}},
    {"IdOutOfRange",
     [](Draft& d) { d.byte("ids", 2) = std::byte{4}; },
     {"tensor ids, row 0 (sequence 0, position 0)", "layer 5", "expert 4 is out of range",
      "has 4"}},
    {"IdTwice",
     [](Draft& d) { d.byte("ids", 4) = std::byte{3}; },
     {"row 1", "layer 2", "expert 3 stands twice"}},
    {"AllIdsZero",
     [](Draft& d) { d.byte("ids", 0) = d.byte("ids", 1) = std::byte{0}; },
     {"row 0", "layer 2", "expert 0 stands twice"}},
    {"StrayBit",
     [](Draft& d) { d.byte("present", 2) |= std::byte{4}; },
     {"tensor present, row 2 (sequence 3"}},
    {"AbsentWithIds",
     [](Draft& d) { d.byte("ids", 10) = std::byte{1}; },
     {"row 2", "layer 5", "not zero"}},
    {"AbsentWithWeights",
     [](Draft& d) { d.byte("weights", 47) = std::byte{0x80}; },
     {"tensor weights, row 2"}},
    {"AbsentWithMargin",
     [](Draft& d) { d.byte("margins", 20) = std::byte{1}; },
     {"tensor margins, row 2"}},
};

class Hostile : public ::testing::TestWithParam<HostileFile> {};

TEST_P(Hostile, IsRefusedAndSaysWhere) {
  const HostileFile& lie = GetParam();
  const CaptureFolder folder(std::string("hostile_") + lie.name);
  Draft d = draft(folder);
  lie.tell(d);
  d.save(folder / "x", lie.sums);
  const std::optional<Error> error = error_of([&] { const CaptureFile file(folder / "x"); });
  ASSERT_TRUE(error) << "it was read";
  EXPECT_EQ(error->fault(), Fault::input) << error->what();
  EXPECT_NE(error->place().find((folder / "x").string()), std::string::npos) << error->what();
  EXPECT_FALSE(error->remedy().empty());
  for (const std::string& text : lie.texts)
    EXPECT_NE(std::string(error->what()).find(text), std::string::npos)
        << error->what() << "\nexpected: " << text;
}

INSTANTIATE_TEST_SUITE_P(Lies, Hostile, ::testing::ValuesIn(kHostile),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(HostileFiles, TheDraftIsValidAndUnknownEntriesAreNot) {
  const CaptureFolder folder("draft");
  Draft d = draft(folder);
  d.metadata["note"] = "of another program";
  d.save(folder / "x");
  EXPECT_EQ(CaptureFile(folder / "x").absent(), 1);
}

TEST(HostileFiles, AFileThatIsAbsentOrNoSafetensors) {
  const CaptureFolder folder("nofile");
  expect_error([&] { CaptureFile(folder / "x"); }, Fault::input, {"x"});
  write_bytes(folder / "x", "hello, this is no capture");
  expect_error([&] { CaptureFile(folder / "x"); }, Fault::input, {"x"});
}

// Whether the two say the same of every row.
bool same(const CaptureFile& a, const CaptureFile& b) {
  if (a.rows() != b.rows() || a.info().layers.size() != b.info().layers.size()) return false;
  for (int64_t row = 0; row < a.rows(); ++row)
    for (size_t layer = 0; layer < a.info().layers.size(); ++layer)
      if (a.key(row) != b.key(row) || decision_of(a, row, layer) != decision_of(b, row, layer))
        return false;
  return true;
}

// One to three small damages. Whatever is read then has the rows of the file it was made of, unless the
// header was hit, whose texts have no checksum; even then, reading every row ends well.
TEST(HostileFiles, DamagedByTheThousand) {
  const CaptureFolder folder("mutations");
  Draft d = draft(folder);
  const CaptureFile original(folder / "draft.safetensors");
  const std::string bytes = bytes_of(folder / "draft.safetensors");
  uint64_t data = 0;
  std::memcpy(&data, bytes.data(), sizeof data);
  data += 8;
  int read = 0, refused = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string damaged = bytes;
    const bool in_header = seed % 3 == 0;
    for (size_t n = in_header ? 1 : 1 + random() % 3; n > 0; --n) {
      const size_t at = in_header ? random() % data : random() % damaged.size();
      switch (random() % (in_header ? 3 : 5)) {
        case 0: damaged.at(at % damaged.size()) ^= static_cast<char>(1 << random() % 8); break;
        case 1: damaged.at(at % damaged.size()) = static_cast<char>(random() % 256); break;
        case 2: damaged.at(at % damaged.size()) = static_cast<char>('0' + random() % 10); break;
        case 3: damaged.resize(std::max<size_t>(1, at)); break;
        default: damaged.append(1 + random() % 9, '\0'); break;
      }
    }
    const bool header_hit = damaged.compare(0, data, bytes, 0, data) != 0;
    write_bytes(folder / "x", damaged);
    const std::optional<Error> error = error_of([&] {
      const CaptureFile file(folder / "x");
      ++read;
      const bool alike = same(file, original);
      EXPECT_TRUE(alike || header_hit);
      EXPECT_TRUE(damaged == bytes || header_hit) << "a change in the tensors went unnoticed";
    });
    if (!error) continue;
    ++refused;
    ASSERT_TRUE(error->fault() == Fault::input) << error->what();
  }
  EXPECT_GT(read, 5) << "the damages are too rough to test anything but the first check";
  EXPECT_GT(refused, 750);
}

TEST(HostileFiles, EveryFlippedByteOfTheTensorsIsNoticed) {
  const CaptureFolder folder("flips");
  draft(folder);
  const std::string bytes = bytes_of(folder / "draft.safetensors");
  uint64_t data = 0;
  std::memcpy(&data, bytes.data(), sizeof data);
  for (size_t at = data + 8; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_bytes(folder / "x", damaged);
    expect_error([&] { CaptureFile(folder / "x"); }, Fault::input, {"checksum"});
  }
}

// Tensors may begin anywhere: another writer need not align them.
TEST(HostileFiles, UnalignedTensorsAreRead) {
  const CaptureFolder folder("unaligned");
  Draft d = draft(folder);
  const CaptureFile original(folder / "draft.safetensors");
  std::string header = "{\"__metadata__\":{", data;
  for (const auto& [key, value] : d.metadata) header += "\"" + key + "\":\"" + value + "\",";
  header.back() = '}';
  std::sort(d.edit.tensors.begin(), d.edit.tensors.end(),
            [](const auto& a, const auto& b) { return a.name > b.name; });
  std::reverse(d.edit.tensors.begin(), d.edit.tensors.end());
  std::rotate(d.edit.tensors.begin(), d.edit.tensors.begin() + 3, d.edit.tensors.end());
  for (const testing::EditTensor& tensor : d.edit.tensors) {
    std::string shape;
    for (const int64_t size : tensor.shape) shape += std::to_string(size) + ",";
    shape.pop_back();
    header += ",\"" + tensor.name + "\":{\"dtype\":\"" +
              std::string(dtype_info(tensor.dtype)->safetensors) + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.data.size()) + "]}";
    data.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  header += "}";
  header.resize(header.size() / 8 * 8 + 9, ' ');  // the data begins at an odd place
  std::string length(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(length.data(), &size, sizeof size);
  write_bytes(folder / "x", length + header + data);
  EXPECT_TRUE(same(CaptureFile(folder / "x"), original));
}

}  // namespace
}  // namespace moert::capture
