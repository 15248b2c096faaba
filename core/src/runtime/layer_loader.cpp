// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer_loader.hpp"

#include <moert/abi/router.h>

#include "runtime/call.hpp"
#include "runtime/quant_record.hpp"

namespace moert::runtime {

namespace {

spec::Target target_of(const std::string& word) {
  if (word == "shared_quant") return spec::Target::shared;
  return word == "layer_quant" ? spec::Target::layer : spec::Target::expert;
}

// "FILE: tensor NAME with weight_scale": a fault may be in either.
std::string place_of(const weights::Checkpoint& checkpoint, const weights::Source& source) {
  std::string place = checkpoint.place(*source.tensor);
  for (size_t i = 0; i < source.companions.size(); ++i) {
    const std::string& name = source.companions[i].tensor->name;
    place += (i == 0 ? " with " : " and ") + name.substr(name.rfind('.') + 1);
  }
  return place;
}

}  // namespace

// The runner hands experts on to the part that packs them, so both must allow it.
bool loads_concurrently(const LayerChoice& choice) {
  const auto allows = [&choice](const char* word) {
    return (choice.find(word)->decision.support.flags & MOERT_SUPPORT_CONCURRENT_LOAD) != 0;
  };
  return allows("runner") && (choice.monolithic || allows("routed_experts"));
}

LayerLoader::LayerLoader(const Session& session, const weights::Checkpoint& checkpoint,
                         const weights::Plan& plan, const LayerChoice& choice, const Runner& runner)
    : checkpoint_(checkpoint), plan_(plan), runner_(runner) {
  for (const KindChoice& kind : choice.kinds)
    if (!kind.scheme.empty())
      quants_.emplace(std::make_pair(target_of(kind.use.word), kind.use.format),
                      make_quant(session, kind));
}

std::vector<Quant> LayerLoader::take_quants() {
  std::vector<Quant> all;
  for (auto& [key, quant] : quants_) all.push_back(std::move(quant));
  quants_.clear();
  return all;
}

void LayerLoader::load(const weights::Source& source) const {
  if (source.target == spec::Target::router) return load_router(source);
  return source.format == weights::kNoFormat ? load_plain(source) : load_weight(source);
}

// A table of tokens is I32 at the border; releases also store it as I64.
void LayerLoader::load_router(const weights::Source& source) const {
  const TensorView view = weights::source_view(checkpoint_, source);
  const std::string place = checkpoint_.place(*source.tensor);
  std::vector<int32_t> ids;
  TensorView table = view;
  if (source.part == MOERT_ROUTER_TOKEN_TABLE && view.get()->dtype == MOERT_DTYPE_I64) {
    const auto* wide = static_cast<const int64_t*>(view.get()->data);
    ids.resize(static_cast<size_t>(element_count(*view.get())));
    for (size_t i = 0; i < ids.size(); ++i) {
      if (wide[i] < 0 || wide[i] > INT32_MAX)
        throw Error(Fault::input, "the table names expert " + std::to_string(wide[i]), place,
                    "the file is damaged, or belongs to another model");
      ids[i] = static_cast<int32_t>(wide[i]);
    }
    table = TensorView(ids.data(), MOERT_DTYPE_I32, {view.get()->shape[0], view.get()->shape[1]});
  }
  Call call;
  call.check(runner_->load_router(runner_.self(), source.part, table, call.out()), runner_.name(),
             "load", place);
}

// Biases and norms.
void LayerLoader::load_plain(const weights::Source& source) const {
  TensorView view = weights::source_view(checkpoint_, source);
  const std::string scheme(dtype_name(source.tensor->dtype));
  moert_quant_view_t record{};
  record.struct_size = sizeof record;
  record.scheme = scheme.c_str();
  record.layout = "canonical";
  view.set_quant(&record);
  hand_over(source, view, nullptr);
}

void LayerLoader::load_weight(const weights::Source& source) const {
  const weights::Format& format = plan_.formats[source.format];
  TensorView view = weights::source_view(checkpoint_, source, &format);
  const QuantRecord record(checkpoint_, source, format);
  view.set_quant(&record.view);
  const Quant& quant = quants_.at({source.target, source.format});
  Call call;
  call.check(quant->check(quant.self(), view, call.out()), quant.name(), "check",
             place_of(checkpoint_, source));
  hand_over(source, view, &quant);
}

void LayerLoader::hand_over(const weights::Source& source, const TensorView& view,
                            const Quant* quant) const {
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  piece.expert = source.expert;
  piece.part = source.part;
  piece.role = source.role;
  piece.tensor = view.get();
  if (quant != nullptr) {
    piece.quant = quant->table();
    piece.quant_self = quant->self();
  }
  const auto load = source.target == spec::Target::shared  ? runner_->load_shared
                    : source.target == spec::Target::layer ? runner_->load_layer
                                                           : runner_->load_expert;
  Call call;
  call.check(load(runner_.self(), &piece, call.out()), runner_.name(), "load",
             place_of(checkpoint_, source));
}

}  // namespace moert::runtime
