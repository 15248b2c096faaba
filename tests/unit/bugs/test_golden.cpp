// A comparison is worth what its golden file is: ids that are no experts must not pass for ones.
// SPDX-License-Identifier: Apache-2.0
#include <deque>

#include "runtime/run.hpp"
#include "tiny_model.hpp"

namespace moert::bugs {
namespace {

// A copy of a golden file in which every id is i64 and `offset` higher.
fs::path with_ids(const fs::path& golden, int64_t offset) {
  const weights::Checkpoint file(golden);
  weights::SafetensorsWriter writer;
  std::deque<std::vector<int64_t>> moved;
  for (const weights::TensorInfo& info : file.tensors()) {
    const TensorView view = file.view(info);
    if (info.name.find("topk_ids") == std::string::npos) {
      writer.add(info.name, info.dtype, info.shape, view.get()->data);
      continue;
    }
    const auto* ids = static_cast<const int32_t*>(view.get()->data);
    moved.emplace_back(ids, ids + element_count(*view.get()));
    for (int64_t& id : moved.back()) id += offset;
    writer.add(info.name, MOERT_DTYPE_I64, info.shape, moved.back().data());
  }
  const fs::path copy = fs::path(::testing::TempDir()) / "moert_golden_ids.safetensors";
  writer.write(copy);
  return copy;
}

TEST(Golden, IdsBeyondThirtyTwoBitsAreAnErrorAndOthersAreCompared) {
  const fs::path folder = fs::path(MOERT_SOURCE_DIR) / "tests/data/olmoe-f32";
  spec::Run run;
  run.checkpoint = folder;
  run.hidden_states = folder / "golden.safetensors";
  run.expect.emplace();
  const auto passes = [&](int64_t offset) {
    run.expect->file = with_ids(folder / "golden.safetensors", offset);
    return runtime::run(session(), families(), run).passed;
  };
  EXPECT_TRUE(passes(0));
  EXPECT_FALSE(passes(1));
  for (const int64_t offset : {int64_t{1} << 32, -(int64_t{1} << 32)}) {
    const Error error = error_of([&] { passes(offset); });
    EXPECT_EQ(error.fault(), Fault::input);
    expect_text(error, {"topk_ids", "is the number of no expert"});
  }
}

}  // namespace
}  // namespace moert::bugs
