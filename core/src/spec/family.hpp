// A model family as data: how it is recognised and which tensor feeds what.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert::spec {

// What a tensor of the checkpoint feeds.
enum class Target { expert, router, shared, layer, ignore };

// One rule: pattern -> target. `pattern` is a whole tensor name in which "{layer}" and "{expert}"
// stand for decimal numbers without leading zeros; in ignore rules "*" stands for any text.
struct TensorRule {
  Target target = Target::ignore;
  std::string pattern;
  // Target::expert, shared: MOERT_PART_* numbers; two of them are the halves of a fused tensor, in
  // order along the output dimension. Target::router: one MOERT_ROUTER_* number. Target::layer: one
  // of MOERT_PART_LATENT_DOWN to MOERT_PART_OUTPUT_BIAS.
  std::vector<uint32_t> parts;
  uint32_t role = 0;         // MOERT_ROLE_WEIGHT | MOERT_ROLE_BIAS
  bool stacked = false;      // first dimension is the expert
  bool flat = false;         // stacked, but without a dimension of its own: [E x out, in]
  bool transposed = false;   // [in, out] instead of [out, in]
  bool interleaved = false;  // halves alternate row by row instead of following each other
  bool optional = false;     // may be absent
  bool dense_only = false;   // Target::ignore: not of layers that have experts
  std::string reason;        // Target::ignore: why it is no part of the MoE layers

  bool operator==(const TensorRule&) const = default;
};

// Rules that belong together: one way in which a release stores the experts. A layer's is the layout of
// which most parts are there in shapes that fit; a mixture of layouts in one layer is an error.
struct Layout {
  std::string name;  // "per_expert", "fused" ...
  std::vector<TensorRule> rules;

  bool operator==(const Layout&) const = default;
};

struct Tensors {
  std::vector<Layout> experts;
  std::vector<TensorRule> others;  // router, shared, layer, ignore

  bool operator==(const Tensors&) const = default;
};

}  // namespace moert::spec
