"""Quantised checkpoints read with other people's code: torch, compressed-tensors, transformers.

For `quantised.py check`: what is here shares nothing with quantised_formats.py
but the names of tensors.
"""

import numpy as np
import torch
from compressed_tensors.compressors.mxfp8.base import MXFP8QuantizationCompressor
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize, fake_quantize
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from golden import maths, quantised_codes
from golden.quantised_formats import Coded
from golden.quantised_layers import PARTS, Mlp

USED = {}  # folder -> whose code read it


def scheme(**weights):
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))


def blocks(t, scale):
    """128 x 128, whole blocks or not; transformers' own refuses the latter."""
    return "compressed-tensors", dequantize(
        x_q=t["weight"], scale=t[scale].float(), dtype=torch.float32,
        args=QuantizationArgs(num_bits=8, type="float", strategy="block",
                              block_structure=[128, 128]))


def compressed(compressor, t, **weights):
    floats = {k: v.float() if v.dtype in (torch.bfloat16, torch.float16) else v
              for k, v in t.items()}
    state = compressor.decompress(floats, scheme(**weights))
    return "compressed-tensors", state["weight"].float()


def fp4_of_v4(t):
    value = Fp8Dequantize(None)._dequantize_one(t["weight"], t["scale"], torch.float32)
    return "transformers", value.float()


def modelopt(t):
    out, half = t["weight"].shape
    value = unpack_fp4_from_uint8(t["weight"], out, 2 * half).double()
    scale = t["weight_scale"].double() * t["weight_scale_2"].double()
    return "compressed-tensors", value * scale.repeat_interleave(16, 1)


def fp4_reciprocal(t):
    """The compressor's own decompress() does this in bfloat16."""
    out, half = t["weight_packed"].shape
    value = dequantize(
        x_q=unpack_fp4_from_uint8(t["weight_packed"], out, 2 * half, dtype=torch.float32),
        scale=t["weight_scale"].float(), global_scale=t["weight_global_scale"],
        args=QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16),
        dtype=torch.float32)
    return "compressed-tensors", value


def awq(t):
    converter = AutoAWQConverter.__new__(AutoAWQConverter)
    converter.bits, converter.zero_point = 4, True
    codes, scales, zeros = converter._convert_gemm_module(t["qweight"], t["scales"], t["qzeros"])
    zeros, scales = (x.double().repeat_interleave(32, 1) for x in (zeros, scales))
    return "compressed-tensors", (codes.double() - zeros) * scales


