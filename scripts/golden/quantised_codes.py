"""Numbers of few bits, and how activations are rounded to them.

Codes are ml_dtypes'; nothing here is MoERT's own encoder. Values are float64
arrays that hold float32 numbers wherever a format's owner computes in float32.
"""

import ml_dtypes
import numpy as np


def f32(x):
    return np.asarray(x).astype(np.float32).astype(np.float64)


def bf16(x):
    return np.asarray(x).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def f16(x):
    return np.asarray(x).astype(np.float16).astype(np.float64)


def values(codes, kind):
    """What bytes mean in a type of ml_dtypes."""
    return np.asarray(codes, np.uint8).view(kind).astype(np.float64)


def e4m3(x):
    """Bytes of the nearest e4m3fn, ties to even; what is too large saturates."""
    x = np.clip(np.asarray(x), -448.0, 448.0).astype(np.float32)
    return x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def e4m3_values(codes):
    return values(codes, ml_dtypes.float8_e4m3fn)


def e2m1(x):
    """Codes 0 to 15 of the nearest e2m1, ties to even; what is too large saturates."""
    x = np.clip(np.asarray(x), -6.0, 6.0).astype(np.float32)
    return x.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)


def e2m1_values(codes):
    return values(codes, ml_dtypes.float4_e2m1fn)


def e8m0_values(codes):
    return values(codes, ml_dtypes.float8_e8m0fnu)


def e8m0_above(x):
    """Bytes of the least power of two that is not below x."""
    return np.clip(np.ceil(np.log2(x)) + 127, 1, 254).astype(np.uint8)


def nibbles(codes):
    """Two codes to a byte along the last axis, the first in the low nibble."""
    return (codes[..., 0::2] | (codes[..., 1::2] << 4)).astype(np.uint8)


def largest(x):
    finite = np.abs(x[np.isfinite(x)])
    return finite.max() if finite.size else 0.0


def rounded(x, scale):
    """x as e4m3fn times a scale, every step in float32."""
    return f32(e4m3_values(e4m3(f32(x / scale))) * scale)


# Each rule below takes one row and the tensors beside the matrix that reads it.


def group128(x, _, power=False):
    """DeepSeek: a scale for each 128 columns, with `power` rounded up to a power of two."""
    out = np.empty_like(x)
    for c in range(0, len(x), 128):
        part = x[c:c + 128]
        scale = f32(f32(max(largest(part), f32(1e-4))) / 448.0)
        if power:
            scale = 2.0 ** np.ceil(np.log2(scale))
        out[c:c + 128] = rounded(part, scale)
    return out


def group128_ue8m0(x, beside):
    return group128(x, beside, power=True)


def token(x, _):
    """A scale for the whole row, as vLLM has it."""
    return rounded(x, max(f32(largest(x) / 448.0), f32(1.0 / (448.0 * 512.0))))


def token_int8(x, _):
    scale = f32(largest(x) / 127.0)
    return f32(np.clip(np.rint(f32(x / scale)), -127, 127) * scale) if scale else x


def mx(x, _):
    """OCP: 32 columns share the power of two of their largest, as far as e4m3fn reaches."""
    out = np.zeros_like(x)
    for c in range(0, len(x), 32):
        part = x[c:c + 32]
        if largest(part):
            exponent = np.floor(np.log2(largest(part))) - 8
            out[c:c + 32] = rounded(part, 2.0 ** max(exponent, -127.0))
    return out


def nv(x, beside):
    """16 columns share an e4m3fn, in units of the input's global scale g."""
    g = beside["g"]
    out = np.zeros_like(x)
    for c in range(0, len(x), 16):
        part = x[c:c + 16]
        block = e4m3_values(e4m3(f32(f32(largest(part) / 6.0) / g)))
        if block:
            scale = f32(block * g)
            out[c:c + 16] = f32(e2m1_values(e2m1(f32(part / scale))) * scale)
    return out


def plain(x, _):
    return x
