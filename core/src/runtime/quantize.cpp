// SPDX-License-Identifier: Apache-2.0
#include "runtime/quantize.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <moert/abi/quant_method.h>
#include <moert/error.hpp>

#include "config/quantization_write.hpp"
#include "runtime/model.hpp"
#include "runtime/quantize_compare.hpp"
#include "util/file.hpp"
#include "util/folder.hpp"
#include "weights/companions.hpp"
#include "weights/shard_writer.hpp"

namespace moert::runtime {
namespace fs = std::filesystem;

namespace {

// Writes the tensors of a plan.
class Writing {
 public:
  Writing(const QuantizeSource& source, const QuantizePlan& plan, WeightCodec& codec,
          weights::ShardWriter& writer, const QuantizeProgress& progress,
          const std::function<void()>& poll)
      : source_(source),
        plan_(plan),
        codec_(codec),
        writer_(writer),
        progress_(progress),
        poll_(poll) {
    outside_.layer_id = -1;
    for (const spec::MoELayer& layer : source.model.layers) {
      layers_.emplace_back();
      layers_.back().layer_id = layer.layer_id;
    }
    for (const NewWeight& weight : plan.weights)
      for (const weights::Source* piece : weight.pieces) ++uses_[piece->tensor];
  }

  void run() {
    uint64_t done = 0;
    for (const WriteStep& step : plan_.steps) {
      if (step.copy != nullptr)
        copy(*step.copy, step.first);
      else
        convert(plan_.weights[step.weight]);
      progress_(++done, plan_.steps.size(), bytes_);
    }
    writer_.finish(poll_);
  }

  // Those outside the MoE layers come last.
  std::vector<QuantizedLayer> take_layers() {
    if (outside_.weights + outside_.unchanged != 0) layers_.push_back(outside_);
    return std::move(layers_);
  }

 private:
  QuantizedLayer& report_of(const NewWeight& weight) {
    return weight.layer == kNoLayer ? outside_ : layers_[weight.layer];
  }

  void put(size_t tensor, uint64_t offset, const void* data, uint64_t bytes) {
    writer_.write(tensor, offset, data, bytes, poll_);
    bytes_ += bytes;
  }

  void copy(const weights::TensorInfo& from, size_t to) {
    put(to, 0, source_.checkpoint.data(from), from.bytes);
    source_.checkpoint.release(from);
  }

  void convert(const NewWeight& weight) {
    QuantizedLayer& report = report_of(weight);
    for (const weights::Source* piece : weight.pieces) count_before(*piece, report);
    for (const StoredTensor& tensor : weight.tensors) report.bytes_after += tensor.info.bytes;
    (weight.unchanged ? report.unchanged : report.weights) += weight.pieces.size();
    if (weight.unchanged) {
      for (size_t i = 0; i < weight.tensors.size(); ++i)
        copy(*source_.checkpoint.find(weight.tensors[i].info.name), weight.first + i);
      return;
    }
    for (int64_t expert = 0; expert < weight.to.experts; ++expert)
      convert_expert(weight, expert, report);
    for (const weights::Source* piece : weight.pieces)
      if (--uses_[piece->tensor] == 0) release(*piece);
  }

  void count_before(const weights::Source& piece, QuantizedLayer& report) {
    if (counted_.insert(piece.tensor).second) report.bytes_before += piece.tensor->bytes;
    for (const weights::Companion& companion : piece.companions)
      if (counted_.insert(companion.tensor).second) report.bytes_before += companion.tensor->bytes;
  }

  void release(const weights::Source& piece) const {
    source_.checkpoint.release(*piece.tensor);
    for (const weights::Companion& companion : piece.companions)
      source_.checkpoint.release(*companion.tensor);
  }

  void convert_expert(const NewWeight& weight, int64_t expert, QuantizedLayer& report) {
    poll_();
    const Placement& to = weight.to;
    const std::string place = source_.checkpoint.place(
        *weight.pieces[static_cast<size_t>(expert) * to.rule->parts.size()]->tensor);
    read(weight, expert, place);
    WeightCodec::Bytes bytes =
        codec_.encode(*weight.target, elements_, to.rows, to.cols, to.rule->transposed, place);
    codec_.decode_again(*weight.target, bytes, to.rows, to.cols, to.rule->transposed, again_,
                        place);
    measure(report.errors);
    for (size_t i = 0; i < bytes.size(); ++i)
      put(weight.first + i, static_cast<uint64_t>(expert) * bytes[i].size(), bytes[i].data(),
          bytes[i].size());
    if (weight.target->storage == TargetScheme::words) {
      const int64_t shape[2] = {to.rows, to.cols};
      put(weight.first + bytes.size(), 0, shape, sizeof shape);
    }
  }

