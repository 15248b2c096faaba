// SPDX-License-Identifier: Apache-2.0
#include "runtime/quantize_config.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <moert/error.hpp>

#include "weights/companions.hpp"

namespace moert::runtime {

namespace {

bool is_float(uint32_t dtype) { return dtype >= MOERT_DTYPE_F64 && dtype <= MOERT_DTYPE_BF16; }
bool is_float_word(const std::string& scheme) {
  return scheme == "f64" || scheme == "f32" || scheme == "f16" || scheme == "bf16";
}

// "x" of "x.weight"; a tensor of another name is a module of its own.
std::string module_name(const std::string& tensor) {
  return tensor.ends_with(".weight") ? tensor.substr(0, tensor.size() - 7) : tensor;
}

class Description {
 public:
  Description(const QuantizeSource& source, const std::vector<KeptWeight>& kept,
              const std::string& method, QuantizePlan* plan)
      : source_(source), kept_(kept), method_(method), plan_(*plan) {}

  void run() {
    for (const NewWeight& weight : plan_.weights)
      if (!weight.target->is_plain()) add_quantised(weight.to.name);
    for (const KeptWeight& weight : kept_)
      if (!is_float_word(weight.format->scheme.name))
        add_quantised(weights::plain_name(weight.source->tensor->name));
    refuse_unread();
    note_mixtures();
    plan_.quantization.method = method_;
    if (!plan_.is_copy && method_.empty())
      keep_own();
    else if (!plan_.is_copy)
      announce();
  }

 private:
  void add_quantised(const std::string& name) {
    quantised_.insert(name);
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      above_.insert(name.substr(0, dot));
  }

  void refuse_unread() const {
    if (source_.outside.unread.empty()) return;
    const weights::Finding& finding = source_.outside.unread.front();
    throw Error(
        Fault::refused,
        "a weight outside the experts is quantised in a format that is not known here: it " +
            finding.detail,
        source_.checkpoint.path().string() + ": tensor " + finding.name,
        "this checkpoint cannot be converted");
  }

  // Whoever fuses the experts of a layer when loading can't do it where they differ.
  void note_mixtures() {
    std::map<std::pair<size_t, uint32_t>, std::set<const TargetScheme*>> formats;
    const auto add = [&](size_t layer, const weights::Source& source, const TargetScheme* target) {
      if (source.target == spec::Target::expert) formats[{layer, source.part}].insert(target);
    };
    for (const NewWeight& weight : plan_.weights)
      for (const weights::Source* piece : weight.pieces) add(weight.layer, *piece, weight.target);
    for (const KeptWeight& weight : kept_) add(weight.layer, *weight.source, nullptr);
    std::set<size_t> mixed;
    for (const auto& [key, targets] : formats)
      if (targets.size() > 1) mixed.insert(key.first);
    if (!mixed.empty())
      plan_.notes.push_back("experts of one layer differ in format, in " +
                            std::to_string(mixed.size()) +
                            (mixed.size() == 1 ? " layer" : " layers") +
                            "; MoERT reads that, programs that fuse experts when they load "
                            "(transformers) do not");
  }

  // Some weights stay quantised as they were: the config says it already.
  void keep_own() {
    if (quantised_.empty()) return;
    plan_.keeps_own = true;
    for (const NewWeight& weight : plan_.weights)
      plan_.newly_excluded.push_back(module_name(weight.to.name));
  }

  void announce() {
    spec::Quantization& to = plan_.quantization;
    std::unordered_map<const TargetScheme*, size_t> groups;
    for (const NewWeight& weight : plan_.weights) {
      if (weight.target->is_plain()) continue;
      const auto [at, is_new] = groups.emplace(weight.target, to.groups.size());
      if (is_new) to.groups.push_back({{}, weight.target->format});
      to.groups[at->second].targets.push_back(module_name(weight.to.name));
    }
    for (const KeptWeight& weight : kept_) announce_kept(weight, groups);
    if (to.groups.size() == 1) to.groups.front().targets.clear();
    to.excluded = plain_modules();
  }

  void announce_kept(const KeptWeight& kept,
                     const std::unordered_map<const TargetScheme*, size_t>& groups) {
    if (is_float_word(kept.format->scheme.name)) return;
    for (const auto& [scheme, group] : groups)
      if (is_of_scheme(kept.format->scheme, *scheme)) {
        plan_.quantization.groups[group].targets.push_back(
            module_name(weights::plain_name(kept.source->tensor->name)));
        return;
      }
    throw Error(Fault::usage,
                "an excluded weight is " + kept.format->scheme.name +
                    ", which one config cannot announce beside the new scheme",
                source_.checkpoint.place(*kept.source->tensor),
                "exclude it no longer, or decode the checkpoint first (--scheme bf16)");
  }

  bool is_companion(const std::string& name) const {
    return weights::for_each_base(name, [&](const weights::BaseName& base) {
      return base.param != 0 && quantised_.contains(base.name);
    });
  }

  // Every module with a matrix of floats, lest readers look for scales there.
  std::vector<std::string> plain_modules() const {
    std::vector<std::string> modules;
    std::unordered_set<std::string> seen;
    for (const weights::TensorInfo& info : plan_.tensors) {
      if (!is_float(info.dtype) || info.shape.size() < 2 || info.name.ends_with("bias") ||
          is_companion(info.name))
        continue;
      std::string module = module_name(info.name);
      if (module == info.name) {
        const std::string holder(weights::module_of(info.name));
        if (holder.find('.') != std::string::npos && !above_.contains(holder)) module = holder;
      }
      if (seen.insert(module).second) modules.push_back(std::move(module));
    }
    return modules;
  }

  const QuantizeSource& source_;
  const std::vector<KeptWeight>& kept_;
  const std::string& method_;
  QuantizePlan& plan_;
  std::unordered_set<std::string> quantised_, above_;  // weights, and the modules above them
};

}  // namespace

std::string quantize_method(const QuantizeSource& source,
                            const std::vector<const TargetScheme*>& schemes, bool has_blocks) {
  if (schemes.empty()) return {};
  const spec::WeightFormat& first = schemes.front()->format;
  if (schemes.size() == 1 && first.kind == "fp8" && first.blocks.starts_with("block")) return "fp8";
  const bool stacked = std::any_of(
      source.plan.layers.begin(), source.plan.layers.end(), [](const weights::LayerPlan& layer) {
        return std::any_of(layer.sources.begin(), layer.sources.end(),
                           [](const weights::Source& each) { return each.rule->stacked; });
      });
  if (schemes.size() == 1 && first.kind == "mxfp4" && has_blocks && stacked) return "mxfp4";
  return "compressed-tensors";
}

void describe_quantization(const QuantizeSource& source, const std::vector<KeptWeight>& kept,
                           const std::string& method, QuantizePlan* plan) {
  Description(source, kept, method, plan).run();
}

}  // namespace moert::runtime
