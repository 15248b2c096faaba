// The capturer's ring when it is full, and what a step waits for.
// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <string_view>

#include "gpu/memory_rig.hpp"

namespace moert::gpu {
namespace {

using Row = MemoryRig::Row;

// A place in a stream, and whether the device has come to it. On the simulator that is so when somebody waited for it,
// and no sooner; a device may be quick, so nothing is expected of one.
class Mark {
 public:
  explicit Mark(Stream stream) : seen_(static_cast<int32_t*>(allocate_host(sizeof(int32_t)))) {
    *seen_ = 0;
    one_.assign({1});
    copy_to_host(stream, seen_, one_.device(), sizeof(int32_t));
  }
  ~Mark() { release_host(seen_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  void expect(bool reached, const std::string& when) const {
    if (std::string_view(kBackend.word).substr(0, 3) != "sim") return;
    EXPECT_EQ(*seen_ != 0, reached) << when;
  }

 private:
  DeviceArray<int32_t> one_;
  int32_t* seen_;
};

// That copy comes behind the end of the step before its own.
TEST(CaptureMemory, AStepWaitsForTheCopyBeforeTheLastAndNoMore) {
  MemoryRig rig("block");
  std::deque<Mark> marks;
  for (int64_t i = 0; i < MemoryRig::kRoom; ++i) {
    marks.emplace_back(rig.stream());
    rig.step(i, 1);
    for (int64_t j = 0; j <= i; ++j)
      marks[static_cast<size_t>(j)].expect(j + 3 <= i, "step " + std::to_string(i));
  }
  EXPECT_EQ(rig.read(), MemoryRig::all_present(MemoryRig::kRoom));
}

TEST(CaptureMemory, BlockMovesCommittedRowsToMakeRoom) {
  MemoryRig rig("block");
  rig.step(0, 3);
  rig.step(3, 4);
  rig.step(7, 5);
  rig.step(12, 1);
  EXPECT_EQ(rig.counts().rows, 13);
  EXPECT_EQ(rig.counts().absent, 0);
  EXPECT_EQ(rig.read(), MemoryRig::all_present(13));
}

// Pending rows cannot move. Of the step that was refused nothing stays, and later ones are kept.
TEST(CaptureMemory, BlockRefusesAStepThatMovingDoesNotHelp) {
  MemoryRig rig("block");
  rig.step(0, 3);
  rig.step(3, 3, false);
  TestError error;
  EXPECT_EQ(rig.begin(6, 3, true, &error.record), MOERT_RESOURCE_EXHAUSTED);
  const std::string_view text = error.record.message;
  EXPECT_NE(text.find("3 are pending"), std::string_view::npos) << text;
  EXPECT_NE(text.find("room for 5"), std::string_view::npos) << text;
  EXPECT_NE(text.find("buffer_mb must be 2"), std::string_view::npos) << text;
  EXPECT_EQ(rig.begin(0, MemoryRig::kMaxTokens, true, &error.record), MOERT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(rig.counts().rows, 3);
  EXPECT_EQ(rig.counts().pending, 3);
  rig.drop(3);
  rig.step(3, 5);
  EXPECT_EQ(rig.counts().absent, 0);
  EXPECT_EQ(rig.read(), MemoryRig::all_present(8));
}

TEST(CaptureMemory, DropKeepsRowsWithoutDecisionsAndWaitsForNothing) {
  MemoryRig rig("drop");
  rig.step(0, 3);
  const Mark mark(rig.stream());
  rig.step(3, 4);
  mark.expect(false, "a step that finds no room");
  EXPECT_EQ(rig.counts().rows, 7);
  EXPECT_EQ(rig.counts().absent, 2);
  std::vector<Row> want = MemoryRig::all_present(7);
  want[5].present = want[6].present = false;
  EXPECT_EQ(rig.read(), want);
  rig.step(7, 5);  // what was read has left the ring
  for (int64_t position = 7; position < 12; ++position) want.push_back({position, true});
  EXPECT_EQ(rig.read(), want);
  EXPECT_EQ(rig.counts().absent, 2);
}

// Rows without a place have none to give back.
TEST(CaptureMemory, DroppedRowsThatFoundNoRoomGiveNothingBack) {
  MemoryRig rig("drop");
  rig.step(0, 5);
  rig.step(5, 3, false);
  rig.drop(5);
  EXPECT_EQ(rig.counts().absent, 0) << "they were never committed";
  rig.step(5, 2);
  std::vector<Row> want = MemoryRig::all_present(7);
  want[5].present = want[6].present = false;
  EXPECT_EQ(rig.read(), want);
  rig.step(7, 5);
  for (int64_t position = 7; position < 12; ++position) want.push_back({position, true});
  EXPECT_EQ(rig.read(), want);
}

// A step's places are told, and its rows written, when those before are done, whatever the stream.
TEST(CaptureMemory, StepsOfTwoStreamsComeOneAfterTheOther) {
  MemoryRig rig("block");
  for (int64_t i = 0; i < 4; ++i) {
    rig.on = static_cast<size_t>(i % 2);
    rig.step(i, 1);
  }
  EXPECT_EQ(rig.read(), MemoryRig::all_present(4));
}

// What a step sends is not to be sent again by a graph.
TEST(CaptureMemory, AStepDoesNotBeginInAGraph) {
  for (const bool fresh : {true, false}) {
    MemoryRig rig("block");
    if (!fresh) rig.step(0, 1);
    begin_graph(rig.stream());
    TestError error;
    EXPECT_EQ(rig.begin(0, 2, true, &error.record), MOERT_FAILED_PRECONDITION);
    try {
      destroy_graph(end_graph(rig.stream()));
    } catch (const PluginError&) {  // the call may have spoilt the graph
    }
    EXPECT_EQ(rig.counts().pending, 0);
    rig.step(fresh ? 0 : 1, 3);
    EXPECT_EQ(rig.read(), MemoryRig::all_present(fresh ? 3 : 4));
  }
}

}  // namespace
}  // namespace moert::gpu
