// Weights that are made up for measuring, as a checkpoint holds them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_shapes.hpp"
#include "runtime/fused_moe.hpp"
#include "runtime/weight_codec.hpp"

namespace moert::tool {

// A scheme as the command line names it.
struct BenchScheme {
  std::string word;     // as given: "fp8"
  spec::Scheme scheme;  // of the quant method
};

// A word of `moert quantize`, f16, one of fp8, int8 and int4 (see bench_scheme_aliases), or a quant method's own name
// such as "fp8_e4m3fn.block128x128.bf16". Throws Error(usage) with the nearest word for what no quant method knows.
BenchScheme bench_scheme(const runtime::Session& session, const std::string& word);
// "fp8 (fp8.block128x128), ...", for help.
std::string bench_scheme_aliases();

// One expert. Its tensors may be handed to any number of experts: numbers repeat then, packed memory does not.
class SyntheticExpert {
 public:
  // Random numbers, encoded by the scheme's quant method.
  SyntheticExpert(const runtime::Session& session, const BenchScheme& scheme,
                  const BenchShape& shape);
  SyntheticExpert(const SyntheticExpert&) = delete;
  SyntheticExpert& operator=(const SyntheticExpert&) = delete;

  // Why the scheme cannot hold weights of that shape, or an empty text.
  static std::string misfit(const runtime::Session& session, const BenchScheme& scheme,
                            const BenchShape& shape);

  // Bytes of all three projections as stored, with scales and biases. Makes none.
  static uint64_t stored_bytes(const runtime::Session& session, const BenchScheme& scheme,
                               const BenchShape& shape);

  // Hands all tensors over as those of `expert`. Throws Error where the candidate refuses one.
  void load(const runtime::Part<moert_routed_experts_t>& experts, int64_t expert) const;

 private:
  struct Matrix {
    std::vector<runtime::StoredPart> parts;
    runtime::WeightCodec::Bytes bytes;
    std::vector<uint16_t> bias;  // bf16
  };
  void hand_over(const runtime::Part<moert_routed_experts_t>& experts, int64_t expert,
                 uint32_t part, const Matrix& matrix) const;
  Matrix make(runtime::WeightCodec& codec, int64_t rows, int64_t cols, unsigned seed) const;

  BenchScheme scheme_;
  bool biased_;
  runtime::Quant quant_;
  Matrix up_, down_;  // gate has the numbers of up
};

}  // namespace moert::tool
