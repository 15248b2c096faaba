// The accounting: which tensor goes where. See matching.cpp for which rule takes a tensor, missing.cpp for which
// part lacks one.
// SPDX-License-Identifier: Apache-2.0
#include "weights/plan.hpp"

#include <algorithm>

#include <moert/abi/moe_runner.h>
#include <moert/abi/quant_method.h>
#include <moert/abi/router.h>
#include <moert/error.hpp>

#include "weights/accounting.hpp"
#include "weights/layout.hpp"
#include "weights/text.hpp"

namespace moert::weights {

using spec::Target;

namespace {

constexpr int64_t kMaxSlots = int64_t{1} << 23;  // of all layers; ten times the largest model known
constexpr int64_t kMaxSize = int64_t{1} << 31;

void check_model(const spec::Model& model, const std::string& place) {
  int64_t slots = 0, before = -1;
  const auto fail = [&place](const std::string& problem) {
    throw Error(Fault::input, problem, place, "correct the model's config");
  };
  const auto size = [&fail](const char* name, int64_t value) {
    if (value < 1 || value > kMaxSize)
      fail(std::string(name) + " is " + std::to_string(value) + ", which no checkpoint can hold");
  };
  size("hidden_size", model.hidden_size);
  for (const spec::MoELayer& layer : model.layers) {
    size("intermediate_size", layer.intermediate_size);
    size("num_experts", layer.routing.num_experts);
    if (layer.shared)
      size("intermediate_size of the shared experts", layer.shared->intermediate_size);
    if (layer.layer_id <= before) fail("the layers' numbers do not rise");
    before = layer.layer_id;
    size("zero_experts + 1", layer.routing.zero_experts + 1);
    size("latent_size + 1", layer.latent_size + 1);
    slots += (layer.routing.num_experts * kExpertParts + kSharedParts + kLayerParts) * kKinds +
             kRouterParts;
    if (slots > kMaxSlots)
      fail("the layers have more experts than any checkpoint can hold (" +
           std::to_string(layer.routing.num_experts) + " in layer " +
           std::to_string(layer.layer_id) + ")");
  }
}

}  // namespace

Accounting::Accounting(const spec::Model& model, const spec::Tensors& tensors,
                       const Checkpoint& checkpoint)
    : model_(model),
      tensors_(tensors),
      rules_(tensors),
      checkpoint_(checkpoint),
      state_(checkpoint.tensors().size(), State::open),
      hits_per_rule_(model.layers.size() * rules_.size()),
      hits_of_rule_(rules_.size()),
      ignored_(tensors.others.size()) {
  if (tensors.experts.empty() && !model.layers.empty())
    throw Error(Fault::usage, "the family has no layout of experts", "family rules",
                "add one to the family file");
  int64_t base = 0;
  for (const spec::MoELayer& layer : model.layers) {
    bases_.push_back(base);
    base += slots_of(layer);
  }
  slots_.assign(static_cast<size_t>(base), kFree);
}

int64_t Accounting::slots_of(const spec::MoELayer& layer) {
  return (layer.routing.num_experts * kExpertParts + kSharedParts + kLayerParts) * kKinds +
         kRouterParts;
}

Plan Accounting::run() {
  for (const spec::MoELayer& layer : model_.layers)
    plan_.layers.push_back({layer.layer_id, {}, {}, {}, {}, {}});
  read_announced();
  match();
  choose_layouts();
  assign();
  for (uint32_t i = 0; i < plan_.layers.size(); ++i) {
    find_formats(i);
    sort_sources(&plan_.layers[i]);
    find_missing(i);
  }
  finish();
  return std::move(plan_);
}

uint32_t& Accounting::slot(uint32_t layer_index, Target target, int64_t expert, uint32_t part,
                           uint32_t kind) {
  const int64_t experts = layer(layer_index).routing.num_experts * kExpertParts;
  int64_t at = expert * kExpertParts + part;
  if (target == Target::shared) at = experts + part;
  if (target == Target::layer) at = experts + kSharedParts + part - kFirstLayerPart;
  if (target == Target::router)
    at = (experts + kSharedParts + kLayerParts) * kKinds + part;
  else
    at = at * kKinds + kind;
  return slots_[static_cast<size_t>(bases_[layer_index] + at)];
}

void Accounting::found(Finding::Kind kind, uint32_t i, const std::string& detail) {
  state_[i] = State::found;
  found_.emplace_back(i, Finding{kind, tensor(i).name, detail, {}});
}

// The layout of which most parts are there, in shapes that fit; the first of equals. A layer without any
// experts counts as stored like most others.
void Accounting::choose_layouts() {
  const size_t n = tensors_.experts.size();
  std::vector<LayoutCount> parts(model_.layers.size() * n), total(n);
  for (const Hit& hit : hits_) {
    const CompiledRule& rule = rules_.at(hit.rule);
    if (rule.layout < 0 || hit.param != MOERT_PARAM_WEIGHT) continue;
    const int64_t covered = static_cast<int64_t>(rule.rule->parts.size()) *
                            (rule.rule->stacked ? layer(hit.layer).routing.num_experts : 1);
    const auto layout = static_cast<size_t>(rule.layout);
    const LayoutCount count{shape_fits(hit, *rule.rule) ? covered : 0, covered};
    parts[hit.layer * n + layout].add(count);
    total[layout].add(count);
  }
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    const auto first = parts.begin() + static_cast<ptrdiff_t>(i * n);
    auto best = std::max_element(first, first + static_cast<ptrdiff_t>(n));
    const auto layout = best->present > 0
                            ? best - first
                            : std::max_element(total.begin(), total.end()) - total.begin();
    layouts_.push_back(static_cast<int>(layout));
    plan_.layers[i].layout = tensors_.experts[static_cast<size_t>(layout)].name;
    if (best->fitting > 0) find_ambiguous(i, {first, first + static_cast<ptrdiff_t>(n)});
  }
}

