// Buffers of a forward, on the device and on the host, and the identity of its rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model.hpp"

namespace moert::runtime {

// What a layer decided for each row, on the host. Row-major.
struct Routing {
  int64_t tokens = 0, top_k = 0;
  std::vector<int32_t> ids;    // [tokens, top_k] logical
  std::vector<float> weights;  // [tokens, top_k]
  std::vector<float> margins;  // [tokens]
};

// Stands in the ids until a runner has written its choices; no expert, and not the -1 of padded rows.
// Made of equal bytes, so that a device can fill with it.
inline constexpr uint8_t kUnwrittenByte = 0x80;
inline constexpr int32_t kUnwrittenId = static_cast<int32_t>(0x80808080);

// Reused from layer to layer and from step to step: a forward of at most max_tokens rows allocates
// nothing. Bound to one model; one thread at a time.
class ForwardContext {
 public:
  ForwardContext(const Model& model, int64_t max_tokens);

  // Rows to the device; `hidden` is [tokens, H] of the model's dtype. Throws Error(usage) beyond
  // max_tokens.
  void set_hidden(const void* hidden, int64_t tokens);
  // The rows' token numbers on the host, for layers that route by them; -1 in rows without a token.
  // nullptr: there are none. Lasts until the next set_hidden. Throws Error(usage) for a number that
  // the model's tables do not know, unless `valid` [tokens] says that its row is padded.
  void set_token_ids(const int64_t* token_ids, const uint8_t* valid = nullptr);
  // Enqueues one layer. `forced_ids` [tokens, k] on the host or nullptr (replay; rows of -1 route);
  // `valid` [tokens] on the host or nullptr (0: padded row).
  void forward(size_t layer, const int32_t* forced_ids = nullptr, const uint8_t* valid = nullptr);
  // Before a forward whose choices will be looked at: fills the ids with kUnwrittenId.
  void mark_ids(size_t layer);
  void synchronize() { model_.device().synchronize(); }

  int64_t tokens() const { return tokens_; }
  // After a forward: copies results to the host. `out` is [tokens, H] of the model's dtype.
  void read_output(void* out);
  void read_routing(size_t layer, Routing& routing, bool with_margins);
  // Enqueues a copy of the ids [tokens, k] to staging memory.
  void copy_ids(size_t layer, int32_t* staging) const;
  // Views of the last forward's decisions on the device, for capturers.
  TensorView ids_view(size_t layer) const;
  TensorView weights_view(size_t layer) const;
  TensorView margins_view() const;

 private:
  void require_token_ids(size_t layer) const;
  TensorView view(const DeviceMemory& memory, uint32_t dtype,
                  std::initializer_list<int64_t> shape) const;

  const Model& model_;
  int64_t max_tokens_, vocabulary_, tokens_ = 0;
  bool has_token_ids_ = false;
  DeviceMemory hidden_, out_, logits_, ids_, weights_, margins_, forced_, valid_, token_ids_,
      workspace_;
};

}  // namespace moert::runtime
