"""AWQ and GPTQ: four bits in words of 32, groups along the input, zero points.

Both store a matrix the other way round, [in, out]. AWQ puts eight neighbouring
outputs into a word, in an order of its own; GPTQ eight neighbouring inputs.
"""

import numpy as np
import torch

from golden.quantised_codes import f16
from golden.quantised_formats import Coded, as_torch, spread

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # AWQ: which output is at each position, from the low bits
PLAIN = tuple(range(8))
GROUP = 32


def word(codes, axis, order=PLAIN):
    """Eight codes along an axis to a word, the one named first lowest."""
    codes = np.moveaxis(codes.astype(np.int64), axis, -1)
    eights = codes.reshape(*codes.shape[:-1], -1, 8)
    words = sum(eights[..., c] << 4 * p for p, c in enumerate(order))
    return np.moveaxis(words.astype(np.uint32).view(np.int32), -1, axis)


def unequal(rng, wide, high, gain, group_of):
    """[in, out] codes, zero points and scales; groups differ in size and in where zero is."""
    groups = wide // GROUP
    size, small = spread(rng, (groups, high), zero=False)
    size = size[group_of]
    values = gain * rng.standard_normal((wide, high)) * size
    zeros = rng.integers(1, 16, (groups, high))
    # The side of zero that has fewer codes decides what a step is.
    sides = np.where(small, 2.0, np.clip(np.minimum(zeros, 15 - zeros), 3.0, None))
    top = np.array([np.abs(values[group_of == g]).max(axis=0) for g in range(groups)])
    scale = f16(top / sides)
    codes = np.clip(np.rint(values / scale[group_of]) + zeros[group_of], 0, 15).astype(np.int64)
    return codes, zeros, scale


def readings(codes, zeros, scale, group_of):
    """Wrong ones that both formats invite."""
    plain = (codes - zeros[group_of]) * scale[group_of]
    found = {"zero points are 8": (codes - 8) * scale[group_of],
             "zero points one more": plain - scale[group_of],
             "zero points one less": plain + scale[group_of]}
    if len(scale) > 1:
        found["scales of the next group"] = (codes - zeros[group_of]) * np.roll(
            scale, 1, 0)[group_of]
    return plain, {name: value.T for name, value in found.items()}


def shuffled(codes, zeros, scale, group_of, order):
    """What is read where the eight of a word are taken in another order."""
    def move(x):
        return x.reshape(len(x), -1, 8)[:, :, list(order)].reshape(x.shape)

    return ((move(codes) - move(zeros)[group_of]) * scale[group_of]).T


def awq(rng, shape, gain):
    high, wide = shape
    group_of = np.arange(wide) // GROUP
    codes, zeros, scale = unequal(rng, wide, high, gain, group_of)
    plain, wrong = readings(codes, zeros, scale, group_of)
    wrong["the plain order"] = shuffled(codes, zeros, scale, group_of, ORDER)
    return Coded({"qweight": as_torch(word(codes, 1, ORDER), torch.int32),
                  "qzeros": as_torch(word(zeros, 1, ORDER), torch.int32),
                  "scales": as_torch(scale, torch.float16)}, plain.T, wrong=wrong)


def gptq(rng, shape, gain):
    """Zero points are stored less one; `g_idx` says each input's group (desc_act)."""
    high, wide = shape
    group_of = rng.permutation(np.arange(wide) // GROUP)
    codes, zeros, scale = unequal(rng, wide, high, gain, group_of)
    plain, wrong = readings(codes, zeros, scale, group_of)
    in_turn = np.arange(wide) // GROUP
    wrong["without g_idx"] = ((codes - zeros[in_turn]) * scale[in_turn]).T
    return Coded({"qweight": as_torch(word(codes, 0), torch.int32),
                  "qzeros": as_torch(word(zeros - 1, 1), torch.int32),
                  "scales": as_torch(scale, torch.float16),
                  "g_idx": as_torch(group_of, torch.int32)}, plain.T, wrong=wrong)
