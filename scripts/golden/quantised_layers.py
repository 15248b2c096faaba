"""Layers of quantised matrices: drawing them, and what they compute.

Experts are those of maths.py, but for the rounding of what each matrix reads;
sums are float64 of decoded weights, and what comes between gate, up and down is
rounded to float32.
"""

import copy
import zlib
from dataclasses import dataclass, replace

import numpy as np
import torch

from golden import maths
from golden.quantised_codes import bf16, f16, f32, group128_ue8m0, mx, plain
from golden.quantised_formats import Coded, as_torch

PARTS = ("gate", "up", "down")
POWERS = (group128_ue8m0, mx)


def generator(seed, name):
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


@dataclass
class Mlp:
    """Three Coded matrices, perhaps with biases, and the rule of what they read."""

    gate: Coded
    up: Coded
    down: Coded
    act: object = plain
    bias: dict | None = None  # of parts
    jitter: float = 0.0  # changes what is rounded, to see that no code hangs on it

    def __call__(self, x, activation):
        def apply(part, x):
            y = getattr(self, part).value @ x
            return y if self.bias is None else y + self.bias[part]

        def moved(x):
            return x * (1.0 + self.jitter * np.cos(np.arange(len(x)) * 7.0)) if self.jitter else x

        # Rows of bfloat16 over a power of two are exact, ties and all.
        x = f32(x if self.act in POWERS else moved(x))
        middle = moved(activation(apply("gate", self.act(x, self.gate.beside)),
                                  apply("up", self.act(x, self.up.beside))))
        return apply("down", self.act(f32(middle), self.down.beside))


def bfloat16(rng, shape, gain):
    """No quantisation: for layers and experts that a release leaves as they were."""
    value = bf16(gain * rng.standard_normal(shape))
    return Coded({"weight": as_torch(value, torch.bfloat16)}, value)


def matrix(fmt, seed, name, shape, gain, g=None):
    rng = generator(seed, name)
    return fmt(rng, shape, gain, g) if getattr(fmt, "needs_g", False) else fmt(rng, shape, gain)


def draw_mlp(seed, name, hidden, width, fmt, act, biases=False):
    """Gains as in written.py. Gate and up of an expert have one global scale of their input."""
    rng = generator(seed, name + ".scales")
    g_in, g_mid = f32(rng.uniform(0.8, 1.6, 2) * (4.0, 6.0) / (448.0 * 6.0))
    shapes = {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    gains = {"gate": 1.2 / np.sqrt(hidden), "up": 1.2 / np.sqrt(hidden), "down": 2 / np.sqrt(width)}
    coded = {part: matrix(fmt, seed, f"{name}.{part}", shapes[part], gains[part],
                          g_mid if part == "down" else g_in) for part in PARTS}
    bias = None
    if biases:
        bias = {part: bf16(0.3 * generator(seed, f"{name}.{part}.bias").standard_normal(
            shapes[part][0])) for part in PARTS}
    return Mlp(**coded, act=act, bias=bias)


def draw_layer(spec, i):
    """The layer `i` of a spec."""
    block, at, seed, hidden = spec.blocks[i], f"layers.{i}", spec.seed, spec.hidden
    fmt, act = block.format, block.act
    router = bf16(1.5 / np.sqrt(hidden) * generator(seed, at + ".router").standard_normal(
        (block.experts, hidden)))
    layer = maths.Layer(
        rule=block.rule, activation=block.activation, weight_on_input=block.weight_on_input,
        router=f16(router) if spec.kind == torch.float16 else router,
        experts=[draw_mlp(seed, f"{at}.experts.{e}", hidden, block.width, fmt, act,
                          block.expert_bias) for e in range(block.experts)])
    if block.bias:
        layer.bias = f32(0.1 * generator(seed, at + ".bias").standard_normal(block.experts))
    if block.router_bias:
        layer.router_bias = bf16(0.5 * generator(seed, at + ".router_bias").standard_normal(
            block.experts))
    if block.shared:
        layer.shared = draw_mlp(seed, at + ".shared", hidden, block.shared,
                                block.shared_format or fmt, block.shared_act or act)
    if block.shared_gate:
        layer.shared_gate = bf16(generator(seed, at + ".shared_gate").standard_normal(
            (1, hidden)) / np.sqrt(hidden))
    return layer


def changed(layer, change):
    """A copy of a layer in which `change` was applied to every MLP."""
    other = copy.copy(layer)
    other.experts = [change(copy.copy(e)) for e in layer.experts]
    if layer.shared is not None:
        other.shared = change(copy.copy(layer.shared))
    return other


def misread(layer, name):
    """The layer as read by a loader with one mistake."""

    def change(mlp):
        for part in PARTS:
            coded = getattr(mlp, part)
            setattr(mlp, part, Coded({}, coded.wrong.get(name, coded.value), coded.beside))
        return mlp

    return changed(layer, change)


def with_setting(layer, **settings):
    """The layer with, say, act=plain or a jitter in every MLP."""

    def change(mlp):
        for key, value in settings.items():
            setattr(mlp, key, value)
        return mlp

    return changed(layer, change)


def exchanged(gate, up):
    return up, gate


def halves(gate, up):
    """Rows that take turns, read as gate before up."""
    rows = np.stack([gate, up], 1).reshape(2 * len(gate), *gate.shape[1:])
    return rows[:len(gate)], rows[len(gate):]


def in_order(layer, order):
    """The layer with other rows as gate and up of its routed experts."""
    other = copy.copy(layer)
    other.experts = []
    for mlp in layer.experts:
        gate, up = order(mlp.gate.value, mlp.up.value)
        bias = mlp.bias
        if bias is not None:
            bias = dict(bias, **dict(zip(("gate", "up"), order(bias["gate"], bias["up"]))))
        other.experts.append(replace(mlp, gate=Coded({}, gate, mlp.gate.beside),
                                     up=Coded({}, up, mlp.up.beside), bias=bias))
    return other


def mistakes(layer):
    mlps = layer.experts + ([layer.shared] if layer.shared else [])
    return sorted({name for mlp in mlps for part in PARTS for name in getattr(mlp, part).wrong})


def drawn_rows(spec, i, count):
    """Rows of bfloat16 numbers: with zero columns at the end, with tiny ones, with outliers."""
    rng = generator(spec.seed, f"layers.{i}.hidden_states")
    rows = rng.standard_normal((count, spec.hidden))
    last = 128 if spec.hidden > 128 else spec.hidden - 16
    rows[1::6, last:] = 0.0
    rows[2::6, last:] *= 2.0**-14
    rows[3::6, 5] *= 32.0
    rows[4::6] *= 2.0**-3
    return bf16(rows)
