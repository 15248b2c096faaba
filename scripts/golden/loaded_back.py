"""What `moert quantize` wrote, read with other people's code: transformers, compressed-tensors.

Three folders: the source, what was made of it, and that decoded again by `moert quantize --scheme f32`. Every
weight that the libraries decode must be, bit for bit, what MoERT decodes; every other tensor must be the source's.
transformers wants the package accelerate for some of it.
"""

import json
import pathlib

import safetensors
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationConfig
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.utils.match import is_match


class Folder:
    """The tensors of a checkpoint, read one by one."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        index = self.path / "model.safetensors.index.json"
        files = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.is_file() \
            else ["model.safetensors"]
        self.files = [safetensors.safe_open(self.path / name, "pt") for name in files]
        self.where = {name: file for file in self.files for name in file.keys()}
        self.config = json.loads((self.path / "config.json").read_text())

    def __contains__(self, name):
        return name in self.where

    def __getitem__(self, name):
        return self.where[name].get_tensor(name)

    def quantization(self):
        for scope in (self.config, self.config.get("text_config", {})):
            if "quantization_config" in scope:
                return scope["quantization_config"]
        return None


def same_bits(a, b):
    return a.shape == b.shape and torch.equal(a.float().contiguous().view(torch.int32),
                                              b.float().contiguous().view(torch.int32))


def loaded(path, **more):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **more).state_dict()


def by_transformers(made, decoded):
    """Whole models, as transformers builds them: fused or not, whatever its version does."""
    from transformers import CompressedTensorsConfig, FineGrainedFP8Config, Mxfp4Config

    how = {"fp8": FineGrainedFP8Config, "mxfp4": Mxfp4Config,
           "compressed-tensors": CompressedTensorsConfig}[made.quantization()["quant_method"]]
    left = loaded(made.path, quantization_config=how(dequantize=True))
    right = loaded(decoded.path)
    assert left.keys() == right.keys(), sorted(left.keys() ^ right.keys())[:4]
    wrong = [name for name in left if not same_bits(left[name], right[name])]
    return len(left), wrong


def decompressed(form, state, scheme):
    if form != "nvfp4-pack-quantized":
        state = {k: v.float() if v.dtype == torch.bfloat16 else v for k, v in state.items()}
        return BaseCompressor.get_value_from_registry(form).decompress(state, scheme)["weight"]
    # The compressor's own decompress() does this in bfloat16.
    rows, half = state["weight_packed"].shape
    return dequantize(x_q=unpack_fp4_from_uint8(state["weight_packed"], rows, 2 * half).float(),
                      scale=state["weight_scale"].float(), args=scheme.weights,
                      global_scale=state["weight_global_scale"], dtype=torch.float32)


def by_compressed_tensors(made, decoded):
    config = QuantizationConfig.model_validate(made.quantization())
    wrong, count, rounded = [], 0, 0
    for name in made.where:
        if not name.endswith(".weight_scale"):
            continue
        module = name.removesuffix(".weight_scale")
        linear = torch.nn.Linear(1, 1)
        assert not any(is_match(module, linear, pattern) for pattern in config.ignore), module
        group = next(g for g in config.config_groups.values()
                     if any(is_match(module, linear, target) for target in g.targets))
        state = {key.removeprefix(module + "."): made[key] for key in made.where
                 if key.startswith(module + ".weight")}
        got = decompressed(group.format or config.format, state, group).float()
        want = decoded[module + ".weight"].float()
        count += 1
        # code x (scale / global) there, (code x scale) / global here: an ulp of f32 or two.
        if "weight_global_scale" in state and not same_bits(got, want):
            rounded += 1
            got = torch.where((got - want).abs() <= 2**-22 * want.abs(), want, got)
        if not same_bits(got, want):
            wrong.append(module)
    for name in made.where:  # what is not in the list of ignored modules would be taken for quantised
        module = name.removesuffix(".weight")
        if name.endswith(".weight") and made[name].ndim == 2 and made[name].is_floating_point() \
                and made[name].element_size() > 1 and module + ".weight_scale" not in made:
            assert any(is_match(module, torch.nn.Linear(1, 1), p) for p in config.ignore), module
    if rounded:
        print(f"{rounded} of {count} weights differ by a rounding in the last bits of f32, and are taken for the same")
    return count, wrong


def check(source, made, decoded):
    source, made, decoded = Folder(source), Folder(made), Folder(decoded)
    method = made.quantization()["quant_method"]
    try:
        count, wrong = by_transformers(made, decoded)
    except RuntimeError as error:  # not every format of compressed-tensors, as of 5.24: MXFP8, INT8
        assert method == "compressed-tensors", error
        count, wrong = 0, []
    print(f"transformers: {count - len(wrong)} of {count} tensors of the model, dequantised, are those of the "
          f"decoded checkpoint")
    if method == "compressed-tensors":  # transformers decodes NVFP4 in bfloat16: that alone is no fault
        wrong = wrong if "nvfp4" not in json.dumps(made.quantization()) else []
        count, more = by_compressed_tensors(made, decoded)
        wrong += more
    copied = [name for name in made.where if name in source and made[name].dtype == source[name].dtype]
    changed = [n for n in copied if not torch.equal(made[n].flatten().view(torch.uint8),
                                                    source[n].flatten().view(torch.uint8))]
    print(f"{made.path}: {method}: {count - len(wrong)} of {count} weights bit for bit those of "
          f"{decoded.path}; {len(copied) - len(changed)} of {len(copied)} other tensors those of {source.path}")
    for name in (wrong + changed)[:8]:
        print("  differs:", name)
    return not wrong and not changed and count > 0
