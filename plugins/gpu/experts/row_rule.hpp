// How rows are quantised before a weight reads them: docs/numerics.md, "Activations".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace moert::gpu {

// Where the scale of a row's numbers comes from.
enum class RowScale : uint8_t {
  none,    // rows stay what they are
  fixed,   // the weight's input scale, for all numbers
  token,   // from the largest magnitude of a row
  group,   // from that of each `group` columns of a row
  powers,  // the same, rounded up to a power of two
  mx,      // the power of two of OCP MX, for each 32 columns
  nv       // a code of e4m3fn times the weight's input scale, for each 16 columns
};

// What numbers are rounded to.
enum class RowCode : uint8_t { e4m3fn, e4m3fnuz, e5m2, int8, e2m1 };

struct RowRule {
  RowScale scale = RowScale::none;
  RowCode code = RowCode::e4m3fn;
  int32_t group = 0;  // columns that share a scale; 0: a row

  bool quantises() const { return scale != RowScale::none; }
  // Rows depend on which weight reads them.
  bool by_weight() const { return scale == RowScale::fixed || scale == RowScale::nv; }
  // Codes are numbers of bf16, and a number is code x scale with one scale; not so with nv, where it is two products.
  bool has_codes() const { return quantises() && scale != RowScale::nv; }
};

// The rule that the word `activations` ("token", "group128_ue8m0") means for weights of that scheme. False for a word
// that such weights do not have.
bool row_rule(std::string_view weight_scheme, std::string_view activations, RowRule* rule);

}  // namespace moert::gpu
