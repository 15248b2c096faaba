// SPDX-License-Identifier: Apache-2.0
#include "runtime/run.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include <moert/sdk/dtypes.hpp>

#include "runtime/call.hpp"
#include "runtime/capture_set.hpp"
#include "util/nearest.hpp"
#include "weights/safetensors.hpp"

namespace moert::runtime {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

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

// What goes into each layer.
struct Inputs {
  explicit Inputs(const spec::Run& run, const spec::Model& model);
  std::vector<int64_t> read_token_ids(const spec::MoELayer& layer, int64_t tokens) const;
  weights::Checkpoint file;
  std::vector<const weights::TensorInfo*> hidden;  // per MoE layer
  std::vector<std::vector<int64_t>> token_ids;     // per MoE layer; empty where it needs none
  int64_t max_tokens = 0;
  uint32_t dtype = 0;
};

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
}

// The rows' token numbers: the layer's own, else those of the whole model.
std::vector<int64_t> Inputs::read_token_ids(const spec::MoELayer& layer, int64_t tokens) const {
  std::string name = layer_name(layer.layer_id, "input_ids");
  if (file.find(name) == nullptr) name = "input_ids";
  const weights::TensorInfo& info = need(file, name, {tokens});
  const std::vector<int32_t> ids = read_ids(file, info, "token");
  return {ids.begin(), ids.end()};
}

// Results that will be written; the writer borrows, so they live until then.
struct Outputs {
  struct Layer {
    std::vector<std::byte> output;
    Routing routing;
  };
  std::vector<Layer> layers;

  void write(const Model& model, const std::filesystem::path& path) const {
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
};

void describe(const Model& model, size_t index, LayerReport& report) {
  const LayerChoice& choice = model.choices()[index];
  report.layer_id = choice.layer_id;
  for (const KindChoice& kind : choice.kinds)
    report.candidates.emplace_back(kind.word, kind.decision.chosen->name);
  report.scheme = model.plan().layers[index].scheme;
  report.layout = model.plan().layers[index].layout;
}

class Execution {
 public:
  Execution(const spec::Run& run, const Model& model, const Inputs& inputs, CaptureSet& captures,
            const std::function<void()>& poll)
      : run_(run),
        poll_(poll),
        model_(model),
        inputs_(inputs),
        captures_(captures),
        context_(model, inputs.max_tokens),
        reports_(model.num_layers()) {
    outputs_.layers.resize(model.num_layers());
    if (run.expect) golden_.emplace(run.expect->file);
  }

  // Layers with equally many rows form a step, so that a capturer's rows mean the same token in each.
  void run_all() {
    std::set<int64_t, std::greater<>> lengths;
    for (const weights::TensorInfo* info : inputs_.hidden) lengths.insert(info->shape[0]);
    int64_t sequence = 0;
    for (const int64_t tokens : lengths) {
      captures_.begin(sequence++, tokens);
      for (size_t i = 0; i < model_.num_layers(); ++i)
        if (inputs_.hidden[i]->shape[0] == tokens) run_layer(i);
      captures_.end();
    }
  }
  std::vector<LayerReport> take_reports() { return std::move(reports_); }
  const Outputs& outputs() const { return outputs_; }

 private:
  void run_layer(size_t index) {
    LayerReport& report = reports_[index];
    describe(model_, index, report);
    const weights::TensorInfo& info = *inputs_.hidden[index];
    report.tokens = info.shape[0];
    context_.set_hidden(inputs_.file.view(info).get()->data, report.tokens);
    set_token_ids(index);
    for (int64_t i = 0; i < run_.repeat; ++i) {
      poll_();
      context_.synchronize();
      const Clock::time_point start = Clock::now();
      context_.forward(index);
      context_.synchronize();
      report.all_seconds.push_back(seconds_since(start));
    }
    report.seconds = median(report.all_seconds);
    captures_.record(index, context_);
    Outputs::Layer& layer = outputs_.layers[index];
    layer.output.resize(static_cast<size_t>(report.tokens) *
                        dtype_bytes(model_.dtype(), model_.spec().hidden_size));
    context_.read_output(layer.output.data());
    context_.read_routing(index, layer.routing, false);
    report.expert_tokens =
        capture::count_load(layer.routing.ids, model_.layer(index).routing.rows());
    report.load = capture::summarize_load(report.expert_tokens);
    if (golden_) compare(index, report, layer);
  }

