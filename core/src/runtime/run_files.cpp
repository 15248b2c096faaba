// SPDX-License-Identifier: Apache-2.0
#include "runtime/run_files.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include <moert/sdk/dtypes.hpp>

#include "runtime/call.hpp"
#include "util/nearest.hpp"

namespace moert::runtime {

std::string layer_name(int64_t layer_id, const char* what) {
  return "layers." + std::to_string(layer_id) + "." + what;
}

// A tensor of an input or golden file, with the shape that it must have; -1 stands for any size.
const weights::TensorInfo& need(const weights::Checkpoint& file, const std::string& name,
                                const std::vector<int64_t>& shape) {
  const weights::TensorInfo* info = file.find(name);
  if (info == nullptr) {
    std::vector<std::string> names;
    for (const weights::TensorInfo& tensor : file.tensors()) names.push_back(tensor.name);
    throw Error(Fault::input, "tensor '" + name + "' is missing", file.path().string(),
                suggestion(name, names));
  }
  bool fits = info->shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape[i] == -1 || info->shape[i] == shape[i];
  if (!fits)
    throw Error(Fault::input,
                "tensor '" + name + "' is " + tensor_text(*file.view(*info).get()) +
                    ", expected shape " +
                    shape_text(shape.data(), static_cast<uint32_t>(shape.size())) + " (-1: any)",
                file.place(*info), "use the file that belongs to this model");
  return *info;
}

std::vector<float> read_floats(const weights::Checkpoint& file, const weights::TensorInfo& info) {
  const TensorView view = file.view(info);
  std::vector<float> values(static_cast<size_t>(element_count(*view.get())));
  try {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = read_f32(*view.get(), static_cast<int64_t>(i));
  } catch (const PluginError& error) {
    throw Error(Fault::input, error.what(), file.place(info),
                "store the tensor as f32, bf16 or f16");
  }
  return values;
}

std::vector<int32_t> read_ids(const weights::Checkpoint& file, const weights::TensorInfo& info,
                              const std::string& what) {
  const TensorView view = file.view(info);
  const auto n = static_cast<size_t>(element_count(*view.get()));
  if (info.dtype == MOERT_DTYPE_I32) {
    const auto* data = static_cast<const int32_t*>(view.get()->data);
    return {data, data + n};
  }
  if (info.dtype != MOERT_DTYPE_I64)
    throw Error(Fault::input, what + " ids are " + std::string(dtype_name(info.dtype)),
                file.place(info), "store them as i32 or i64");
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t id = static_cast<const int64_t*>(view.get()->data)[i];
    if (id < -1 || id > INT32_MAX)  // -1 stands for none, of a token as of an expert
      throw Error(Fault::input, std::to_string(id).append(" is the number of no ").append(what),
                  file.place(info), "use the file that belongs to this model");
    ids[i] = static_cast<int32_t>(id);
  }
  return ids;
}

Inputs::Inputs(const spec::Run& run, const spec::Model& model) : file(run.hidden_states) {
  for (const spec::MoELayer& layer : model.layers) {
    const weights::TensorInfo& info =
        need(file, layer_name(layer.layer_id, "hidden_states"), {-1, model.hidden_size});
    if (dtype != MOERT_DTYPE_INVALID && info.dtype != dtype)
      throw Error(Fault::input, "hidden states are of different types", file.place(info),
                  "store those of all layers in one type");
    dtype = info.dtype;
    max_tokens = std::max(max_tokens, info.shape[0]);
    hidden.push_back(&info);
    token_ids.push_back(layer.routing.method == "hash" && run.simulate.empty()
                            ? read_token_ids(layer, info.shape[0])
                            : std::vector<int64_t>());
  }
  group_layers();
}

// The rows' token numbers: the layer's own, else those of the whole model.
std::vector<int64_t> Inputs::read_token_ids(const spec::MoELayer& layer, int64_t tokens) const {
  std::string name = layer_name(layer.layer_id, "input_ids");
  if (file.find(name) == nullptr) name = "input_ids";
  const weights::TensorInfo& info = need(file, name, {tokens});
  const std::vector<int32_t> ids = read_ids(file, info, "token");
  return {ids.begin(), ids.end()};
}

// Layers with equally many rows form a step, so that a capturer's rows mean the same token in each.
void Inputs::group_layers() {
  std::map<int64_t, std::vector<size_t>, std::greater<>> by_length;
  for (size_t i = 0; i < hidden.size(); ++i) by_length[hidden[i]->shape[0]].push_back(i);
  for (auto& [tokens, layers] : by_length)
    groups.push_back({read_keys(tokens, static_cast<int64_t>(groups.size())), std::move(layers)});
  for (const char* name : {"sequences", "positions"}) {
    const weights::TensorInfo* info = file.find(name);
    if (info == nullptr) continue;
    if (groups.size() > 1)
      throw Error(Fault::input,
                  std::string(name) +
                      " say which tokens the rows are, but layers have different "
                      "numbers of rows",
                  file.place(*info), "give every layer the same rows, or leave them out");
    if (info->shape != std::vector<int64_t>{static_cast<int64_t>(groups.front().keys.size())})
      throw Error(Fault::input, std::string(name) + " has not as many entries as layers have rows",
                  file.place(*info), "give one entry a row");
  }
}

// Which tokens the rows are: the file says so, or they are one sequence.
std::vector<capture::RowKey> Inputs::read_keys(int64_t tokens, int64_t group) const {
  std::vector<capture::RowKey> keys(static_cast<size_t>(tokens));
  const auto read = [&](const char* name, int64_t capture::RowKey::* member) {
    const weights::TensorInfo* info = file.find(name);
    if (info == nullptr || info->shape != std::vector<int64_t>{tokens}) return false;
    if (info->dtype != MOERT_DTYPE_I64)
      throw Error(Fault::input, std::string(name) + " are " + std::string(dtype_name(info->dtype)),
                  file.place(*info), "store them as i64");
    const auto* values = static_cast<const int64_t*>(file.view(*info).get()->data);
    for (size_t t = 0; t < keys.size(); ++t) keys[t].*member = values[t];
    return true;
  };
  const bool has_sequences = read("sequences", &capture::RowKey::sequence);
  if (has_sequences != read("positions", &capture::RowKey::position))
    throw Error(
        Fault::input,
        "only one of sequences and positions is there for " + std::to_string(tokens) + " rows",
        file.path().string(), "give both, or neither");
  for (size_t t = 0; !has_sequences && t < keys.size(); ++t)
    keys[t] = {group, static_cast<int64_t>(t)};
  return keys;
}

void Outputs::write(const Model& model, const std::filesystem::path& path) const {
  weights::SafetensorsWriter writer;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const int64_t id = model.layer(i).layer_id;
    const int64_t tokens = layer.routing.tokens;
    writer.add(layer_name(id, "output"), model.dtype(), {tokens, model.spec().hidden_size},
               layer.output.data());
    writer.add(layer_name(id, "topk_ids"), MOERT_DTYPE_I32, {tokens, layer.routing.top_k},
               layer.routing.ids.data());
    writer.add(layer_name(id, "topk_weights"), MOERT_DTYPE_F32, {tokens, layer.routing.top_k},
               layer.routing.weights.data());
  }
  writer.set_metadata("model", model.spec().name);
  writer.set_metadata("family", model.spec().family);
  if (!model.simulated().empty()) writer.set_metadata("simulated", model.simulated());
  writer.write(path);
}

}  // namespace moert::runtime