// Two layouts with the same names and shapes that fit both: whichever is taken would be a guess.
void Accounting::find_ambiguous(size_t layer_index, const std::vector<LayoutCount>& counts) {
  const auto chosen = static_cast<size_t>(layouts_[layer_index]);
  for (size_t other = 0; other < counts.size(); ++other) {
    if (other == chosen || counts[other].fitting != counts[chosen].fitting) continue;
    for (const spec::TensorRule& a : tensors_.experts[chosen].rules) {
      for (const spec::TensorRule& b : tensors_.experts[other].rules) {
        const bool same =
            a.transposed == b.transposed && a.interleaved == b.interleaved && a.parts == b.parts;
        if (a.pattern != b.pattern || same) continue;
        plan_.findings.push_back({Finding::misshapen,
                                  expand(a, layer(static_cast<uint32_t>(layer_index)).layer_id, 0),
                                  "fits the layouts '" + tensors_.experts[chosen].name + "' and '" +
                                      tensors_.experts[other].name +
                                      "' alike, and the shapes cannot tell which it is",
                                  {}});
        return;
      }
    }
  }
}

void Accounting::assign() {
  // In the order of the rules, so that of two names for one part the family's first one is taken.
  std::sort(hits_.begin(), hits_.end(), [](const Hit& a, const Hit& b) {
    return a.rule != b.rule ? a.rule < b.rule : a.tensor < b.tensor;
  });
  const auto is_foreign = [this](const Hit& hit) {
    const int layout = rules_.at(hit.rule).layout;
    return layout >= 0 && layout != layouts_[hit.layer];
  };
  for (const Hit& hit : hits_)
    if (!is_foreign(hit) && state_[hit.tensor] == State::open) feed(hit);
  for (const Hit& hit : hits_) {
    if (state_[hit.tensor] != State::open) continue;
    found(Finding::unexpected, hit.tensor,
          "belongs to the layout '" +
              tensors_.experts[static_cast<size_t>(rules_.at(hit.rule).layout)].name +
              "', but layer " + std::to_string(layer(hit.layer).layer_id) + " is stored as '" +
              plan_.layers[hit.layer].layout + "'");
  }
}

void Accounting::feed(const Hit& hit) {
  const spec::TensorRule& rule = *rules_.at(hit.rule).rule;
  for (const uint32_t part : rule.parts) {
    const Need need = need_of(layer(hit.layer), rule.target, part, rule.role);
    if (need.kind == Need::unwanted) return found(Finding::unexpected, hit.tensor, need.reason);
  }
  if (!take_slots(hit, rule) || !fits(hit, rule)) return;
  state_[hit.tensor] = State::used;
  if (hit.spelling != Spelling::plain) spellings_[hit.tensor] = hit.spelling;
  if (hit.param != MOERT_PARAM_WEIGHT) return;  // the weight's format asks for it later
  const int64_t experts = rule.stacked ? layer(hit.layer).routing.num_experts : 1;
  for (int64_t e = 0; e < experts; ++e)
    for (const uint32_t part : rule.parts)
      plan_.layers[hit.layer].sources.push_back({&tensor(hit.tensor),
                                                 rule.target,
                                                 hit.expert + e,
                                                 experts,
                                                 part,
                                                 rule.role,
                                                 &rule,
                                                 kNoFormat,
                                                 {}});
}

