"""What a folder of quantised.py is, and how its tensors are named and written."""

from dataclasses import dataclass, field

import numpy as np
import torch

from golden.maths import Activation, Rule
from golden.quantised_codes import bf16, nibbles, plain
from golden.quantised_formats import as_torch
from golden.quantised_layers import generator, matrix

GUD = ("gate_proj", "up_proj", "down_proj")
W132 = ("w1", "w3", "w2")
VOCAB = 6


@dataclass(frozen=True)
class Block:
    """One Mixture-of-Experts layer: sizes, rules, format of its matrices."""

    experts: int
    width: int
    rule: Rule
    format: object
    act: object = plain
    activation: Activation = Activation()
    bias: bool = False  # for the choice
    router_bias: bool = False
    expert_bias: bool = False
    shared: int = 0
    shared_gate: bool = False
    shared_format: object = None  # None: as the experts'
    shared_act: object = None
    weight_on_input: bool = False


@dataclass(frozen=True)
class Names:
    """Where the tensors of a layer are, after the layer's prefix."""

    router: str = "gate.weight"
    bias: str = "gate.e_score_correction_bias"
    router_bias: str = "router.bias"
    experts: str = "experts.{e}."
    parts: tuple = GUD
    shared: str = "shared_experts."
    shared_gate: str = "shared_expert_gate.weight"
    stacked: bool = False  # gpt-oss: the experts of a layer in blocks and scales


@dataclass(frozen=True)
class Spec:
    """One folder."""

    folder: str
    family: str
    seed: int
    hidden: int
    config: dict
    blocks: dict  # layer number: Block
    prefix: str  # of a layer's tensors, with {i}
    names: Names
    plain: dict = field(default_factory=dict)  # {name: shape} of unquantised tensors elsewhere
    coded: dict = field(default_factory=dict)  # {module: shape} of quantised matrices elsewhere
    coded_format: object = None
    extra: dict = field(default_factory=dict)  # {name: (type, shape)} of tensors beside those
    kind: torch.dtype = torch.bfloat16  # of what is not quantised
    files: dict = field(default_factory=dict)  # {name: what} of further JSON files
    rows: int = 24
    activations: str = "none"  # what the numbers in activations' place are rounded to


def stacked(prefix, experts):
    """gpt-oss: [E, rows, groups, 16] bytes, rows of gate and up taking turns."""

    def turns(gate, up):
        return np.stack([gate, up], 1).reshape(2 * len(gate), *gate.shape[1:])

    def get(part, key):
        return [getattr(e, part).tensors[key] for e in experts]

    for name, codes, exponents, bias in (
            ("gate_up_proj", *(
                [turns(g, u) for g, u in zip(get("gate", key), get("up", key))]
                for key in ("codes", "exponents")),
             [turns(e.bias["gate"], e.bias["up"]) for e in experts]),
            ("down_proj", get("down", "codes"), get("down", "exponents"),
             [e.bias["down"] for e in experts])):
        packed = nibbles(np.stack(codes))
        yield f"{prefix}{name}_blocks", as_torch(
            packed.reshape(*packed.shape[:2], -1, 16), torch.uint8)
        yield f"{prefix}{name}_scales", as_torch(np.stack(exponents), torch.uint8)
        yield f"{prefix}{name}_bias", as_torch(np.stack(bias), torch.bfloat16)


def mlp_tensors(prefix, mlp, parts):
    for part, name in zip((mlp.gate, mlp.up, mlp.down), parts):
        for suffix, tensor in part.tensors.items():
            yield f"{prefix}{name}.{suffix}", tensor


def layer_tensors(spec, i, layer):
    names, prefix = spec.names, spec.prefix.format(i=i)
    yield prefix + names.router, as_torch(layer.router, spec.kind)
    if layer.bias is not None:
        yield prefix + names.bias, as_torch(layer.bias, torch.float32)
    if layer.router_bias is not None:
        yield prefix + names.router_bias, as_torch(layer.router_bias, spec.kind)
    if names.stacked:
        yield from stacked(prefix + "experts.", layer.experts)
    else:
        for e, expert in enumerate(layer.experts):
            yield from mlp_tensors(prefix + names.experts.format(e=e), expert, names.parts)
    if layer.shared is not None:
        yield from mlp_tensors(prefix + names.shared, layer.shared, names.parts)
    if layer.shared_gate is not None:
        yield prefix + names.shared_gate, as_torch(layer.shared_gate, spec.kind)


def outside_tensors(spec):
    for name, shape in spec.plain.items():
        value = 0.5 * generator(spec.seed, name).standard_normal(shape)
        yield name, as_torch(bf16(1.0 + 0.2 * value if "norm" in name else value), spec.kind)
    for module, shape in spec.coded.items():
        coded = matrix(spec.coded_format, spec.seed, module, shape, shape[1] ** -0.5, 1e-3)
        for suffix, tensor in coded.tensors.items():
            yield f"{module}.{suffix}", tensor
    for name, (kind, shape) in spec.extra.items():
        yield name, as_torch(generator(spec.seed, name).uniform(0.1, 1.0, shape), kind)


def model_tensors(spec, layers):
    found = dict(outside_tensors(spec))
    for i, layer in layers.items():
        found.update(layer_tensors(spec, i, layer))
    return found


def usual(root, hidden, layers, head="lm_head.weight",
          norms=("input_layernorm", "post_attention_layernorm"), embed="embed_tokens"):
    """{name: shape} of embeddings and norms."""
    names = {f"{root}{embed}.weight": (VOCAB, hidden), f"{root}norm.weight": (hidden,),
             head: (VOCAB, hidden)}
    for i in range(layers):
        names.update({f"{root}layers.{i}.{norm}.weight": (hidden,) for norm in norms})
    return names


def modules(prefix, **shapes):
    return {f"{prefix}{name}": shape for name, shape in shapes.items()}


def weights(coded):
    """The same modules without quantisation."""
    return {f"{module}.weight": shape for module, shape in coded.items()}


def dense(prefix, hidden, width, names=GUD):
    """{module: shape} of the MLP of a layer without experts."""
    return {prefix + name: shape for name, shape in zip(
        names, ((width, hidden), (width, hidden), (hidden, width)))}