  // One expert's matrix as f32, its halves as the new layout has them.
  void read(const NewWeight& weight, int64_t expert, const std::string& place) {
    const Placement& to = weight.to;
    const size_t halves = to.rule->parts.size();
    const int64_t out = to.rows / static_cast<int64_t>(halves);
    elements_.resize(static_cast<size_t>(to.rows * to.cols));
    for (size_t half = 0; half < halves; ++half) {
      const weights::Source& piece = *weight.pieces[static_cast<size_t>(expert) * halves + half];
      const int64_t step = to.rule->interleaved ? static_cast<int64_t>(halves) : 1;
      const int64_t first = static_cast<int64_t>(half) * (to.rule->interleaved ? 1 : out);
      codec_.decode(source_.checkpoint, piece, source_.format_of(piece, weight.is_outside), out,
                    elements_.data() + first * to.cols, step * to.cols);
    }
    const auto bad = std::find_if(elements_.begin(), elements_.end(),
                                  [](float value) { return !std::isfinite(value); });
    if (bad == elements_.end()) return;
    const int64_t at = bad - elements_.begin();
    throw Error(Fault::input,
                "the weight of expert " +
                    std::to_string(weight.pieces[static_cast<size_t>(expert) * halves]->expert) +
                    " holds " + std::to_string(*bad) + " at [" + std::to_string(at / to.cols) +
                    ", " + std::to_string(at % to.cols) + "]",
                place, "the file is damaged; fetch it again, or --exclude the weight");
  }

  void measure(WeightErrors& errors) const {
    errors.elements += elements_.size();
    for (size_t i = 0; i < elements_.size(); ++i) {
      const double weight = elements_[i], error = std::fabs(double{again_[i]} - weight);
      errors.largest = std::max(errors.largest, error);
      errors.squared += error * error;
      errors.squared_weights += weight * weight;
    }
  }

  const QuantizeSource& source_;
  const QuantizePlan& plan_;
  WeightCodec& codec_;
  weights::ShardWriter& writer_;
  const QuantizeProgress& progress_;
  const std::function<void()>& poll_;
  std::vector<QuantizedLayer> layers_;
  QuantizedLayer outside_;
  std::vector<float> elements_, again_;  // of one expert
  std::unordered_map<const weights::TensorInfo*, uint64_t> uses_;
  std::unordered_set<const weights::TensorInfo*> counted_;
  uint64_t bytes_ = 0;
};

bool is_config(const std::string& name) { return name == "config.json" || name == "params.json"; }

bool is_of_weights(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

// Tokenizer, templates, the model's own card; folders and what begins with '.' stay behind.
// ModelOpt's file beside the config announces weights that are no longer there.
void copy_other_files(const QuantizePlan& plan, const fs::path& from, const fs::path& to,
                      const std::function<void()>& poll) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(error) || name.starts_with(".") || is_config(name) ||
        is_of_weights(name) || (name == "hf_quant_config.json" && !plan.is_copy))
      continue;
    poll();
    if (!fs::copy_file(entry.path(), to / name, error))
      throw Error(Fault::device, "cannot copy the file: " + error.message(), entry.path().string(),
                  "free some space, or make the file readable");
  }
}

// The file that the model was read from; the other one says nothing of formats, and stays.
std::map<std::string, std::string> config_texts(const QuantizePlan& plan, const spec::Model& model,
                                                const fs::path& from) {
  std::map<std::string, std::string> texts;
  const auto origin = model.origin.find("num_layers");
  const bool vendors = origin != model.origin.end() && origin->second.starts_with("params.json");
  for (const char* name : {"config.json", "params.json"}) {
    if (!fs::exists(from / name)) continue;
    const bool is_read = (std::string_view(name) == "params.json") == vendors;
    if (plan.is_copy || !is_read) continue;
    texts[name] = plan.keeps_own ? config::write_exclusions(from / name, plan.newly_excluded)
                                 : config::write_quantization(from / name, plan.quantization);
  }
  return texts;
}

