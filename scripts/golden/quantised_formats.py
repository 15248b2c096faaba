"""Matrices as releases store them: bytes from ml_dtypes and numpy, never MoERT's own.

A format is called with a generator, a shape [out, in] and the size that values
have; it gives a Coded. Scales differ by orders of magnitude between blocks, so
that one in the wrong place is seen; some blocks are zero, some have only
subnormal codes. `wrong` are readings that a loader could take for right.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from golden.quantised_codes import (
    bf16, e2m1, e2m1_values, e4m3, e4m3_values, e8m0_above, e8m0_values, f32, nibbles)

# Least and largest power of two between the sizes of blocks.
SMALLEST, LARGEST = -4, 3


@dataclass
class Coded:
    """One matrix: its tensors by suffix, and what they mean."""

    tensors: dict
    value: np.ndarray  # [out, in]
    beside: dict = field(default_factory=dict)  # what rounding of its input needs
    wrong: dict = field(default_factory=dict)


def as_torch(array, kind):
    """An array of bytes or numbers as a torch tensor of a type."""
    if kind in (torch.float8_e4m3fn, torch.float8_e8m0fnu):
        return torch.from_numpy(np.ascontiguousarray(array, np.uint8)).view(kind)
    return torch.from_numpy(np.array(array)).to(kind).contiguous()


def spread(rng, blocks, zero=True):
    """For each block its size, and whether it has only subnormal codes. Size 0: zeros."""
    size = 2.0 ** rng.integers(SMALLEST, LARGEST + 1, blocks)
    size = size / np.sqrt((size * size).mean())
    odd = np.zeros(blocks, int)
    n = odd.size
    if n > 1:  # never the whole matrix
        some = rng.permutation(n)[:min(n // 3, 6) or rng.integers(2)]
        kinds = np.arange(len(some)) + rng.integers(2)
        odd.flat[some] = 1 + kinds % (2 if zero else 1)
    return np.where(odd == 2, 0.0, size), odd == 1


def over(blocks, shape, block):
    """Numbers of blocks as numbers of elements; partial blocks at the ends."""
    return np.repeat(np.repeat(blocks, block[0], 0), block[1], 1)[:shape[0], :shape[1]]


def most(values, block):
    """The largest of each block."""
    rows, columns = range(0, values.shape[0], block[0]), range(0, values.shape[1], block[1])
    return np.array([[np.abs(values[r:r + block[0], c:c + block[1]]).max() for c in columns]
                     for r in rows])


def elsewhere(scales, shape, block):
    """Scales of other blocks: the next along each axis that has another, and transposed ones."""
    found = {}
    for axis, name in ((0, "scales of the next row of blocks"), (1, "scales of the next column")):
        if scales.shape[axis] > 1:
            found[name] = over(np.roll(scales, 1, axis), shape, block)
    if min(scales.shape) > 1:
        found["transposed scales"] = over(scales.T.reshape(scales.shape), shape, block)
    return found


def drawn(rng, shape, gain, block, zero=True):
    """Values, and the largest of each block; `small` blocks are for subnormal codes."""
    count = tuple(-(-n // b) for n, b in zip(shape, block))
    size, small = spread(rng, count, zero)
    values = gain * rng.standard_normal(shape) * over(size, shape, block)
    return values, most(values, block), small


def float8(scale_kind, suffix, block=None, power=False):
    """e4m3fn with a scale for each block, or for each row where `block` is None."""

    def write(rng, shape, gain):
        size = block or (1, shape[1])
        values, top, small = drawn(rng, shape, gain, size)
        scale = np.where(top > 0, top, 1.0) / np.where(small, 0.0136, 448.0)
        if scale_kind == torch.float8_e8m0fnu or power:
            stored = e8m0_above(scale)
            scale = e8m0_values(stored)
            stored = scale if scale_kind == torch.float32 else stored
        else:
            scale = stored = bf16(scale) if scale_kind == torch.bfloat16 else f32(scale)
        each = over(scale, shape, size)
        codes = e4m3(values / each)
        codes[-1, ::5] = 0x80  # a negative zero is zero
        value = e4m3_values(codes)
        wrong = {"divided by its scale": value / each, "without its scale": value,
                 "0x80 is no zero": np.where(codes == 0x80, -448.0, value) * each}
        wrong.update({name: value * other for name, other in elsewhere(scale, shape, size).items()})
        if (np.abs(value) < 2.0**-6)[value != 0].mean() > 0.05:
            wrong["subnormal codes are zeros"] = np.where(np.abs(value) < 2.0**-6, 0, value) * each
        return Coded({"weight": as_torch(codes, torch.float8_e4m3fn),
                      suffix: as_torch(stored, scale_kind)}, value * each, wrong=wrong)

    return write


def int8(rng, shape, gain):
    """Eight bits and a scale for each row."""
    values, top, _ = drawn(rng, shape, gain, (1, shape[1]))
    scale = bf16(np.where(top > 0, top, 1.0) / 127.0)
    codes = np.clip(np.rint(values / scale), -128, 127)
    codes[:, 3] = np.where(scale[:, 0] > np.median(scale), codes[:, 3], -128)
    return Coded({"weight": as_torch(codes, torch.int8),
                  "weight_scale": as_torch(scale, torch.bfloat16)}, codes * scale,
                 wrong={"unsigned": np.where(codes < 0, codes + 256, codes) * scale,
                        "scales of the next row": codes * np.roll(scale, 1, 0),
                        "without its scale": codes})


def mxfp8(rng, shape, gain):
    """e4m3fn with a power of two for each 32 of a row."""
    block = (1, 32)
    values, top, small = drawn(rng, shape, gain, block)
    exponents = e8m0_above(np.where(top > 0, top, 1.0) / np.where(small, 0.0136, 448.0))
    exponents = np.where(top > 0, exponents, 254).astype(np.uint8)  # zeros have any scale
    scale = e8m0_values(exponents)
    each = over(scale, shape, block)
    codes = e4m3(values / each)
    value = e4m3_values(codes)
    wrong = {name: value * other for name, other in elsewhere(
        np.minimum(scale, 2.0**20), shape, block).items()}
    wrong["subnormal codes are zeros"] = np.where(np.abs(value) < 2.0**-6, 0, value) * each
    return Coded({"weight": as_torch(codes, torch.float8_e4m3fn),
                  "weight_scale": as_torch(exponents, torch.uint8)}, value * each, wrong=wrong)


def swapped(value):
    """Pairs of columns in the other order."""
    return value.reshape(value.shape[0], -1, 2)[:, :, ::-1].reshape(value.shape)


def mxfp4(rng, shape, gain):
    """e2m1 with a power of two for each 32 of a row, in the arrays' own shapes."""
    block = (1, 32)
    values, top, small = drawn(rng, shape, gain, block)
    exponents = e8m0_above(np.where(top > 0, top, 1.0) / 6.0)
    # Zeros have any scale, and what has nearly none is nearly zero.
    exponents = np.where(top > 0, exponents, 254)
    exponents = np.where(small & (np.arange(small.size).reshape(small.shape) % 2 == 1),
                         rng.integers(0, 40, small.shape), exponents).astype(np.uint8)
    scale = e8m0_values(exponents)
    tiny = exponents < 100
    codes = e2m1(np.where(over(tiny, shape, block), 3 * rng.standard_normal(shape),
                          values / over(scale, shape, block)))
    value = e2m1_values(codes)
    each = over(scale, shape, block)
    wrong = {name: value * other for name, other in elsewhere(
        np.minimum(scale, 2.0**20), shape, block).items()}
    wrong["high nibble first"] = swapped(value) * each
    wrong["0.5 is zero"] = np.where(np.abs(value) == 0.5, 0, value) * each
    wrong["exponent 0 means 1"] = value * np.where(over(tiny, shape, block), 1.0, each)
    return Coded(dict(codes=codes, exponents=exponents), value * each, wrong=wrong)


