"""One Mixture-of-Experts block in float64 numpy, straight from a checkpoint.

Written for reading, not for speed: it shares no code with the library, and so
shows that a golden file follows from the tensors beside it.
"""

import json

import numpy as np
import torch
from safetensors import safe_open


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
        return self.raw[name].to(torch.float64).numpy()


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def swiglu(x, gate, up, down):
    g = gate @ x
    return down @ (g * sigmoid(g) * (up @ x))


def moe_prefix(family, layer):
    inner = "block_sparse_moe" if family == "mixtral" else "mlp"
    return f"model.layers.{layer}.{inner}."


def expert(tensors, family, prefix, e):
    """gate, up and down of one expert, whichever way they are stored."""
    if prefix + "experts.gate_up_proj" in tensors:
        both = tensors[prefix + "experts.gate_up_proj"][e]
        half = both.shape[0] // 2
        return both[:half], both[half:], tensors[prefix + "experts.down_proj"][e]
    names = ("w1", "w3", "w2") if family == "mixtral" else ("gate_proj", "up_proj", "down_proj")
    return tuple(tensors[f"{prefix}experts.{e}.{n}.weight"] for n in names)


def route(config, family, logits, bias=None):
    """ids, weights and the scores that chose them, for one row of logits.

    Slots go by descending selection score, the lower id first among equals.
    The margin is the least distance between scores that would, if bridged,
    change the ids or their order.
    """
    k = config.num_experts_per_tok
    if family == "deepseek_v3":
        scores = sigmoid(logits)
        choice = scores + (0.0 if bias is None else bias)
        groups = choice.reshape(config.n_group, -1)
        best_two = np.sort(groups, axis=1)[:, -2:].sum(axis=1)
        group_order = np.argsort(-best_two, kind="stable")
        kept = np.zeros(config.n_group, bool)
        kept[group_order[: config.topk_group]] = True
        allowed = np.repeat(kept, groups.shape[1])
        choice = np.where(allowed, choice, -np.inf)
        last_in, first_out = group_order[config.topk_group - 1], group_order[config.topk_group]
        margin = best_two[last_in] - best_two[first_out]
    else:
        scores = np.exp(logits - logits.max())
        scores /= scores.sum()
        choice = scores
        margin = np.inf
    order = np.argsort(-choice, kind="stable")
    gaps = choice[order[:k]] - choice[order[1 : k + 1]]
    margin = min(margin, gaps.min())
    ids = order[:k]
    weights = scores[ids]
    if family == "mixtral" or config.norm_topk_prob:
        weights = weights / weights.sum()
    if family == "deepseek_v3":
        weights = weights * config.routed_scaling_factor
    return ids, weights, margin


def block(config, tensors, family, layer, hidden):
    """Router logits, ids, weights, margins and output of one block, [T, ...]."""
    prefix = moe_prefix(family, layer)
    router = tensors[prefix + "gate.weight"]
    bias_name = prefix + "gate.e_score_correction_bias"
    bias = tensors[bias_name] if bias_name in tensors else None
    experts = [expert(tensors, family, prefix, e) for e in range(router.shape[0])]
    result = {"router_logits": [], "topk_ids": [], "topk_weights": [], "margin": [], "output": []}
    unbiased = []
    for x in hidden:
        logits = router @ x
        ids, weights, margin = route(config, family, logits, bias)
        unbiased.append(route(config, family, logits)[0])
        y = np.zeros_like(x)
        for e, w in zip(ids, weights):
            y += w * swiglu(x, *experts[e])
        if prefix + "shared_experts.gate_proj.weight" in tensors:
            y += swiglu(x, *(tensors[f"{prefix}shared_experts.{n}_proj.weight"]
                             for n in ("gate", "up", "down")))
        if prefix + "shared_expert.gate_proj.weight" in tensors:
            open_by = sigmoid(tensors[prefix + "shared_expert_gate.weight"] @ x)
            y += open_by * swiglu(x, *(tensors[f"{prefix}shared_expert.{n}_proj.weight"]
                                       for n in ("gate", "up", "down")))
        for key, value in zip(result, (logits, ids, weights, margin, y)):
            result[key].append(value)
    result = {key: np.array(value) for key, value in result.items()}
    # How often the correction bias matters: rows that choose other experts
    # without it.
    result["bias_matters"] = np.mean(
        [set(a) != set(b) for a, b in zip(result["topk_ids"], unbiased)])
    return result
