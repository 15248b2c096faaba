"""Mixture-of-Experts layers from their formulas, in float64 numpy.

For families that Hugging Face transformers does not have, no library says what
a tiny checkpoint computes; this does. It is written for reading, one row at a
time, and shares nothing with the runtime that is tested by it.
"""

import math
from dataclasses import dataclass

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def sqrtsoftplus(x):
    return np.sqrt(np.log1p(np.exp(x)))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x) + eps) * weight


@dataclass(frozen=True)
class Activation:
    """What joins gate and up. `limit` 0: no clamp; `beta` and `linear_beta` are situ's,
    `alpha` is swigluoai's."""

    name: str = "silu"
    limit: float = 0.0
    beta: float = 0.0
    linear_beta: float = 0.0
    alpha: float = 0.0

    def __call__(self, g, u):
        if self.name == "silu":
            if self.limit:  # of what silu takes, which is not clamped from below
                g, u = np.minimum(g, self.limit), np.clip(u, -self.limit, self.limit)
            return silu(g) * u
        if self.name == "swigluoai":
            g, u = np.minimum(g, self.limit), np.clip(u, -self.limit, self.limit)
            return g * sigmoid(self.alpha * g) * (u + 1.0)
        if self.name == "gelu":
            return gelu(g) * u
        if self.name == "swiglustep":  # clamps what silu gives, not what it takes
            if self.limit == 0.0:
                return silu(g) * u
            return np.minimum(silu(g), self.limit) * np.clip(u, -self.limit, self.limit)
        if self.name == "situ":
            u = self.linear_beta * np.tanh(u / self.linear_beta)
            return self.beta * np.tanh(g / self.beta) * sigmoid(g) * u
        raise ValueError(self.name)


@dataclass(frozen=True)
class Rule:
    """From router logits to experts and weights."""

    k: int
    scoring: str = "softmax"  # or sigmoid, or sqrtsoftplus
    softcap: float = 0.0  # x -> cap * tanh(x / cap), before scoring
    renormalize: bool = False  # weights divided by their sum ...
    least_k: int = 1  # ... where at least so many experts are chosen
    scale: float = 1.0
    groups: int = 1  # experts are chosen from the best top_groups of these,
    top_groups: int = 1  # a group being as good as its two best together;
    each_group: bool = False  # or k / groups from each one


def scores_of(logits, rule):
    if rule.softcap:
        logits = rule.softcap * np.tanh(logits / rule.softcap)
    return {"softmax": softmax, "sigmoid": sigmoid, "sqrtsoftplus": sqrtsoftplus}[
        rule.scoring](logits)


def first(values, n):
    """Indices of the n greatest, the lower first among equals; distance to the next below."""
    order = np.argsort(-values, kind="stable")
    if n == len(values):
        return order, np.inf
    return order[:n], values[order[n - 1]] - values[order[n]]


def allowed(choice, rule):
    """Which experts the groups leave, as a score, and how clearly."""
    if rule.groups == 1 or rule.each_group:
        return choice, np.inf
    groups = choice.reshape(rule.groups, -1)
    best_two = np.sort(groups, axis=1)[:, -2:].sum(axis=1)
    kept, margin = first(best_two, rule.top_groups)
    mask = np.full_like(groups, -np.inf)
    mask[kept] = 0.0
    return (groups + mask).ravel(), margin


def route(logits, rule, bias=None):
    """ids by descending selection score, weights, and the least distance
    between scores that would change ids or their order if bridged."""
    scores = scores_of(logits, rule)
    choice = scores if bias is None else scores + bias
    masked, margin = allowed(choice, rule)
    if rule.each_group:
        size = len(choice) // rule.groups
        parts = [first(part, rule.k // rule.groups) for part in masked.reshape(rule.groups, size)]
        ids = np.concatenate([i * size + part for i, (part, _) in enumerate(parts)])
        margin = min(gap for _, gap in parts)
    else:
        ids, gap = first(masked, rule.k)
        margin = min(margin, gap)
    ids = ids[np.lexsort((ids, -choice[ids]))]
    if len(ids) > 1:
        margin = min(margin, (choice[ids[:-1]] - choice[ids[1:]]).min())
    weights = scores[ids]
    if rule.renormalize and rule.k >= rule.least_k:
        weights = weights / weights.sum()
    return ids, weights * rule.scale, margin


@dataclass
class Mlp:
    gate: np.ndarray  # [width, in]
    up: np.ndarray  # [width, in]
    down: np.ndarray  # [in, width]

    def __call__(self, x, activation):
        return self.down @ activation(self.gate @ x, self.up @ x)


@dataclass
class Layer:
    """The tensors and rules of one Mixture-of-Experts layer; None: has none."""

    rule: Rule
    activation: Activation
    router: np.ndarray  # [E, H]
    experts: list
    bias: np.ndarray | None = None  # [E], for the choice alone
    router_bias: np.ndarray | None = None  # [E], of the logits
    shared: Mlp | None = None
    shared_activation: Activation | None = None  # None: as the experts'
    shared_gate: np.ndarray | None = None  # [1, H]: sigmoid of it opens the shared experts
    latent_down: np.ndarray | None = None  # [L, H]: experts work in this space
    latent_up: np.ndarray | None = None  # [H, L]
    latent_norm: np.ndarray | None = None  # [L], of the experts' sum before it goes up
    norm_eps: float = 0.0
    weight_on_input: bool = False  # the weight multiplies what an expert reads


def routed(layer, x, ids, weights):
    inner = x if layer.latent_down is None else layer.latent_down @ x
    if layer.weight_on_input:
        y = sum(layer.experts[e](w * inner, layer.activation) for e, w in zip(ids, weights))
    else:
        y = sum(w * layer.experts[e](inner, layer.activation) for e, w in zip(ids, weights))
    if layer.latent_norm is not None:
        y = rms_norm(y, layer.latent_norm, layer.norm_eps)
    return y if layer.latent_up is None else layer.latent_up @ y


def shared(layer, x):
    if layer.shared is None:
        return 0.0
    y = layer.shared(x, layer.shared_activation or layer.activation)
    return y if layer.shared_gate is None else y * sigmoid(layer.shared_gate @ x)


def run(layer, rows):
    """Logits, ids, weights, output and margin of every row."""
    got = dict(router_logits=[], topk_ids=[], topk_weights=[], output=[], margin=[])
    for x in rows:
        logits = layer.router @ x
        if layer.router_bias is not None:
            logits = logits + layer.router_bias
        ids, weights, margin = route(logits, layer.rule, layer.bias)
        y = routed(layer, x, ids, weights) + shared(layer, x)
        for key, value in zip(got, (logits, ids, weights, y, margin)):
            got[key].append(value)
    return {key: np.array(value) for key, value in got.items()}
