// Decodes a checkpoint's weights and encodes new ones, through the quant methods that plugins offer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fused_moe.hpp"
#include "runtime/target_scheme.hpp"
#include "weights/plan.hpp"

namespace moert::runtime {

// A tensor that a weight consists of, as a file holds it.
struct StoredPart {
  uint32_t param = 0;  // MOERT_PARAM_*
  uint32_t dtype = 0;
  std::vector<int64_t> shape;
};

class WeightCodec {
 public:
  WeightCodec(const Session& session, std::vector<std::string> prefer);

  // Rows and columns of the elements of a matrix with a tensor of its own.
  static std::pair<int64_t, int64_t> extent(const weights::Checkpoint& checkpoint,
                                            const weights::Source& source,
                                            const weights::Format& format);

  // Writes all `rows` of the elements as f32, `stride` apart from row to row. Throws Error(input) that names the tensor.
  void decode(const weights::Checkpoint& checkpoint, const weights::Source& source,
              const weights::Format& format, int64_t rows, float* out, int64_t stride);

  // The tensors of a weight of [rows, cols], the weight first; `name` is for messages.
  std::vector<StoredPart> parts(const TargetScheme& target, int64_t rows, int64_t cols,
                                const std::string& name);

  // One weight's bytes, in the order of parts(). What transposed stores is [in, out], scales too.
  using Bytes = std::vector<std::vector<std::byte>>;
  Bytes encode(const TargetScheme& target, const std::vector<float>& elements, int64_t rows,
               int64_t cols, bool transposed, const std::string& name);
  // What was just encoded.
  void decode_again(const TargetScheme& target, Bytes& bytes, int64_t rows, int64_t cols,
                    bool transposed, std::vector<float>& out, const std::string& name);

 private:
  const Quant& method(const spec::Scheme& scheme, const std::string& name);

  const Session& session_;
  ChoiceSettings settings_;
  std::map<std::string, Quant> methods_;  // by scheme and options
};

}  // namespace moert::runtime
