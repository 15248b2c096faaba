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
inline constexpr int64_t kPanel = 64;
enum class Storage { bf16, f16, f32, mxfp4 };
inline constexpr int kStorages = 4;

inline constexpr int64_t kGroup = 32;
inline constexpr int64_t kGroupCodes = kGroup * kPanel / 2;
inline constexpr int64_t kGroupBytes = kGroupCodes + kPanel;

// Bytes of a panel that is `depth` deep.
constexpr int64_t panel_bytes(Storage storage, int64_t depth) {
  switch (storage) {
    case Storage::bf16: return (depth + 1) / 2 * 2 * kPanel * 2;
    case Storage::f16: return depth * kPanel * 2;
    case Storage::f32: return depth * kPanel * 4;
    case Storage::mxfp4: break;
  }
  return (depth + kGroup - 1) / kGroup * kGroupBytes;
}

// out[r][c] (+)= sum over d in [first, first + depth) of rows[r][d] * panel[d][c], r < count, c < 64.
//
// Every element is one chain of f32 operations with d rising, whatever `count` is, so a row's bits do not
// depend on the rows beside it; and cutting the depth into several calls changes nothing. `first` is a multiple of 32. With
// mxfp4 the chain is that of a group, whose sum is multiplied by its scale and added to a chain of groups; `first`
// and `depth` are whole groups.
// Nothing behind rows[r][first + depth - 1] is read.
struct Product {
  const void* const* rows;
  int64_t count;
  const unsigned char* panel;
  int64_t first, depth;
  float* out;
  bool add;
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
