// From a capture file to what the page shows of it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/report_page.hpp"
#include "support/capture_rows.hpp"

namespace {

using moert::capture::CaptureFile;
using moert::capture::CaptureInfo;
using moert::capture::RowKey;
using moert::report::ReportCapture;
using moert::report::summarise;
using moert::testing::Decision;

class ReportSummary : public ::testing::Test {
 protected:
  // Sequences 3 (four rows) and 9 (two rows); layer 1 lacks the rows at position 1.
  CaptureFile written(int64_t lost) {
    CaptureInfo info = moert::testing::capture_info(2, 4, 2);
    info.lost = lost;
    std::vector<RowKey> keys = moert::testing::keys_of_sequence(3, 4);
    for (const RowKey& key : moert::testing::keys_of_sequence(9, 2)) keys.push_back(key);
    moert::testing::write_capture(folder_ / "a.moert", info, keys,
                                  [](RowKey key, size_t layer) -> std::optional<Decision> {
                                    if (layer == 1 && key.position == 1) return {};
                                    return Decision{{0, key.sequence == 3 ? 1 : 2}};
                                  });
    return CaptureFile(folder_ / "a.moert");
  }
  moert::testing::CaptureFolder folder_{"report_summary"};
};

TEST_F(ReportSummary, WholeFile) {
  const ReportCapture summary = summarise(written(5));
  EXPECT_EQ(summary.path, (folder_ / "a.moert").string());
  EXPECT_EQ(summary.info.model, "tiny");
  EXPECT_EQ(summary.info.lost, 5);
  EXPECT_EQ(summary.rows, 6);
  EXPECT_EQ(summary.absent, 2);
  EXPECT_EQ(summary.sequences, 2);
  EXPECT_EQ(summary.sequence, std::nullopt);
  EXPECT_FALSE(summary.complete);
  ASSERT_EQ(summary.layers.size(), 2U);
  EXPECT_EQ(summary.layers[0].counts, (std::vector<int64_t>{6, 4, 2, 0}));
  EXPECT_EQ(summary.layers[1].counts, (std::vector<int64_t>{4, 3, 1, 0}));
}

TEST_F(ReportSummary, OneSequence) {
  const ReportCapture summary = summarise(written(0), {.sequence = 9});
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(summary.absent, 1);
  EXPECT_EQ(summary.sequences, 1);
  EXPECT_EQ(summary.layers.at(0).counts, (std::vector<int64_t>{2, 0, 2, 0}));
  EXPECT_NE(moert::report::report_page({summary}).find("of sequence 9"), std::string::npos);
}

TEST_F(ReportSummary, Page) {
  const std::string page = moert::report::report_page({summarise(written(0))});
  for (const char* part : {"2 decisions are absent.", "in 2 sequences",
                           "<th scope=\"row\">0<td>6<td>4<td>2<td>0", "not complete"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

}  // namespace
