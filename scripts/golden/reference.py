"""One Mixture-of-Experts block in float64 numpy, straight from a checkpoint.

Written for reading, not for speed: it shares no code with the library, and so
shows that a golden file follows from the tensors beside it. What differs from
family to family is in the tables that `rules.py` explains.
"""

import json
import math
from dataclasses import replace

import numpy as np
import torch
from safetensors import safe_open

from golden.routing import route, sigmoid


class Tensors:
    """All tensors of a checkpoint folder, single file or sharded."""

    def __init__(self, folder):
        index = folder / "model.safetensors.index.json"
        if index.exists():
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        else:
            names = ["model.safetensors"]
        self.raw = {}
        for name in names:
            with safe_open(folder / name, framework="pt") as f:
                for key in f.keys():
                    self.raw[key] = f.get_tensor(key)

    def __contains__(self, name):
        return name in self.raw

    def __getitem__(self, name):
        tensor = self.raw[name]
        return tensor.numpy() if tensor.dtype == torch.int64 else tensor.double().numpy()


def read_config(folder, rules):
    """The part of config.json that the language model's keys are in."""
    config = json.loads((folder / "config.json").read_text())
    for key in filter(None, rules.text.split(".")):
        config = config[key]
    return config


def unit(x, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


ACTIVATIONS = {
    "silu": lambda x: x * sigmoid(x),
    "relu2": lambda x: np.maximum(x, 0.0) ** 2,
    "gelu_tanh": lambda x: 0.5 * x * (
        1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
}


class Layer:
    """The tensors and numbers of one layer under a family's rules."""

    def __init__(self, rules, config, tensors, index):
        self.rules, self.config, self.tensors, self.index = rules, config, tensors, index
        self.prefix = f"{rules.layers}{index}."
        self.counts = np.zeros(2)  # values that a limit changes, and all of them

    def value(self, said):
        """A number of the rules: a key of the config, or itself."""
        found = said
        if isinstance(said, str):
            found = self.config
            for key in said.split("."):
                found = found[key]
        if isinstance(found, list):
            found = found[self.index]
        return found

    def has(self, name):
        return bool(name) and self.prefix + name in self.tensors

    def tensor(self, name):
        return self.tensors[self.prefix + name] if self.has(name) else None

    def matrices(self, layout, e=None):
        """gate, up, down as [out, in] (gate none if there is none), and biases."""

        def one(name):
            if not name:
                return None
            whole = self.tensors[self.prefix + name.format(e=e)]
            if e is None or "{e}" in name:
                return whole
            if layout.flat:
                rows = self.value(layout.flat)
                return whole[e * rows : (e + 1) * rows]
            return whole[e]

        gate, up, both, down = (one(n) for n in (
            layout.gate, layout.up, layout.gate_up, layout.down))
        if layout.transposed:
            gate, up, both, down = (m if m is None else m.T for m in (gate, up, both, down))
        if layout.flat:
            down = down.T
        bias, down_bias = one(layout.gate_up_bias), one(layout.down_bias)
        gate_bias = up_bias = 0.0
        if both is not None:
            gate, up = halves(both, layout.interleaved)
        if bias is not None:
            gate_bias, up_bias = halves(bias, layout.interleaved)
        return (gate, up, down), (gate_bias, up_bias, 0.0 if down_bias is None else down_bias)


def halves(both, interleaved):
    half = len(both) // 2
    return (both[0::2], both[1::2]) if interleaved else (both[:half], both[half:])


def feed_forward(rules, value, x, matrices, limit, counts=None):
    """One expert: x through gate and up, the activation, and down.

    `counts` is told how many values the limit changes, and of how many.
    """
    (gate, up, down), (gate_bias, up_bias, down_bias) = matrices
    act = ACTIVATIONS[rules.act]
    limit = value(limit) or math.inf
    u = up @ x + up_bias
    if gate is None:
        return down @ act(u) + down_bias
    g = gate @ x + gate_bias
    if counts is not None:
        counts += (np.abs(u) > limit).sum() + (g > limit).sum(), 2 * len(u)
    u = np.clip(u, -limit, limit)
    if rules.limit_after:
        return down @ (np.minimum(act(g), limit) * u) + down_bias
    g = np.minimum(g, limit)
    if rules.alpha is not None:
        return down @ (g * sigmoid(value(rules.alpha) * g) * (u + 1.0)) + down_bias
    return down @ (act(g) * u) + down_bias


def router_logits(layer, x):
    rules, value = layer.rules, layer.value
    if rules.router_input == "unit":
        x = unit(x, value(rules.norm_eps)) * layer.tensor(rules.router_scale) * len(x) ** -0.5
    matrix = layer.tensor(rules.router)
    logits = (matrix.T if rules.router_transposed else matrix) @ x
    if layer.has(rules.router_bias):
        logits = logits + layer.tensor(rules.router_bias)
    return logits


def shaped(layer, logits):
    """Logits as the score function sees them."""
    logits = logits * layer.value(layer.rules.logit_scale)
    cap = layer.value(layer.rules.softcap)
    return cap * np.tanh(logits / cap) if cap else logits


def experts_input(layer, hidden):
    """The rows that experts read, if the router does not read the same."""
    return unit(hidden, layer.value(layer.rules.norm_eps)) * layer.tensor(layer.rules.input_norm)


def routed(layer, experts, x, ids, weights):
    """The weighted sum of the chosen experts' outputs."""
    rules, value = layer.rules, layer.value
    if layer.has(rules.input_norm):
        x = experts_input(layer, x)
    if layer.has(rules.latent_in):
        x = layer.tensor(rules.latent_in) @ x
    if layer.has(rules.latent_norm):
        x = unit(x, value(rules.norm_eps)) * (1.0 + layer.tensor(rules.latent_norm))
    y = np.zeros_like(x)
    for e, w in zip(ids, weights):
        if e >= len(experts):
            y += w * x  # a zero expert
        elif rules.weight_on_input:
            y += feed_forward(rules, value, w * x, experts[e], rules.limit)
        else:
            out = feed_forward(rules, value, x, experts[e], rules.limit, layer.counts)
            if layer.has(rules.expert_norm):
                out = unit(out * (1.0 + layer.tensor(rules.expert_norm)),
                           value(rules.expert_norm_eps))
            y += w * out
    if rules.scale_on == "output":
        y = y * value(rules.scale)
    if layer.has(rules.latent_out):
        y = layer.tensor(rules.latent_out) @ y
    return y


def add_shared(layer, shared, x, y):
    rules, value = layer.rules, layer.value
    if shared is not None:
        limit = rules.limit if rules.shared_limit is None else rules.shared_limit
        s = feed_forward(rules, value, x, shared, limit)
        if layer.has(rules.shared_gate):
            s = s * sigmoid(layer.tensor(rules.shared_gate) @ x)
        y = y + s
        if rules.shared_combine != "sum" and value(rules.shared_combine) == "average":
            y = y / 2.0
    return y + layer.tensor(rules.output_bias) if layer.has(rules.output_bias) else y


def differ(ids, others):
    return np.mean([set(a) != set(b) for a, b in zip(ids, others)])


def block(rules, config, tensors, index, hidden, token_ids=None):
    """Router logits, ids, weights, margins and output of one block, [T, ...]."""
    layer = Layer(rules, config, tensors, index)
    bias = layer.tensor(rules.selection_bias)
    bias = None if bias is None else bias.reshape(-1)
    table = layer.tensor(rules.table)
    expert_scale = layer.tensor(rules.expert_scale)
    raw = np.array([router_logits(layer, x) for x in hidden])
    logits = shaped(layer, raw)
    count = logits.shape[1] - layer.value(rules.zero_experts)
    experts = [layer.matrices(rules.experts, e) for e in range(count)]
    shared = layer.matrices(rules.shared) if rules.shared else None
    keys = ("topk_ids", "topk_weights", "margin", "output")
    result = {key: [] for key in keys}
    unbiased, ungrouped = [], []
    no_groups = replace(rules, groups=None)
    for t, x in enumerate(hidden):
        listed = None if table is None else table[token_ids[t]]
        ids, weights, margin = route(rules, layer.value, logits[t], bias, expert_scale, listed)
        unbiased.append(route(rules, layer.value, logits[t], None, None, listed)[0])
        ungrouped.append(route(no_groups, layer.value, logits[t], bias, None, listed)[0])
        y = add_shared(layer, shared, x, routed(layer, experts, x, ids, weights))
        for key, got in zip(keys, (ids, weights, margin, y)):
            result[key].append(got)
    result = {key: np.array(got) for key, got in result.items()}
    result["router_logits"], result["shaped_logits"] = raw, logits
    if layer.has(rules.input_norm):
        result["experts_input"] = experts_input(layer, hidden)
    # How often bias and groups matter: rows that choose other experts without.
    result["bias_matters"] = differ(result["topk_ids"], unbiased)
    result["groups_matter"] = differ(result["topk_ids"], ungrouped)
    result["limited"] = layer.counts[0] / max(layer.counts[1], 1.0)
    return result
