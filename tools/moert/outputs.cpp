// SPDX-License-Identifier: Apache-2.0
#include "outputs.hpp"

#include <utility>
#include <vector>

#include <moert/error.hpp>

#include "config/config.hpp"
#include "util/file.hpp"

namespace moert::tool {
namespace fs = std::filesystem;

namespace {

struct Place {
  std::string key;  // or what it is, for messages
  fs::path path;
};

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  // Neither may be there yet.
  const fs::path left = fs::weakly_canonical(output_target(a), error);
  if (error) return false;
  const fs::path right = fs::weakly_canonical(output_target(b), error);
  return !error && left == right;
}

void refuse_replacing(const Place& output, const Place& input) {
  std::error_code ignored;
  if (!fs::equivalent(output.path, input.path, ignored)) return;
  throw Error(Fault::usage,
              output.key + " '" + output.path.string() + "' would replace " + input.key,
              input.path.string(), "choose another path for the output");
}

bool belongs_to_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "config.json" || name.ends_with(".safetensors") ||
         name.ends_with(".safetensors.index.json");
}

std::vector<Place> files_of(const fs::path& checkpoint) {
  std::error_code error;
  std::vector<Place> files;
  if (!fs::is_directory(checkpoint, error)) return {{"the checkpoint", checkpoint}};
  fs::directory_iterator entry(checkpoint, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (belongs_to_checkpoint(entry->path()))
      files.push_back({"a file of the checkpoint", entry->path()});
  return files;
}

std::vector<Place> inputs_of(const spec::Run& run, const fs::path& run_file) {
  std::vector<Place> inputs = {{"the file of the run", run_file},
                               {"inputs.hidden_states", run.hidden_states}};
  if (run.expect) inputs.push_back({"expect.file", run.expect->file});
  if (!run.replay.empty()) inputs.push_back({"replay", run.replay});
  fs::path checkpoint = run.checkpoint;
  if (!run.description.empty()) {
    inputs.push_back({"model.description", run.description});
    checkpoint = config::read_model(run.description).checkpoint;
  }
  for (Place& file : files_of(checkpoint)) inputs.push_back(std::move(file));
  return inputs;
}

std::vector<Place> outputs_of(const spec::Run& run) {
  std::vector<Place> outputs;
  if (!run.output.empty()) outputs.push_back({"outputs.file", run.output});
  for (size_t i = 0; i < run.capture.size(); ++i)
    if (!run.capture[i].path.empty())
      outputs.push_back({"capture[" + std::to_string(i) + "].path", run.capture[i].path});
  return outputs;
}

}  // namespace

void check_outputs(const spec::Run& run, const fs::path& run_file) {
  const std::vector<Place> outputs = outputs_of(run);
  if (outputs.empty()) return;
  const std::vector<Place> inputs = inputs_of(run, run_file);
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const Place& input : inputs) refuse_replacing(outputs[i], input);
    for (size_t j = 0; j < i; ++j)
      if (same_file(outputs[j].path, outputs[i].path))
        throw Error(Fault::usage, outputs[j].key + " and " + outputs[i].key + " name the same file",
                    outputs[i].path.string(), "give each output a file of its own");
    try {
      const AtomicFile tried(outputs[i].path);
    } catch (const Error& error) {
      throw Error(error.fault(), outputs[i].key + ": " + error.problem(), error.place(),
                  error.remedy());
    }
  }
}

void keep_checkpoint(const fs::path& checkpoint, const fs::path& output, const std::string& key) {
  for (const Place& file : files_of(checkpoint)) refuse_replacing({key, output}, file);
}

void keep_input(const fs::path& input, const fs::path& output) {
  refuse_replacing({"the output", output}, {"what is read", input});
}

}  // namespace moert::tool