def gptq(t):
    """As AutoGPTQ unpacks: by shifts, the zero points one more than is stored."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    codes = (t["qweight"][:, None, :] >> shifts[None, :, None]) & 15
    zeros = ((t["qzeros"][:, :, None] >> shifts) & 15) + 1
    codes, zeros = codes.reshape(-1, codes.shape[-1]), zeros.reshape(zeros.shape[0], -1)
    group = t["g_idx"].long()
    return "torch", ((codes - zeros[group]).double() * t["scales"].double()[group]).T


def decode(t):
    """(whose code, [out, in]) of one matrix, told by what its tensors are called."""
    names = set(t)
    if names == {"weight"}:
        return "torch", t["weight"].float()
    if "weight_scale_inv" in names:
        return blocks(t, "weight_scale_inv")
    if "scale" in names:
        return fp4_of_v4(t) if t["weight"].dtype == torch.int8 else blocks(t, "scale")
    if "weight_global_scale" in names:
        return fp4_reciprocal(t)
    if "weight_scale_2" in names:
        return modelopt(t)
    if "weight_packed" in names:
        return compressed(PackedQuantizationCompressor, t, num_bits=4, type="int",
                          strategy="group", group_size=32)
    if "qweight" in names:
        return gptq(t) if "g_idx" in names else awq(t)
    if t["weight_scale"].dtype == torch.uint8:
        return compressed(MXFP8QuantizationCompressor, t, num_bits=8, type="float",
                          strategy="group", group_size=32)
    kind = "int" if t["weight"].dtype == torch.int8 else "float"
    return compressed(NaiveQuantizationCompressor, t, num_bits=8, type=kind, strategy="channel")


def global_scale(t):
    if "input_scale" in t:
        return {"g": float(t["input_scale"])}
    if "input_global_scale" in t:
        return {"g": 1.0 / float(t["input_global_scale"])}
    return {}


def read_mlp(spec, tensors, prefix, act):
    matrices = {}
    for part, name in zip(PARTS, spec.names.parts):
        at = f"{prefix}{name}."
        t = {key[len(at):]: value for key, value in tensors.items() if key.startswith(at)}
        who, value = decode(t)
        USED.setdefault(spec.folder, set()).add(who)
        matrices[part] = Coded({}, value.double().numpy(), global_scale(t))
    return Mlp(**matrices, act=act)


def read_stacked(spec, tensors, prefix, act):
    """gpt-oss: [E, in, out] by transformers, gate and up columns taking turns."""
    USED.setdefault(spec.folder, set()).add("transformers")
    both, down = (convert_moe_packed_tensors(
        tensors[f"{prefix}{name}_blocks"], tensors[f"{prefix}{name}_scales"],
        dtype=torch.float32).double().numpy() for name in ("gate_up_proj", "down_proj"))
    both_bias, down_bias = (tensors[f"{prefix}{name}_bias"].double().numpy()
                            for name in ("gate_up_proj", "down_proj"))
    return [Mlp(Coded({}, w[:, 0::2].T), Coded({}, w[:, 1::2].T), Coded({}, d.T), act=act,
                bias=dict(gate=b[0::2], up=b[1::2], down=c))
            for w, d, b, c in zip(both, down, both_bias, down_bias)]


def read_layer(spec, i, tensors):
    block, names, prefix = spec.blocks[i], spec.names, spec.prefix.format(i=i)

    def get(name, there=True):
        return tensors[prefix + name].double().numpy() if there else None

    if names.stacked:
        experts = read_stacked(spec, tensors, prefix + "experts.", block.act)
    else:
        experts = [read_mlp(spec, tensors, prefix + names.experts.format(e=e), block.act)
                   for e in range(block.experts)]
    shared = None
    if block.shared:
        shared = read_mlp(spec, tensors, prefix + names.shared, block.shared_act or block.act)
    return maths.Layer(
        rule=block.rule, activation=block.activation, weight_on_input=block.weight_on_input,
        router=get(names.router), experts=experts, shared=shared,
        bias=get(names.bias, block.bias), router_bias=get(names.router_bias, block.router_bias),
        shared_gate=get(names.shared_gate, block.shared_gate))


def assert_equal(spec, i, read, drawn):
    """Both decodings of each matrix give the same numbers, to float32."""
    pairs = list(zip(read.experts, drawn.experts))
    if drawn.shared is not None:
        pairs.append((read.shared, drawn.shared))
    for mine, theirs in pairs:
        for part in PARTS:
            a, b = getattr(mine, part), getattr(theirs, part)
            assert np.allclose(a.value, b.value, rtol=3e-7, atol=0), (spec.folder, i, part)
            assert a.beside.keys() == b.beside.keys(), (spec.folder, i, part)


def readers(spec):
    return USED[spec.folder]


def round_rows(x, scales, **said):
    """Rows rounded by compressed-tensors, with its own scales or those given."""
    t = torch.from_numpy(x).float()[None]  # it takes rows for a token's in three dimensions
    global_scale = said.pop("global_scale", None)
    args = QuantizationArgs(symmetric=True, **said)
    own, zero = compute_dynamic_scales_and_zp(
        t, args, torch.nn.Module(), global_scale=global_scale)
    if scales is not None:
        own = torch.from_numpy(scales).float()[None]
    return fake_quantize(t, own, zero, args, global_scale=global_scale)[0].double().numpy()


def assert_rules_agree():
    """Activations as compressed-tensors rounds them, to the last bit of a float32.

    Its scales are others for MXFP8, which it rounds up where the largest would
    saturate, and for int8 (amax / 127.5; vLLM's is amax / 127): those are given.
    """
    rng = np.random.default_rng(1)
    x = quantised_codes.bf16(
        rng.standard_normal((64, 256)) * 2.0 ** rng.integers(-9, 7, (64, 1)))
    x[3, :128], x[4, 7], x[5, 128:] = 0.0, 512.0, x[5, 128:] / 4096.0
    parts = np.abs(x.reshape(64, -1, 32)).max(axis=2)
    powers = 2.0 ** (np.floor(np.log2(np.maximum(parts, 2.0**-100))) - 8)
    floats = dict(num_bits=8, type="float", dynamic=True)
    g = 0.0078125
    for rule, beside, scales, said in (
            (quantised_codes.token, None, None, dict(floats, strategy="token")),
            (quantised_codes.token_int8, None, np.abs(x).max(axis=1, keepdims=True) / 127.0,
             dict(num_bits=8, type="int", dynamic=True, strategy="token")),
            (quantised_codes.group128, None, None,
             dict(floats, strategy="group", group_size=128)),
            (quantised_codes.mx, None, powers, dict(floats, strategy="group", group_size=32)),
            (quantised_codes.nv, {"g": g}, None, dict(
                num_bits=4, type="float", dynamic="local", strategy="tensor_group",
                group_size=16, scale_dtype=torch.float8_e4m3fn,
                zp_dtype=torch.float8_e4m3fn, global_scale=torch.tensor([1.0 / g])))):
        mine = np.array([rule(row, beside) for row in x])
        theirs = round_rows(x, scales, **said)
        same = np.abs(mine - theirs) <= 1e-6 * np.abs(mine)
        assert same.all(), (rule.__name__, np.argwhere(~same)[:5], mine[~same][:5])
