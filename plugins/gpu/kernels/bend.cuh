// The function between an expert's two projections (docs/numerics.md, "Experts"), in f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../experts/gemm.hpp"
#include "../port.cuh"

namespace moert::gpu {

MOERT_DEVICE float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }

// Not min and max: those drop a NaN.
MOERT_DEVICE float at_most(float x, float limit) { return x > limit ? limit : x; }
MOERT_DEVICE float within(float x, float limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}
MOERT_DEVICE float above_zero(float x) { return x < 0.0f ? 0.0f : x; }

// Curves of one argument.
MOERT_DEVICE float curve_of(const Bend& bend, float g) {
  switch (bend.curve) {
    case Curve::gelu: return 0.5f * g * (1.0f + erf_f32(g * 0.70710678118654752f));
    case Curve::gelu_tanh:
      return 0.5f * g * (1.0f + tanh_f32(0.79788456080286536f * (g + 0.044715f * g * g * g)));
    case Curve::relu: return above_zero(g);
    case Curve::relu2: return above_zero(g) * above_zero(g);
    default: return g * sigmoid_f32(g);
  }
}

// A gate half g and an up half u. Called, not inlined: every sum of a lane comes by here, and eight curves are long.
MOERT_CALLED float bent(Bend bend, float g, float u) {
  switch (bend.curve) {
    case Curve::silu: return curve_of(bend, at_most(g, bend.limit)) * within(u, bend.limit);
    case Curve::swigluoai: {
      const float low = at_most(g, bend.limit);
      return low * sigmoid_f32(bend.alpha * low) * (within(u, bend.limit) + bend.beta);
    }
    case Curve::swiglustep: return at_most(g * sigmoid_f32(g), bend.limit) * within(u, bend.limit);
    case Curve::situ: {
      const float up = bend.alpha > 0.0f ? bend.alpha * tanh_f32(u / bend.alpha) : u;
      return bend.beta * tanh_f32(g / bend.beta) * sigmoid_f32(g) * up;
    }
    default: return curve_of(bend, g) * u;
  }
}

// No gate half.
MOERT_CALLED float bent_alone(Bend bend, float x) {
  return curve_of(bend, bend.curve == Curve::silu ? at_most(x, bend.limit) : x);
}

}  // namespace moert::gpu
