// From logits to scores, in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routing_rule.hpp"

namespace moert::cpu {

// x' of a logit: scaled and capped; NaN reads as minus infinity.
double adjusted(const RoutingParams& params, float logit);

// Softmax of n numbers that are not NaN, in place too. Entries of plus infinity share the whole mass;
// where none is above minus infinity, all come out as 0.
void softmax(const double* x, int64_t n, double* out);

// Scores of the n adjusted logits `x`. With softmax_topk they are the logits themselves: what weighs
// is known only when the experts are chosen.
void scores(Scoring scoring, const double* x, int64_t n, double* out);

// Weight of `expert` by the sparsemixer: a softmax over the experts that are close enough to the
// largest logit. `removed` takes part in neither (-1: nobody is removed). Scratch of n numbers.
double sparsemixer_weight(const double* x, int64_t n, double jitter_eps, int64_t removed,
                          int64_t expert, double* scratch);

}  // namespace moert::cpu