bool Accounting::take_slots(const Hit& hit, const spec::TensorRule& rule) {
  const int64_t experts = rule.stacked ? layer(hit.layer).routing.num_experts : 1;
  for (int64_t e = hit.expert; e < hit.expert + experts; ++e) {
    for (const uint32_t part : rule.parts) {
      const uint32_t by = slot(hit.layer, rule.target, e, part, kind_of(rule.role, hit.param));
      if (by == kFree) continue;
      found(Finding::unexpected, hit.tensor,
            "feeds layer " + std::to_string(layer(hit.layer).layer_id) + ", " +
                part_text(rule.target, e, part, rule.role) +
                (hit.param != 0 ? ", " + std::string(param_text(hit.param)) : "") + ", as '" +
                shown(tensor(by).name) + "' does");
      return false;
    }
  }
  for (int64_t e = hit.expert; e < hit.expert + experts; ++e)
    for (const uint32_t part : rule.parts)
      slot(hit.layer, rule.target, e, part, kind_of(rule.role, hit.param)) = hit.tensor;
  return true;
}

// Shapes of a weight's elements, and of the bytes or words that a four-bit format packs them in.
bool Accounting::shape_fits(const Hit& hit, const spec::TensorRule& rule) const {
  const TensorInfo& info = tensor(hit.tensor);
  auto shapes = expected_shapes(model_, layer(hit.layer), rule);
  if (rule.target != Target::router && rule.role == MOERT_ROLE_WEIGHT)
    add_packed_shapes(info.dtype, rule, &shapes);
  return std::any_of(shapes.begin(), shapes.end(), [&info](const auto& shape) {
    return std::equal(
        shape.begin(), shape.end(), info.shape.begin(), info.shape.end(),
        [](int64_t want, int64_t got) { return want == got || (want < 0 && got > 0); });
  });
}

bool Accounting::fits(const Hit& hit, const spec::TensorRule& rule) {
  if (hit.param != MOERT_PARAM_WEIGHT) return true;  // judged beside the weight
  const TensorInfo& info = tensor(hit.tensor);
  const auto text = [](const std::vector<int64_t>& shape) {
    return shape_text(shape.data(), static_cast<uint32_t>(shape.size()));
  };
  if (!shape_fits(hit, rule)) {
    std::string wanted = text(expected_shapes(model_, layer(hit.layer), rule).front());
    if (const size_t any = wanted.find("-1"); any != std::string::npos)
      wanted.replace(any, 2, "any");
    found(Finding::misshapen, hit.tensor,
          "is " + std::string(dtype_name(info.dtype)) + " " + text(info.shape) + ", expected " +
              wanted + (is_packed_dtype(info.dtype) ? ", or whole groups of packed numbers" : ""));
    return false;
  }
  check_kept_dtype(hit);
  return state_[hit.tensor] != State::found;
}

// Biases, norms and what the router has are plain numbers whatever the format of the weights.
void Accounting::check_kept_dtype(const Hit& hit) {
  const spec::TensorRule& rule = *rules_.at(hit.rule).rule;
  const TensorInfo& info = tensor(hit.tensor);
  const bool bias =
      rule.target == Target::router && rule.parts[0] == MOERT_ROUTER_SELECTION_BIAS;  // kept as f32
  const bool plain =
      info.dtype >= (bias ? MOERT_DTYPE_F32 : MOERT_DTYPE_F64) && info.dtype <= MOERT_DTYPE_BF16;
  const bool table = rule.target == Target::router && rule.parts[0] == MOERT_ROUTER_TOKEN_TABLE;
  const bool whole = info.dtype == MOERT_DTYPE_I32 || info.dtype == MOERT_DTYPE_I64;
  const bool vector = rule.target == Target::layer && rule.parts[0] >= MOERT_PART_EXPERT_NORM;
  const bool whatever = rule.target != Target::router && rule.role == MOERT_ROLE_WEIGHT && !vector;
  if (whatever || (table ? whole : plain)) return;
  found(Finding::misshapen, hit.tensor,
        "is " + std::string(dtype_name(info.dtype)) + " " +
            shape_text(info.shape.data(), static_cast<uint32_t>(info.shape.size())) +
            ", expected " +
            (table  ? "i32 or i64"
             : bias ? "f32, f16 or bf16"
                    : "f64, f32, f16 or bf16"));
}

Plan make_plan(const spec::Model& model, const spec::Tensors& tensors,
               const Checkpoint& checkpoint) {
  check_model(model, checkpoint.path().string());
  return Accounting(model, tensors, checkpoint).run();
}

}  // namespace moert::weights