  // What the file has wrong is the file's fault, not the caller's.
  void set_token_ids(size_t index) {
    const std::vector<int64_t>& ids = inputs_.token_ids[index];
    try {
      context_.set_token_ids(ids.empty() ? nullptr : ids.data());
    } catch (const Error& error) {
      throw Error(Fault::input, error.problem(), inputs_.file.path().string(), error.remedy());
    }
  }

  void compare(size_t index, LayerReport& report, const Outputs::Layer& layer) const {
    const int64_t id = report.layer_id, tokens = report.tokens, hidden = model_.spec().hidden_size;
    const int64_t k = model_.layer(index).routing.top_k;
    Golden golden;
    golden.ids =
        read_ids(*golden_, need(*golden_, layer_name(id, "topk_ids"), {tokens, k}), "expert");
    golden.weights =
        read_floats(*golden_, need(*golden_, layer_name(id, "topk_weights"), {tokens, k}));
    golden.output =
        read_floats(*golden_, need(*golden_, layer_name(id, "output"), {tokens, hidden}));
    std::vector<float> output(golden.output.size());
    const TensorView got(layer.output.data(), model_.dtype(), {tokens, hidden});
    for (size_t i = 0; i < output.size(); ++i)
      output[i] = read_f32(*got.get(), static_cast<int64_t>(i));
    report.comparison = compare_layer(
        layer.routing, output, hidden, golden,
        run_.expect->output_tolerance.value_or(derived_output_tolerance(model_.dtype(), k)),
        run_.expect->weight_tolerance.value_or(derived_weight_tolerance(model_.dtype())));
  }

  const spec::Run& run_;
  const std::function<void()>& poll_;
  const Model& model_;
  const Inputs& inputs_;
  CaptureSet& captures_;
  ForwardContext context_;
  std::optional<weights::Checkpoint> golden_;
  std::vector<LayerReport> reports_;
  Outputs outputs_;
};

}  // namespace

spec::Model resolve_model(const config::Families& families, const spec::Run& run) {
  return run.description.empty() ? families.resolve(run.checkpoint)
                                 : config::read_model(run.description);
}

ModelSettings settings_of(const spec::Run& run, int64_t max_tokens, uint32_t dtype) {
  ModelSettings settings;
  settings.device = run.device;
  settings.choice.prefer = run.prefer;
  settings.choice.layers = run.layers;
  settings.choice.fallback_next = run.fallback == "next";
  const auto quant = run.layers.find("quant");
  if (quant != run.layers.end()) settings.quant = quant->second;
  settings.simulate = run.simulate;
  settings.seed = run.seed;
  settings.max_tokens = max_tokens;
  settings.dtype = dtype;
  return settings;
}

RunReport run(Session& session, const config::Families& families, const spec::Run& run,
              const Progress& progress, const std::function<void()>& poll) {
  spec::Model spec = resolve_model(families, run);
  RunReport report;
  report.name = run.name;
  report.family = spec.family;
  report.checkpoint = spec.checkpoint;
  report.dense_layers = spec.dense_layers;
  if (spec.layers.empty())
    throw Error(Fault::usage, "the model has no MoE layers", spec.checkpoint.string(),
                "give a Mixture-of-Experts checkpoint; see `moert model inspect`");
  require_supported(spec);
  const Inputs inputs(run, spec);
  spec::Tensors rules = families.tensors(spec);
  Model model(session, std::move(spec), std::move(rules),
              settings_of(run, inputs.max_tokens, inputs.dtype));
  report.device = model.device().text();
  report.simulated = model.simulated();
  report.packed_tensors = model.plan().used;
  report.ignored_tensors = model.plan().ignored;
  CaptureSet captures(session, model, run.capture, inputs.max_tokens);
  const Clock::time_point start = Clock::now();
  model.load(progress);
  report.load_seconds = seconds_since(start);

  Execution execution(run, model, inputs, captures, poll);
  execution.run_all();
  report.layers = execution.take_reports();
  report.checked = run.expect.has_value();
  for (const LayerReport& layer : report.layers)
    if (layer.comparison && !layer.comparison->passed) report.passed = false;
  for (const AttachedCapturer& capturer : captures.attached()) {
    if (capturer.wanted.path.empty()) continue;
    poll();
    captures.write(capturer, capturer.wanted.path);
    report.captures.push_back(capturer.wanted.path);
  }
  if (!run.output.empty()) {
    poll();
    execution.outputs().write(model, run.output);
    report.output = run.output;
  }
  return report;
}

}  // namespace moert::runtime
