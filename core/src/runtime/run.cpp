// SPDX-License-Identifier: Apache-2.0
#include "runtime/run.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>

#include <moert/error.hpp>
#include <moert/sdk/dtypes.hpp>

#include "runtime/capture_set.hpp"
#include "runtime/run_files.hpp"
#include "runtime/step.hpp"

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

void describe(const spec::Run& run, const Model& model, size_t index, LayerReport& report) {
  const LayerChoice& choice = model.choices()[index];
  report.layer_id = choice.layer_id;
  for (const KindChoice& kind : choice.kinds) {
    report.candidates.emplace_back(kind.word, kind.decision.chosen->name);
    const auto options = run.options.find(kind.word);
    if (options != run.options.end() && !options->second.empty()) report.options.insert(*options);
  }
  report.scheme = model.plan().layers[index].scheme;
  report.layout = model.plan().layers[index].layout;
}

// The capture file that a run is given: to be followed, or to be compared with.
struct Routes {
  Routes(const spec::Run& run, const Model& model)
      : layers(captured_layers(model.spec())), verify(run.verify) {
    if (run.replay.empty()) return;
    require_open_routing(model, run.verify ? "verified" : "replayed");
    file.emplace(run.replay, layers);
    if (verify) counter.emplace(layers);
  }
  std::vector<capture::CapturedLayer> layers;
  bool verify;
  std::optional<capture::Replay> file;
  std::optional<capture::DifferenceCounter> counter;
};

class Execution {
 public:
  Execution(const spec::Run& run, const Model& model, const Inputs& inputs, CaptureSet& captures,
            Routes& routes, const std::function<void()>& poll)
      : run_(run),
        poll_(poll),
        model_(model),
        inputs_(inputs),
        context_(model, inputs.max_tokens),
        step_(model, context_, captures),
        reports_(model.num_layers()) {
    outputs_.layers.resize(model.num_layers());
    if (run.expect) golden_.emplace(run.expect->file);
    if (routes.verify)
      step_.set_verify(&*routes.file, &*routes.counter);
    else if (routes.file)
      step_.set_replay(&*routes.file);
  }

  void run_all() {
    for (const RowGroup& group : inputs_.groups) {
      begin(group);
      for (const size_t layer : group.layers) run_layer(layer);
      step_.end();
    }
  }
  std::vector<LayerReport> take_reports() { return std::move(reports_); }
  const Outputs& outputs() const { return outputs_; }

 private:
  // Tokens that make no sense are the file's fault, not the caller's.
  void begin(const RowGroup& group) {
    const StepRows rows = {static_cast<int64_t>(group.keys.size()), group.keys.data(), nullptr,
                           true};
    try {
      step_.begin(rows);
    } catch (const Error& error) {
      if (error.fault() != Fault::usage) throw;
      throw Error(Fault::input, error.problem() + ": " + error.place(),
                  inputs_.file.path().string() + ": sequences and positions",
                  "give each row a sequence and position of its own, positions from 0 on");
    }
  }
  void run_layer(size_t index) {
    LayerReport& report = reports_[index];
    describe(run_, model_, index, report);
    const weights::TensorInfo& info = *inputs_.hidden[index];
    report.tokens = info.shape[0];
    context_.set_hidden(inputs_.file.view(info).get()->data, report.tokens);
    set_token_ids(index);
    const int32_t* forced = step_.enter(index);
    for (int64_t i = 0; i < run_.repeat; ++i) {
      poll_();
      context_.synchronize();
      const Clock::time_point start = Clock::now();
      context_.forward(index, forced);
      context_.synchronize();
      report.all_seconds.push_back(seconds_since(start));
    }
    report.seconds = median(report.all_seconds);
    step_.leave(index);
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
  ForwardContext context_;
  Step step_;
  std::optional<weights::Checkpoint> golden_;
  std::vector<LayerReport> reports_;
  Outputs outputs_;
};

}  // namespace

spec::Model resolve_model(const config::Families& families, const spec::Run& run) {
  return run.description.empty() ? families.resolve(run.checkpoint)
                                 : config::read_model(run.description);
}

namespace {

// The keys of options and where each stands: create says what is wrong, not which of them.
std::string place_of_options(const spec::Run& run, const std::string& path,
                             const std::map<std::string, std::string>& values) {
  std::string place;
  for (const auto& [key, value] : values) {
    place.append(place.empty() ? path + ": " : ", ").append(key);
    const auto origin = run.origin.find(std::string(path).append(".").append(key));
    if (origin != run.origin.end()) place.append(" (").append(origin->second).append(")");
  }
  return place.empty() ? path : place;
}

PartOptions part_options(const spec::Run& run, const std::string& word) {
  const auto& values = run.options.at(word);
  return {values, place_of_options(run, "options." + word, values)};
}

}  // namespace

