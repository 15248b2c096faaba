// Four-bit integers as compressed-tensors, GPTQ and AWQ store them, by the definition of their words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>
#include <moert/sdk/tensor.hpp>

#include <memory>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "numbers.hpp"

namespace moert::conformance {

// What "int4_<packed|gptq|awq>.<g<size>|channel>.<f32|bf16|f16>" says; scale_dtype is 0 for another name.
struct Int4Form {
  enum Kind { packed, gptq, awq };
  Kind kind = packed;
  int64_t group = 0;  // 0: the whole row
  uint32_t scale_dtype = 0;

  const char* default_zeros() const {
    return kind == packed ? "none" : kind == gptq ? "plus_one" : "stored";
  }
  int64_t groups(int64_t cols) const { return group == 0 ? 1 : cols / group; }
};
Int4Form int4_form(const std::string& scheme);

// The shape in which a matrix of [out, along] is stored, and how eight of its codes become a word.
struct Words {
  std::vector<int64_t> shape;
  std::vector<uint32_t> word;
};
// `codes` are [out, along], row by row; what is missing of a last word is 0.
Words weight_words(Int4Form::Kind kind, const std::vector<uint32_t>& codes, int64_t out,
                   int64_t in);
Words zero_words(Int4Form::Kind kind, const std::vector<uint32_t>& codes, int64_t out,
                 int64_t groups);

// A weight of [out, in] with all companions that the option `zeros` asks for.
class Int4Weight {
 public:
  Int4Weight(const std::string& scheme, const std::string& zeros, int64_t out_size,
             int64_t in_size);
  Int4Weight(const Int4Weight&) = delete;
  Int4Weight& operator=(const Int4Weight&) = delete;

  // Codes, zeros and scales of all sizes.
  void draw(Random& random);
  // Stores `code`, `zero` and `scale`.
  void store();
  // A group for each column.
  void set_index(const std::vector<int32_t>& groups);
  // What the element at [r, c] stands for.
  float number(int64_t r, int64_t c) const;
  void expect_guards() const;

 private:
  Place place_{nullptr};
  const std::string scheme_;

 public:
  const Int4Form form;
  const std::string zeros;
  const int64_t out, in, groups;
  std::vector<uint32_t> code, zero;  // [out, in] and [out, groups], as stored
  std::vector<double> scale;         // [out, groups]
  std::vector<int32_t> index;        // empty: groups follow each other
  std::unique_ptr<Tensor> weight, scales, zero_point, group_index;
  moert_quant_view_t quant{};
};

}  // namespace moert::conformance