void write_configs(const std::map<std::string, std::string>& texts, const fs::path& from,
                   const fs::path& to) {
  for (const char* name : {"config.json", "params.json"}) {
    if (!fs::exists(from / name)) continue;
    if (const auto text = texts.find(name); text != texts.end())
      write_text_file(to / name, text->second);
    else
      fs::copy_file(from / name, to / name);
  }
}

// Neither the source itself nor anything inside it, nor around it.
void require_apart(const fs::path& source, const fs::path& destination) {
  std::error_code error;
  const fs::path from = fs::weakly_canonical(fs::absolute(source), error);
  const fs::path to = fs::weakly_canonical(fs::absolute(destination), error);
  const auto lies_in = [](const fs::path& inner, const fs::path& outer) {
    const auto end = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first;
    return end == outer.end();
  };
  const auto refuse = [&](const char* problem) {
    throw Error(Fault::usage, problem, destination.string(),
                "choose another folder for the output");
  };
  if (from == to) refuse("source and destination are the same folder");
  if (lies_in(to, from)) refuse("the destination lies inside the source");
}

spec::Model resolve(const config::Families& families, const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(Fault::usage, "there is no such folder", folder.string(),
                "give a checkpoint folder with config.json and safetensors files");
  spec::Model model = families.resolve(folder);
  if (model.layers.empty())
    throw Error(Fault::usage, "the model has no MoE layers", folder.string(),
                "give a Mixture-of-Experts checkpoint; see `moert model inspect`");
  if (model.family.empty()) require_supported(model);
  return model;
}

void add_up(QuantizeReport& report) {
  for (const QuantizedLayer& layer : report.layers) {
    report.total.weights += layer.weights;
    report.total.unchanged += layer.unchanged;
    report.total.bytes_before += layer.bytes_before;
    report.total.bytes_after += layer.bytes_after;
    report.total.errors.add(layer.errors);
  }
}

}  // namespace

void WeightErrors::add(const WeightErrors& other) {
  elements += other.elements;
  largest = std::max(largest, other.largest);
  squared += other.squared;
  squared_weights += other.squared_weights;
}

double WeightErrors::rms() const {
  return elements == 0 ? 0 : std::sqrt(squared / static_cast<double>(elements));
}

double WeightErrors::relative() const {
  return squared_weights == 0 ? 0 : std::sqrt(squared / squared_weights);
}

QuantizeReport quantize(Session& session, const config::Families& families, const QuantizeJob& job,
                        const QuantizeProgress& progress, const std::function<void()>& poll) {
  const auto start = std::chrono::steady_clock::now();
  target_scheme(job.wishes.scheme, "--scheme");
  require_apart(job.source, job.destination);
  spec::Model model = resolve(families, job.source);
  spec::Tensors rules = families.tensors(model);
  const QuantizeSource source(std::move(model), std::move(rules));
  WeightCodec codec(session, job.prefer);
  const QuantizePlan plan = plan_quantize(source, job.wishes, codec);
  const auto configs = config_texts(plan, source.model, job.source);
  AtomicFolder folder(job.destination);
  const LayerOutputs before(session, families, job, job.source, folder.path(), poll);
  weights::ShardWriter writer(folder.path(), plan.tensors, job.shard_bytes);
  folder.require_room(writer.bytes());
  Writing writing(source, plan, codec, writer, progress, poll);
  writing.run();
  copy_other_files(plan, job.source, folder.path(), poll);
  write_configs(configs, job.source, folder.path());
  QuantizeReport report;
  report.layers = writing.take_layers();
  {
    const LayerOutputs after(session, families, job, folder.path(), folder.path(), poll);
    compare(before, after, report.layers);
  }
  poll();
  before.remove();
  folder.commit();
  report.family = source.model.family;
  report.scheme = job.wishes.scheme;
  report.method = plan.quantization.method;
  report.destination = job.destination;
  report.excluded = plan.excluded;
  report.notes = plan.notes;
  report.files = writer.files();
  report.bytes = writer.bytes();
  for (const WriteStep& step : plan.steps) report.copied += step.copy != nullptr ? 1 : 0;
  add_up(report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace moert::runtime
