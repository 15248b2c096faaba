"""Which experts a row visits and with what weights, in float64.

The margin of a row is the least distance between two scores that would, if
bridged, change ids or their order.
"""

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


SCORES = {
    "softmax": softmax,
    "softmax_topk": lambda x: x,
    "sigmoid": sigmoid,
    "sqrtsoftplus": lambda x: np.sqrt(np.logaddexp(0.0, x)),
}


def keep_groups(choice, count, top, score, dropped):
    """Scores with those of the lesser groups replaced, and the margin."""
    groups = choice.reshape(count, -1)
    if score == "max":
        of_group = groups.max(axis=1)
    else:
        of_group = np.sort(groups, axis=1)[:, -2:].sum(axis=1)
    order = np.argsort(-of_group, kind="stable")
    kept = np.isin(np.arange(count), order[:top])
    margin = of_group[order[top - 1]] - of_group[order[top]] if top < count else np.inf
    return np.where(np.repeat(kept, groups.shape[1]), choice, dropped), margin


def pick(choice, k):
    """The k best, highest first, the lower id first among equals; the margin."""
    order = np.argsort(-choice, kind="stable")
    ids = order[:k]
    edge = choice[order[: k + 1]]
    return ids, (edge[:-1] - edge[1:]).min() if len(edge) > 1 else np.inf


def sparsemixer(logits, jitter):
    """Two experts; each weighs its share among the logits near to its own."""
    ids, weights, margin = [], [], np.inf
    left = logits.copy()
    for _ in range(2):
        order = np.argsort(-left, kind="stable")
        best, top = order[0], left[order[0]]
        far = (top - logits) / np.maximum(np.abs(logits), top)
        others = np.isfinite(left)
        # A logit that crosses the threshold changes the weights by a jump.
        margin = min(margin, left[best] - left[order[1]],
                     np.abs(far[others] - 2 * jitter).min())
        near = np.where(far > 2 * jitter, -np.inf, left)
        weights.append(softmax(near)[best])
        ids.append(best)
        left[best] = -np.inf
    return np.array(ids), np.array(weights), margin


def choose(rules, value, logits, bias, listed):
    """ids, scores and margin of one row; `listed` are ids given by a table."""
    scores = SCORES[rules.scoring](logits)
    if listed is not None:
        return listed, scores, np.inf
    choice = logits if rules.choose_by_logits else scores
    if bias is not None:
        choice = choice + bias
    margin = np.inf
    if rules.groups is not None and value(rules.groups) is not None:
        choice, margin = keep_groups(choice, value(rules.groups), value(rules.top_groups),
                                     rules.group_score, rules.dropped)
    ids, nearest = pick(choice, value(rules.k))
    return ids, scores, min(margin, nearest)


def route(rules, value, logits, bias=None, expert_scale=None, listed=None):
    """ids, weights and margin of one row of logits."""
    if rules.scoring == "sparsemixer":
        return sparsemixer(logits, value(rules.jitter))
    ids, scores, margin = choose(rules, value, logits, bias, listed)
    weights = scores[ids]
    if rules.scoring == "softmax_topk":
        weights = softmax(weights)
    if value(rules.renormalize):
        weights = weights / max(weights.sum() + rules.epsilon, value(rules.least))
    if rules.scale_on == "weights":
        weights = weights * value(rules.scale)
    if expert_scale is not None:
        weights = weights * expert_scale[ids]
    return ids, weights, margin
