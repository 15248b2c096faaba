// INT4: four-bit integers, eight to a word, with a scale for each group of a row: the layouts of compressed-tensors,
// GPTQ and AWQ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/quant_method.hpp>
#include <optional>
#include <string>

#include "packed_words.hpp"
#include "scales.hpp"

namespace moert::quant {

// `int4_<packed, gptq, awq>.<g<size>, channel>.<f32, bf16, f16>`: the number at [out, in] is (code - zero) x scale, one
// f32 product. A group is `size` columns of a row, or with `channel` the whole row. The option `zeros` says what the
// zero of a group is:
//   none      8, and there are no zero points (the default of int4_packed),
//   stored    the stored one (the default of int4_awq),
//   plus_one  the stored one and 1, so that a stored 15 means 16 (the default of int4_gptq: files of its version 1).
//
// What is stored, for a weight of [out, in]; every matrix of i32 packs eight codes to a word along /8:
//              weight         scale           zero point         group index
//   packed     [out, in/8]    [out, groups]   [out/8, groups]    [in], if rows were reordered
//   gptq       [in/8, out]    [groups, out]   [groups, out/8]    [in], may be absent
//   awq        [in, out/8]    [groups, out]   [groups, out/8]    none
// The group index says in which group a column is (act-order); without it groups follow each other. Words of AWQ
// have an order of their own (packed_words.hpp). `in` is whole groups and whole words: round_sizes gives what to pad to.
class Int4 final : public QuantMethod {
 public:
  // How one of the three stores matrices; `out` and `in` are a weight's rows and columns.
  struct Layout {
    std::string_view name;
    bool in_first;                         // [in, out] instead of [out, in], for `in` also groups
    int weight_dimension, zero_dimension;  // along which words follow
    NibbleOrder order;
    bool has_index;
    size_t zeros;  // the option's default
  };
  static Support supports(const Host& host, std::string_view scheme);
  Int4(const Host& host, std::string_view scheme, const Options& options);

  std::vector<moert_quant_param_t> parameters(int64_t rows, int64_t cols) const override;
  void round_sizes(int64_t& hidden, int64_t& intermediate) const override;
  void check(const moert_tensor_t& weight) const override;
  void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
              int64_t out_stride) const override;
  // The zero is 8, the scale of a group the number nearest to the larger of max / 7 and -min / 8 (scale_near), so
  // that nothing saturates. Throws MOERT_DATA_LOSS for a number that is not finite; groups in another order
  // are not written.
  void encode(const moert_tensor_t& source, const moert_tensor_t& weight) const override;

  static constexpr moert_kv_t kCaps[] = {
      {"schemes",
       "int4_packed.g128.bf16, int4_packed.g32.f16, int4_packed.channel.f32, int4_gptq.g128.f16, "
       "int4_gptq.g32.bf16, int4_gptq.channel.f16, int4_awq.g128.f16, int4_awq.g64.bf16"}};
  static constexpr FeatureInfo kFeature = {"quant.int4", MOERT_RANK_GOOD, 0, kCaps, 1};

 private:
  struct Scheme {
    const Layout* layout;
    int64_t group;  // 0: the whole row
    uint32_t scale_dtype;
  };
  enum class Zeros { none, stored, plus_one };
  struct Shape {
    int64_t at[2];
  };
  // The tensors of a weight, checked.
  struct Opened {
    Size size;
    int64_t groups;
    PackedWords codes;
    Scales scales;
    std::optional<PackedWords> zeros;
    const moert_tensor_t* index;
  };
  static std::optional<Scheme> parse(std::string_view name);
  int64_t groups(int64_t cols) const { return Blocks::along(cols, scheme_.group); }
  // Of a matrix that has `along` elements beside a row's number, in words along `dimension` if it is 0 or 1.
  Shape stored(int64_t rows, int64_t along, int dimension) const;
  Size size_of(const moert_tensor_t& weight) const;
  Opened open(const moert_tensor_t& weight, Scales::State state = Scales::written) const;
  const moert_tensor_t* zero_point(const moert_quant_view_t& quant, const Size& size) const;
  void expect_index(const moert_tensor_t& index, const Size& size) const;
  int64_t group_of(const Opened& opened, int64_t col) const;
  float zero_of(const Opened& opened, int64_t row, int64_t group) const;
  void encode_group(const moert_tensor_t& source, const Opened& opened, int64_t row,
                    int64_t group) const;

  std::string name_;
  Scheme scheme_;
  Zeros zeros_ = Zeros::none;
};

}  // namespace moert::quant
