// Which tensor of a checkpoint feeds which part of which layer, with strict accounting: every tensor
// is used exactly once or ignored by a written rule, and every part is fed, or it is an error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "spec/family.hpp"
#include "spec/model.hpp"
#include "weights/safetensors.hpp"

namespace moert::weights {

// What one scale is of, in elements of the weight; 0: the whole dimension.
struct BlockSize {
  int64_t rows = 0, cols = 0;
  bool operator==(const BlockSize&) const = default;
};

// The format of a weight, and how its tensors are to be read.
struct Format {
  // One element in each place; two four-bit ones in a byte along the last dimension; or as the format
  // itself packs them, in which case only a tensor of its own can be handed over.
  enum Storage : uint8_t { elements, nibbles, whole };
  spec::Scheme scheme;
  Storage storage = elements;
  uint32_t dtype = 0, scale_dtype = 0;  // of the views; the file's may be a byte without a meaning
  BlockSize block;
  bool high_first = false;  // of nibbles: the first is in the high half of a byte

  bool operator==(const Format&) const = default;
};
inline constexpr uint32_t kNoFormat = ~uint32_t{0};

// A tensor beside a weight that belongs to it.
struct Companion {
  uint32_t param = 0;  // MOERT_PARAM_*
  const TensorInfo* tensor = nullptr;
};

// One tensor's way into a layer: one expert and one part. A fused or stacked tensor has several.
struct Source {
  const TensorInfo* tensor = nullptr;
  spec::Target target = spec::Target::expert;
  int64_t expert = 0, experts = 1;  // number, and how many the tensor holds
  uint32_t part = 0;                // MOERT_PART_* or MOERT_ROUTER_*
  uint32_t role = 0;
  const spec::TensorRule* rule = nullptr;
  uint32_t format = kNoFormat;  // index into Plan::formats; of matrices only
  std::vector<Companion> companions;
};

struct LayerPlan {
  int64_t layer_id = 0;
  std::string layout;           // the experts' layout of which most parts are there
  std::string scheme;           // of the experts' weights: "bf16" ..., or "mixed"
  std::string shared_scheme;    // the same of the shared experts; empty without them
  std::string layer_scheme;     // the same of the layer's own matrices; empty without them
  std::vector<Source> sources;  // experts ascending (so that files are read forward), then the rest
};

// A finding about the checkpoint; `nearest` is the name that was probably meant, or empty.
struct Finding {
  enum Kind { missing, unexpected, misshapen } kind;
  std::string name;    // the tensor, or the expected name
  std::string detail;  // e.g. "is bf16 [16, 48], expected [24, 48]"
  std::string nearest;
};

struct Plan {
  std::vector<LayerPlan> layers;      // as in the model; sources only of tensors that fit
  std::vector<Format> formats;        // that occur
  std::vector<std::string> warnings;  // where files and config differ, and the files hold
  std::vector<Finding> findings;   // empty: the checkpoint fits the model. Missing ones come first
  uint64_t used = 0, ignored = 0;  // tensors
  uint64_t of_dense_layers = 0;    // of experts, in layers that the model says have none: findings
  std::vector<std::pair<std::string, uint64_t>> ignored_by_reason;

  // Throws Error(input) if there are findings: the first line counts them and names the first, the
  // last line some more.
  void require_complete(const Checkpoint& checkpoint) const;
};

// Time is linear in the number of tensors: names are looked up, not scanned for. `tensors` (the
// rules) must outlive the plan. Throws Error(usage) for rules or a model that make no sense,
// Error(input) for a model too large for any checkpoint.
Plan make_plan(const spec::Model& model, const spec::Tensors& tensors,
               const Checkpoint& checkpoint);

// The window of `source` in the file, strided where the tensor is fused or transposed: [out, in], or
// whole as the format packs it; [out] for a bias, a norm and the sigmoid gate; for the router [E, H],
// [E], [H] or the token table. `format` is that of the source, nullptr where it has none.
moert::TensorView source_view(const Checkpoint& checkpoint, const Source& source,
                              const Format* format = nullptr);
// The window of a companion: scales [down, right], one number [1, 1], or a whole tensor.
moert::TensorView companion_view(const Checkpoint& checkpoint, const Source& source,
                                 const Format& format, const Companion& companion);

}  // namespace moert::weights
