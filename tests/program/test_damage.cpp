// Damaged checkpoints: exit code 6, the tensor by name, and nothing written.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "program.hpp"
#include "support/safetensors_edit.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

enum class Edit { deleted, renamed, duplicated, misshaped };

const char* edit_name(Edit edit) {
  switch (edit) {
    case Edit::deleted: return "deleted";
    case Edit::renamed: return "renamed";
    case Edit::duplicated: return "duplicated";
    case Edit::misshaped: return "misshaped";
  }
  return "";
}

// Damages `tensor`; returns the name that an error must hold.
std::string damage(SafetensorsEdit& file, const std::string& tensor, Edit edit) {
  switch (edit) {
    case Edit::deleted: file.drop(tensor); return tensor;
    case Edit::renamed: file.rename(tensor, tensor + "s"); return tensor;
    case Edit::duplicated: file.duplicate(tensor, tensor + ".1"); return tensor + ".1";
    case Edit::misshaped: {
      std::vector<int64_t> shape = file.at(tensor).shape;
      shape.at(0) += 1;
      file.reshape(tensor, shape);
      return tensor;
    }
  }
  return {};
}

// Runs the checkpoint in `folder`; outputs and captures would go to folder/out.
Ended run_folder(const fs::path& checkpoint, const fs::path& folder) {
  write_file(folder / "run.yaml",
             run_yaml(checkpoint,
                      "  outputs: { file: out/x.safetensors }\n"
                      "  capture: [ { to: memory, path: out/r.safetensors } ]\n"));
  return run_moert({"run", (folder / "run.yaml").string()}, {.folder = folder});
}

struct DamageCase {
  const char* data;
  const char* layer;  // all expert tensors with this prefix, and of other layers the first
  Edit edit;
};

void PrintTo(const DamageCase& tested, std::ostream* out) {
  *out << tested.data << ", " << edit_name(tested.edit);
}

class Damaged : public ::testing::TestWithParam<DamageCase> {
 protected:
  static bool is_expert(const std::string& name) { return contains(name, ".experts."); }
  static bool is_part(const std::string& name) {
    return is_expert(name) || contains(name, ".mlp.gate.") || contains(name, ".shared_experts.");
  }
};

TEST_P(Damaged, TensorIsNamedAndNothingIsWritten) {
  const SafetensorsEdit whole(data_folder(GetParam().data));
  const TemporaryFolder folder;
  size_t tried = 0, elsewhere = 0;
  for (const std::string& tensor : whole.names()) {
    if (!is_part(tensor)) continue;
    if (tensor.rfind(GetParam().layer, 0) != 0 && (!is_expert(tensor) || elsewhere++ % 11 != 0))
      continue;
    SafetensorsEdit file = whole;
    const std::string name = damage(file, tensor, GetParam().edit);
    file.write_folder(folder / "checkpoint", data_folder(GetParam().data));
    const Ended ended = run_folder(folder / "checkpoint", folder.path());
    EXPECT_EQ(ended.code, 6) << edit_name(GetParam().edit) << " " << tensor << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, name))
        << edit_name(GetParam().edit) << " " << tensor << MOERT_SHOW(ended);
    EXPECT_EQ(ended.out, "");
    EXPECT_FALSE(fs::exists(folder / "out")) << MOERT_SHOW(ended);
    ++tried;
  }
  EXPECT_GE(tried, 24u) << "too few tensors looked like parts of experts";
}

INSTANTIATE_TEST_SUITE_P(
    Tensor, Damaged,
    ::testing::Values(DamageCase{"olmoe-f32", "model.layers.1.", Edit::deleted},
                      DamageCase{"olmoe-f32", "model.layers.1.", Edit::renamed},
                      DamageCase{"olmoe-f32", "model.layers.1.", Edit::duplicated},
                      DamageCase{"olmoe-f32", "model.layers.1.", Edit::misshaped},
                      DamageCase{"deepseek-v3-f32", "model.layers.2.", Edit::deleted},
                      DamageCase{"deepseek-v3-f32", "model.layers.2.", Edit::renamed},
                      DamageCase{"deepseek-v3-f32", "model.layers.2.", Edit::duplicated},
                      DamageCase{"deepseek-v3-f32", "model.layers.2.", Edit::misshaped}),
    [](const auto& tested) {
      std::string name = std::string(tested.param.data) + "_" + edit_name(tested.param.edit);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(DamagedFile, CutAtManyPlacesIsExitSix) {
  const std::string whole = read_file(data_folder("olmoe-f32") / "model.safetensors");
  const TemporaryFolder folder;
  fs::copy(data_folder("olmoe-f32"), folder / "checkpoint");
  for (const size_t size :
       {size_t{0}, size_t{7}, size_t{8}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    SafetensorsEdit::write_bytes(folder / "checkpoint/model.safetensors", whole.substr(0, size));
    const Ended ended = run_folder(folder / "checkpoint", folder.path());
    EXPECT_EQ(ended.code, 6) << size << " bytes" << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, "model.safetensors")) << MOERT_SHOW(ended);
    EXPECT_FALSE(fs::exists(folder / "out"));
  }
}

TEST(DamagedFile, NamesInMessagesCannotMoveTheCursor) {
  const TemporaryFolder folder;
  SafetensorsEdit file(data_folder("olmoe-f32"));
  file.duplicate("model.layers.0.mlp.experts.0.up_proj.weight",
                 "model.layers.0.mlp.experts.\x1b[2J.weight");
  file.write_folder(folder / "checkpoint", data_folder("olmoe-f32"));
  const Ended ended = run_folder(folder / "checkpoint", folder.path());
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.err.find('\x1b'), std::string::npos) << MOERT_SHOW(ended);
}

TEST(DamagedFile, OldOutputSurvivesAFailedRun) {
  const TemporaryFolder folder;
  write_file(folder / "out/x.safetensors", "old");
  SafetensorsEdit file(data_folder("olmoe-f32"));
  file.drop("model.layers.0.mlp.gate.weight");
  file.write_folder(folder / "checkpoint", data_folder("olmoe-f32"));
  const Ended ended = run_folder(folder / "checkpoint", folder.path());
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_EQ(read_file(folder / "out/x.safetensors"), "old");
  EXPECT_EQ(files_below(folder / "out"), std::vector<std::string>{"x.safetensors"});
}

TEST(Inspect, FindingsAreListedAndExitSix) {
  const TemporaryFolder folder;
  SafetensorsEdit file(data_folder("olmoe-f32"));
  const std::string tensor = "model.layers.1.mlp.experts.3.up_proj.weight";
  file.rename(tensor, "model.layers.1.mlp.experts.3.up_projj.weight");
  file.write_folder(folder / "checkpoint", data_folder("olmoe-f32"));
  const Ended ended = run_moert({"model", "inspect", (folder / "checkpoint").string()});
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "missing")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "unexpected")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, tensor)) << MOERT_SHOW(ended);
  const Json json =
      run_moert({"model", "inspect", (folder / "checkpoint").string(), "--json"}).json();
  EXPECT_FALSE(json.at("complete").get<bool>());
  ASSERT_EQ(json.at("findings").size(), 2u) << json;
  EXPECT_EQ(json.at("findings").at(0).at("tensor").get<std::string>(), tensor);
  EXPECT_EQ(json.at("findings").at(0).at("nearest").get<std::string>(),
            "model.layers.1.mlp.experts.3.up_projj.weight");
}

}  // namespace
}  // namespace moert::testing