ModelSettings settings_of(const spec::Run& run, int64_t max_tokens, uint32_t dtype) {
  ModelSettings settings;
  settings.device = run.device;
  settings.choice.prefer = run.prefer;
  settings.choice.layers = run.layers;
  settings.choice.fallback_next = run.fallback == "next";
  for (const auto& [word, values] : run.options)
    if (!values.empty()) settings.choice.options[word] = part_options(run, word);
  const auto quant = run.layers.find("quant");
  if (quant != run.layers.end()) settings.quant = quant->second;
  settings.simulate = run.simulate;
  settings.seed = run.seed;
  settings.max_tokens = max_tokens;
  settings.dtype = dtype;
  return settings;
}

namespace {

// The nearest folder above `path` that is there.
std::filesystem::path folder_above(const std::filesystem::path& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code ignored;
  while (!std::filesystem::is_directory(folder, ignored) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder;
}

// The run's name as a capturer takes one.
std::string segment_name(std::string name) {
  constexpr size_t kLongest = 64;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  return name.substr(0, kLongest);
}

// What a capturer needs to know of the run and its options do not say: where its file will be, so that what
// it keeps meanwhile is on the same disk; under which name others find its segment.
spec::Capture with_places(const spec::Capture& asked, const spec::Run& run) {
  spec::Capture wanted = asked;
  if (wanted.to.starts_with("capture.")) wanted.to.erase(0, sizeof "capture." - 1);
  if (wanted.to == "file" && !wanted.path.empty())
    wanted.options.try_emplace("folder", folder_above(wanted.path).string());
  if (wanted.to == "shared_memory" && !run.name.empty())
    wanted.options.try_emplace("name", segment_name(run.name));
  return wanted;
}

void attach_captures(const spec::Run& run, CaptureSet& captures) {
  for (size_t i = 0; i < run.capture.size(); ++i) {
    const std::string path = "capture[" + std::to_string(i) + "].options";
    captures.attach(with_places(run.capture[i], run),
                    place_of_options(run, path, run.capture[i].options));
  }
}

std::optional<bool> same_digest(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  return a == b;
}

void report_routes(const spec::Run& run, const Model& model, Routes& routes, RunReport& report) {
  if (!routes.file) return;
  RouteReport made;
  made.path = run.replay;
  made.verify = routes.verify;
  const capture::CaptureInfo info = capture_info(model);
  const capture::CaptureInfo& of_file = routes.file->file().info();
  made.same_model = same_digest(info.model_digest, of_file.model_digest);
  made.same_router = same_digest(info.router_digest, of_file.router_digest);
  made.simulated = of_file.simulated;
  for (size_t i = 0; i < routes.layers.size(); ++i) {
    made.replayed += routes.file->counts(i).replayed;
    made.native += routes.file->counts(i).native;
  }
  if (routes.verify) {
    made.difference = routes.counter->take();
    report.passed = report.passed && made.difference->proven();
  }
  report.routes = std::move(made);
}

void write_captures(const CaptureSet& captures, RunReport& report,
                    const std::function<void()>& poll) {
  for (const AttachedCapturer& capturer : captures.attached()) {
    poll();
    captures.flush(capturer);
    CaptureReport made;
    if (!capturer.wanted.path.empty())
      made.absent_decisions = captures.write(capturer, capturer.wanted.path, poll);
    const moert_capture_counts_t counts = captures.counts(capturer);
    made.capturer = capturer.part.name();
    made.path = capturer.wanted.path;
    made.rows = counts.rows;
    made.absent = counts.absent;
    made.lost = counts.lost;
    const auto name = capturer.wanted.options.find("name");
    if (capturer.wanted.to == "shared_memory" && name != capturer.wanted.options.end())
      made.segment = name->second;
    report.captures.push_back(std::move(made));
  }
}

}  // namespace

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
  CaptureSet captures(session, model, inputs.max_tokens);
  attach_captures(run, captures);
  Routes routes(run, model);
  const Clock::time_point start = Clock::now();
  model.load(progress);
  report.load_seconds = seconds_since(start);

  Execution execution(run, model, inputs, captures, routes, poll);
  execution.run_all();
  report.layers = execution.take_reports();
  report.checked = run.expect.has_value();
  for (const LayerReport& layer : report.layers)
    if (layer.comparison && !layer.comparison->passed) report.passed = false;
  report_routes(run, model, routes, report);
  write_captures(captures, report, poll);
  if (!run.output.empty()) {
    poll();
    execution.outputs().write(model, run.output);
    report.output = run.output;
  }
  return report;
}

}  // namespace moert::runtime