def mxfp4_i8(rng, shape, gain):
    """The same as DeepSeek-V4 has it: bytes of type I8 and scales of type F8_E8M0."""
    coded = mxfp4(rng, shape, gain)
    packed = nibbles(coded.tensors["codes"]).view(np.int8)
    coded.tensors = {"weight": as_torch(packed, torch.int8),
                     "scale": as_torch(coded.tensors["exponents"], torch.float8_e8m0fnu)}
    return coded


def nvfp4(names, reciprocal):
    """e2m1, an e4m3fn for each 16 of a row and one global scale, or `reciprocal` its inverse."""
    packed, global_name, input_name = names

    def write(rng, shape, gain, g=1.0):
        block = (1, 16)
        values, top, small = drawn(rng, shape, gain, block)
        whole = f32(top.max() / (448.0 * 6.0) * rng.uniform(1.0, 4.0))
        stored = f32(1.0 / whole) if reciprocal else whole
        g_stored = f32(1.0 / g) if reciprocal else f32(g)
        if reciprocal:
            whole, g = 1.0 / stored, 1.0 / g_stored
        # Where the e4m3fn is too small for a block, its codes saturate.
        blocks = e4m3(np.where(small, np.minimum(top, whole * 0.05), top) / 6.0 / whole)
        scale = e4m3_values(blocks)
        each = over(scale, shape, block) * whole
        codes = e2m1(values / np.where(each > 0, each, 1.0))
        value = e2m1_values(codes)
        wrong = {name: value * other * whole for name, other in elsewhere(
            scale, shape, block).items()}
        wrong["high nibble first"] = swapped(value) * each
        wrong["without its global scale"] = value * each / whole
        wrong["the global scale's inverse"] = value * each / whole / whole
        return Coded(
            {packed: as_torch(nibbles(codes), torch.uint8),
             "weight_scale": as_torch(blocks, torch.float8_e4m3fn),
             global_name: as_torch([stored] if reciprocal else stored, torch.float32),
             input_name: as_torch([g_stored] if reciprocal else g_stored, torch.float32)},
            value * each, beside={"g": float(g)}, wrong=wrong)

    write.needs_g = True
    return write


MODELOPT = ("weight", "weight_scale_2", "input_scale")
COMPRESSED = ("weight_packed", "weight_global_scale", "input_global_scale")


def int4(rng, shape, gain):
    """compressed-tensors: symmetric codes plus 8, eight to a word, a scale for 32 of a row."""
    block = (1, 32)
    values, top, small = drawn(rng, shape, gain, block)
    scale = bf16(np.where(top > 0, top, gain) / np.where(small, 1.6, 7.5))
    each = over(scale, shape, block)
    codes = np.clip(np.rint(values / each), -8, 7).astype(np.int64)
    words = sum((codes + 8)[:, p::8] << 4 * p for p in range(8))
    wrong = {name: codes * other for name, other in elsewhere(scale, shape, block).items()}
    wrong["two's complement"] = np.where(codes >= 0, codes - 8, codes + 8) * each
    wrong["the last code first"] = codes.reshape(shape[0], -1, 8)[:, :, ::-1].reshape(shape) * each
    wrong["unsigned"] = (codes + 8) * each
    return Coded({"weight_packed": as_torch(words.astype(np.uint32).view(np.int32), torch.int32),
                  "weight_scale": as_torch(scale, torch.bfloat16),
                  "weight_shape": as_torch(list(shape), torch.int32)}, codes * each, wrong=wrong)
