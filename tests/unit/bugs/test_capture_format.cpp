// Public bug reports about captured routing: what the file format rules out. Tests are named after the
// reports.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <moert/error.hpp>

#include "capture/foreign.hpp"
#include "capture/replay.hpp"
#include "support/capture_rows.hpp"
#include "support/safetensors_edit.hpp"

namespace moert::bugs {
namespace {

using capture::CapturedLayer;
using capture::CaptureFile;
using capture::CaptureInfo;
using capture::RowKey;
using testing::capture_info;
using testing::CaptureFolder;
using testing::Decision;
using testing::decision_of;
using testing::write_capture;

// Prompts were padded left, answers right, and experts went to the wrong tokens. A row is a token by its
// sequence and position: two prompts of length 2 and 5 have 7 rows, and a batch that is padded on either
// side gets the experts of its tokens and none for its padding.
TEST(BugCaptureFormat, N118_RowsBelongToTokensHoweverABatchIsPadded) {
  const CaptureFolder folder("n118");
  const std::vector<CapturedLayer> layers = {{0, 64, 2}};
  std::vector<RowKey> keys = testing::keys_of_sequence(1, 2);
  for (const RowKey& key : testing::keys_of_sequence(2, 5)) keys.push_back(key);
  const auto ids_of = [](RowKey key) {
    const auto id = static_cast<int32_t>(key.sequence * 10 + key.position);
    return std::vector<int32_t>{id, id + 30};
  };
  write_capture(folder / "x", capture_info(1, 64, 2), keys,
                [&](RowKey key, size_t) { return Decision{ids_of(key)}; });
  capture::Replay replay(folder / "x", layers);
  EXPECT_EQ(replay.file().rows(), 7);
  for (const int64_t left :
       {0, 1, 3}) {  // rows of padding before the shorter prompt; the rest come after it
    std::vector<RowKey> batch(10);
    std::vector<uint8_t> valid(10, 0);
    for (int64_t p = 0; p < 2; ++p) {
      batch[static_cast<size_t>(left + p)] = {1, p};
      valid[static_cast<size_t>(left + p)] = 1;
    }
    for (int64_t p = 0; p < 5; ++p) {
      batch[static_cast<size_t>(5 + p)] = {2, p};
      valid[static_cast<size_t>(5 + p)] = 1;
    }
    const int32_t* ids = replay.ids(0, batch.data(), 10, valid.data());
    for (size_t row = 0; row < 10; ++row)
      EXPECT_EQ(std::vector<int32_t>(ids + 2 * row, ids + 2 * row + 2),
                valid[row] != 0 ? ids_of(batch[row]) : (std::vector<int32_t>{-1, -1}))
          << left << " " << row;
  }
  EXPECT_EQ(replay.counts(0).replayed, 21);
  EXPECT_EQ(replay.counts(0).native, 0) << "padding was counted";
}

// Packed into one byte whatever the model, every request of a model of 512 experts failed.
TEST(BugCaptureFormat, N120_TheWidthFollowsTheModel) {
  const CaptureFolder folder("n120");
  const std::pair<int64_t, uint32_t> cases[] = {{256, MOERT_DTYPE_U8}, {257, MOERT_DTYPE_U16}};
  for (const auto& [experts, dtype] : cases) {
    const auto last = static_cast<int32_t>(experts - 1);
    const std::filesystem::path path = folder / "x.safetensors";
    write_capture(path, capture_info(1, experts, 2), {{0, 0}},
                  [last](RowKey, size_t) { return Decision{{last, 255 - (last == 255 ? 1 : 0)}}; });
    testing::SafetensorsEdit edit(path);
    EXPECT_EQ(edit.at("ids").dtype, dtype);
    const CaptureFile file(path);
    EXPECT_EQ(decision_of(file, 0, 0)->ids[0], last);
    capture::ForeignOptions options;
    options.format = capture::Foreign::prime_rl;
    if (experts == 256) {
      EXPECT_EQ(capture::write_foreign(file, options), "\xff\xfe");
      continue;
    }
    try {
      capture::write_foreign(file, options);
      ADD_FAILURE() << "257 experts in bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      EXPECT_NE(error.problem().find("257 experts"), std::string::npos) << error.what();
    }
  }
}

// "Nothing" was written as -1 into bytes and came back as expert 255.
TEST(BugCaptureFormat, N122_NothingIsNoExpert) {
  const CaptureFolder folder("n122");
  const std::filesystem::path path = folder / "x.safetensors";
  write_capture(path, capture_info(1, 256, 1), {{0, 0}, {0, 1}, {0, 2}},
                [](RowKey key, size_t) -> std::optional<Decision> {
                  if (key.position == 1) return {};
                  return Decision{{key.position == 0 ? 255 : 0}};
                });
  const CaptureFile file(path);
  EXPECT_EQ(decision_of(file, 0, 0)->ids, (std::vector<int32_t>{255}));
  EXPECT_FALSE(decision_of(file, 1, 0));
  EXPECT_EQ(decision_of(file, 2, 0)->ids, (std::vector<int32_t>{0}));
  EXPECT_EQ(file.absent(), 1);
  EXPECT_FALSE(file.complete());
  testing::SafetensorsEdit edit(path);
  EXPECT_EQ(edit.at("ids").data,
            (std::vector<std::byte>{std::byte{255}, std::byte{0}, std::byte{0}}));
  EXPECT_EQ(edit.at("present").data,
            (std::vector<std::byte>({std::byte{1}, std::byte{0}, std::byte{1}})));
}

// Signed types were chosen by the number of experts alone and had no room for "missing", or none for the
// last expert. No id of ours means missing, so that all of a type's values are experts.
TEST(BugCaptureFormat, N123_TheLastExpertAndAGapBothFit) {
  const CaptureFolder folder("n123");
  for (const int64_t experts : {128, 129, 32768, 32769}) {
    const auto last = static_cast<int32_t>(experts - 1);
    write_capture(folder / "x", capture_info(1, experts, 1), {{0, 0}, {0, 1}},
                  [last](RowKey key, size_t) -> std::optional<Decision> {
                    if (key.position == 1) return {};
                    return Decision{{last}};
                  });
    const CaptureFile file(folder / "x");
    EXPECT_EQ(decision_of(file, 0, 0)->ids, (std::vector<int32_t>{last}));
    EXPECT_FALSE(file.present(1, 0));
    // A signed shape says both as long as it can, and refuses then.
    capture::ForeignOptions options;
    options.format = capture::Foreign::tensorrt_llm;
    if (experts <= 32768) {
      const std::string bytes = capture::write_foreign(file, options);
      ASSERT_EQ(bytes.size(), 4u);
      EXPECT_EQ(static_cast<unsigned char>(bytes[0]) | static_cast<unsigned char>(bytes[1]) << 8,
                last);
      EXPECT_EQ(bytes.substr(2), "\xff\xff");
    } else {
      EXPECT_THROW(capture::write_foreign(file, options), Error);
    }
  }
}

}  // namespace
}  // namespace moert::bugs
