// The kernels of one instruction set, as the code around them sees them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gate.hpp"

namespace moert::cpu::simd {

// Weights lie in panels of 64 output columns, contiguous along the depth (what is summed over):
//   bf16   [depth/2][64][2]   pairs, as the dot product of pairs reads them; an odd depth ends in a zero
//   f16    [depth][64]
//   f32    [depth][64]
//   mxfp4  [depth/32] groups: [4][64][2] words, then [64] e8m0 scales. Nibble j of word [q][c][i] is the e2m1 code of
//          column c at depth 8 q + 2 j + i of the group, so that a shift and a table give pairs of neighbours
//   bytes  fp8 (e4m3fn) and int8: groups of `group` numbers of the depth, the last one of what is left:
//          [numbers/2][2][4][2][4][2] codes, then the group's scales. Byte [d][h][q][v][c][i] is column
//          32 h + 16 v + 4 q + c at depth 2 d + i of the group: the order in which two tables and an interleaving
//          give pairs of neighbours. An odd number ends in a zero
inline constexpr int64_t kPanel = 64;
enum class Storage { bf16, f16, f32, mxfp4, fp8, int8 };
inline constexpr int kStorages = 6;
constexpr bool is_bytes(Storage storage) {
  return storage == Storage::fp8 || storage == Storage::int8;
}

// What multiplies the sum of a group of bytes: f32 for columns 0 to 31 and one for the others; an f32 or an e8m0 for
// each column. In whole lines of 64 bytes.
enum class Scales { none, halves, columns, powers };
constexpr int64_t scales_bytes(Scales scales) {
  return scales == Scales::none ? 0 : scales == Scales::columns ? kPanel * 4 : 64;
}

// How a panel is stored.
struct PanelFormat {
  Storage storage = Storage::f32;
  int64_t group = 0;  // of bytes: an even number up to kCodeChunk, or 0 for the whole depth
  Scales scales = Scales::none;
};
// Numbers of the depth of bytes that are widened at once when many rows pass.
inline constexpr int64_t kCodeChunk = 128;

inline constexpr int64_t kGroup = 32;
inline constexpr int64_t kGroupCodes = kGroup * kPanel / 2;
inline constexpr int64_t kGroupBytes = kGroupCodes + kPanel;

// Of a group of bytes, without its scales.
constexpr int64_t code_bytes(int64_t numbers) { return (numbers + 1) / 2 * 2 * kPanel; }

// Bytes of a panel that is `depth` deep.
constexpr int64_t panel_bytes(const PanelFormat& format, int64_t depth) {
  switch (format.storage) {
    case Storage::bf16: return (depth + 1) / 2 * 2 * kPanel * 2;
    case Storage::f16: return depth * kPanel * 2;
    case Storage::f32: return depth * kPanel * 4;
    case Storage::mxfp4: return (depth + kGroup - 1) / kGroup * kGroupBytes;
    case Storage::fp8:
    case Storage::int8: break;
  }
  const int64_t group = format.group == 0 ? depth : format.group;
  return code_bytes(depth) + (depth + group - 1) / group * scales_bytes(format.scales);
}

constexpr int64_t panel_bytes(Storage storage, int64_t depth) {
  return panel_bytes(PanelFormat{storage, 0, Scales::none}, depth);
}

// out[r][c] (+)= sum over d in [first, first + depth) of rows[r][d] * panel[d][c], r < count, c < 64.
//
// Every element is one chain of f32 operations in an order that does not depend on `count`, so a row's bits do not
// depend on the rows beside it: with d rising, or by tiles in blocks of 32, the even numbers and the odd ones of each
// by themselves. Cutting the depth into several calls changes nothing; `first` is a multiple of 32, and so is `depth`
// but in the last call. With mxfp4 and bytes the chain is that of a group, whose sum is multiplied by its scale and
// added to a chain of groups; `first` and `depth` are whole groups, or reach the panel's end.
// Nothing behind rows[r][first + depth - 1] is read.
//
// Rows of codes come with their scales: those of a group of the panel multiply its sum, too.
struct Product {
  const void* const* rows;
  int64_t count;
  const unsigned char* panel;
  int64_t first, depth;
  float* out;
  bool add;
  PanelFormat format;
  // [count][...], or null: rows are what they are. Group g of the panel has the scale of number g / row_scale_step.
  const float* const* row_scales = nullptr;
  int64_t row_scale_step = 1;
};

// Numbers of the activation as the kernels know it. `done`: the sums hold its values already.
enum class Curve { silu, gelu_tanh, relu, relu2, swigluoai, swiglustep, done };
struct Bend {
  Curve curve = Curve::silu;
  bool gated = true;
  float alpha = 0, beta = 0, limit = 0;  // limit: infinite for none
};

// From the sums of a panel to the middle: with a gate half, columns 0..31 are gate and 32..63 up, and 32
// numbers come out; else 64. `bias` [64] may be null.
struct Middle {
  const float* sums;
  int64_t count;
  const float* bias;
  Bend bend;
  bool bf16;       // else f32
  void* out;       // [count][stride]
  int64_t stride;  // in elements
};

// A row as codes of e4m3fn or as integers, which are kept as bf16, and scales: code = row / scale, to nearest even and
// saturating.
// What is not finite stays what it is, and has no part in a scale. Formulas: docs/numerics.md, "Activations".
enum class ScaleRule {
  token,   // amax / 448, at least 1 / (512 * 448)
  group,   // max(amax, 1e-4) / 448
  powers,  // the same, rounded up to a power of two
  mx,      // 2^(floor(log2 amax) - 8), at least 2^-127; 1 for zeros
  integer  // amax / 127, of integers
};
struct RowCoding {
  const float* row;
  int64_t depth;
  int64_t group;  // numbers that share a scale; the last ones may be fewer
  ScaleRule rule;
  void* codes;    // [depth] bf16; may be the row itself
  float* scales;  // one for each group
};

// to[r][c] = factors[r] * (sums[r][c] + bias[c])
struct Weigh {
  const float* sums;
  int64_t count;
  const float* bias;
  const float* factors;
  float* const* to;
};

// out[c] = the sum of terms[i][c] in that order, rounded to the type of the output; c < columns <= 64.
enum class Rows { f32, bf16, f16 };
struct Combine {
  const float* const* terms;
  int64_t count;
  Rows type;
  void* out;
  int64_t columns;
};

struct Kernels {
  void (*bf16_rows[kStorages])(const Product&);  // rows of bf16; null: there is none
  void (*f32_rows[kStorages])(const Product&);   // rows of f32
  void (*middle)(const Middle&);
  void (*weigh)(const Weigh&);
  void (*combine)(const Combine&);
  void (*code_rows)(const RowCoding&);  // null where bf16_rows[fp8] and [int8] are
  void (*gate)(const GateProduct&);
};

extern const Kernels kPortableKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;
extern const Kernels kAmxBf16Kernels;  // where the build has MOERT_CPU_AMX
#endif

enum class Isa;  // isa.hpp
// The kernels of a level.
const Kernels& kernels_of(Isa isa);

}  // namespace moert::cpu::simd
