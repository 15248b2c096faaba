// SPDX-License-Identifier: Apache-2.0
#include "runtime/forward_context.hpp"

#include <algorithm>

#include "runtime/call.hpp"

namespace moert::runtime {

ForwardContext::ForwardContext(const Model& model, int64_t max_tokens)
    : model_(model),
      max_tokens_(max_tokens),
      vocabulary_(model.vocabulary()),
      hidden_(model.device()),
      out_(model.device()),
      logits_(model.device()),
      ids_(model.device()),
      weights_(model.device()),
      margins_(model.device()),
      forced_(model.device()),
      valid_(model.device()),
      token_ids_(model.device()),
      workspace_(model.device()) {
  const auto tokens = static_cast<uint64_t>(max_tokens);
  uint64_t most_experts = 0, most_k = 0, workspace = 0;
  for (size_t i = 0; i < model.num_layers(); ++i) {
    most_experts = std::max(most_experts, static_cast<uint64_t>(model.layer(i).routing.rows()));
    most_k = std::max(most_k, static_cast<uint64_t>(model.layer(i).routing.top_k));
    uint64_t bytes = 0;
    Call call;
    const Runner& runner = model.runner(i);
    call.check(runner->workspace(runner.self(), max_tokens, &bytes, call.out()), runner.name(),
               "workspace");
    workspace = std::max(workspace, bytes);
  }
  const uint64_t row = tokens * dtype_bytes(model.dtype(), model.spec().hidden_size);
  hidden_.reserve(row, "hidden states");
  out_.reserve(row, "outputs");
  logits_.reserve(tokens * most_experts * sizeof(float), "router logits");
  ids_.reserve(tokens * most_k * sizeof(int32_t), "expert ids");
  weights_.reserve(tokens * most_k * sizeof(float), "routing weights");
  margins_.reserve(tokens * sizeof(float), "routing margins");
  forced_.reserve(tokens * most_k * sizeof(int32_t), "forced expert ids");
  valid_.reserve(tokens, "row marks");
  token_ids_.reserve(tokens * sizeof(int64_t), "token ids");
  workspace_.reserve(workspace, "the workspace");
}

void ForwardContext::set_hidden(const void* hidden, int64_t tokens) {
  if (tokens < 0 || tokens > max_tokens_)
    throw Error(Fault::usage,
                std::to_string(tokens) + " tokens in one forward, the context was made for " +
                    std::to_string(max_tokens_),
                "forward", "make the context with a larger max_tokens, or split the batch");
  tokens_ = tokens;
  has_token_ids_ = false;
  model_.device().copy_to_device(
      hidden_.data(), hidden,
      static_cast<uint64_t>(tokens) * dtype_bytes(model_.dtype(), model_.spec().hidden_size));
}

void ForwardContext::set_token_ids(const int64_t* token_ids, const uint8_t* valid) {
  has_token_ids_ = false;  // of a refused list nothing counts, nor of the one before
  for (int64_t t = 0; token_ids != nullptr && vocabulary_ != 0 && t < tokens_; ++t) {
    if (valid != nullptr && valid[t] == 0) continue;
    if (token_ids[t] < -1 || token_ids[t] >= vocabulary_)
      throw Error(Fault::usage,
                  "token id " + std::to_string(token_ids[t]) + " of row " + std::to_string(t) +
                      " is not below " + std::to_string(vocabulary_) +
                      ", the rows of the model's routing tables",
                  "forward", "give the ids of the model's own tokenizer");
  }
  has_token_ids_ = token_ids != nullptr;
  if (has_token_ids_)
    model_.device().copy_to_device(token_ids_.data(), token_ids,
                                   static_cast<uint64_t>(tokens_) * sizeof(int64_t));
}

// A router that misses them would report its own error; this one names the layer and the remedy.
void ForwardContext::require_token_ids(size_t layer) const {
  if (has_token_ids_ || model_.layer(layer).routing.method != "hash") return;
  throw Error(Fault::usage,
              "layer " + std::to_string(model_.layer(layer).layer_id) +
                  " routes by token ids, but none are given",
              "forward", "give the token ids of the rows");
}

TensorView ForwardContext::view(const DeviceMemory& memory, uint32_t dtype,
                                std::initializer_list<int64_t> shape) const {
  TensorView made(memory.data(), dtype, shape);
  made.set_device(model_.device().id());
  return made;
}

TensorView ForwardContext::ids_view(size_t layer) const {
  return view(ids_, MOERT_DTYPE_I32, {tokens_, model_.layer(layer).routing.top_k});
}

TensorView ForwardContext::weights_view(size_t layer) const {
  return view(weights_, MOERT_DTYPE_F32, {tokens_, model_.layer(layer).routing.top_k});
}

TensorView ForwardContext::margins_view() const {
  return view(margins_, MOERT_DTYPE_F32, {tokens_});
}

void ForwardContext::forward(size_t layer, const int32_t* forced_ids, const uint8_t* valid) {
  const spec::Routing& routing = model_.layer(layer).routing;
  const int64_t hidden_size = model_.spec().hidden_size;
  const TensorView hidden = view(hidden_, model_.dtype(), {tokens_, hidden_size});
  const TensorView out = view(out_, model_.dtype(), {tokens_, hidden_size});
  require_token_ids(layer);
  const TensorView logits = view(logits_, MOERT_DTYPE_F32, {tokens_, routing.rows()});
  const TensorView token_ids = view(token_ids_, MOERT_DTYPE_I64, {tokens_});
  const TensorView ids = ids_view(layer);
  const TensorView weights = weights_view(layer);
  const TensorView margins = margins_view();
  const TensorView forced = view(forced_, MOERT_DTYPE_I32, {tokens_, routing.top_k});
  const TensorView marks = view(valid_, MOERT_DTYPE_U8, {tokens_});
  moert_runner_args_t args{};
  args.struct_size = sizeof args;
  args.stream = model_.device().stream();
  args.hidden = hidden;
  args.logits = logits;
  if (has_token_ids_) args.token_ids = token_ids;
  args.ids = ids;
  args.weights = weights;
  args.margins = margins;
  args.out = out;
  args.workspace = workspace_.data();
  args.workspace_bytes = workspace_.bytes();
  if (forced_ids != nullptr) {
    model_.device().copy_to_device(forced_.data(), forced_ids, forced.get()->bytes);
    args.forced_ids = forced;
  }
  if (valid != nullptr) {
    model_.device().copy_to_device(valid_.data(), valid, marks.get()->bytes);
    args.valid = marks;
  }
  const Runner& runner = model_.runner(layer);
  Call call;
  const moert_code_t code = runner->forward(runner.self(), &args, call.out());
  if (code != MOERT_OK)
    call.check(code, runner.name(), "forward",
               "layer " + std::to_string(model_.layer(layer).layer_id));
}

void ForwardContext::mark_ids(size_t layer) {
  const auto slots = static_cast<uint64_t>(tokens_ * model_.layer(layer).routing.top_k);
  model_.device().fill(ids_.data(), kUnwrittenByte, slots * sizeof(int32_t));
}

void ForwardContext::copy_ids(size_t layer, int32_t* staging) const {
  const auto slots = static_cast<uint64_t>(tokens_ * model_.layer(layer).routing.top_k);
  model_.device().copy_to_host(staging, ids_.data(), slots * sizeof(int32_t));
}

void ForwardContext::read_output(void* out) {
  model_.device().copy_to_host(
      out, out_.data(),
      static_cast<uint64_t>(tokens_) * dtype_bytes(model_.dtype(), model_.spec().hidden_size));
  synchronize();
}

void ForwardContext::read_routing(size_t layer, Routing& routing, bool with_margins) {
  routing.tokens = tokens_;
  routing.top_k = model_.layer(layer).routing.top_k;
  const auto slots = static_cast<size_t>(tokens_ * routing.top_k);
  routing.ids.resize(slots);
  routing.weights.resize(slots);
  routing.margins.resize(with_margins ? static_cast<size_t>(tokens_) : 0);
  const Device& device = model_.device();
  device.copy_to_host(routing.ids.data(), ids_.data(), slots * sizeof(int32_t));
  device.copy_to_host(routing.weights.data(), weights_.data(), slots * sizeof(float));
  device.copy_to_host(routing.margins.data(), margins_.data(),
                      routing.margins.size() * sizeof(float));
  synchronize();
}

}  // namespace moert::runtime
