"""How the tensors of `models.py` are drawn, and how they are stored.

Each tensor has a stream of its own, found from its name, so that the values
depend neither on the order of the modules nor on torch's generator. Gains are
chosen for activations of order one and router logits with a standard deviation
of about 1.5: the library's 0.02 would leave all the experts nearly equal.
"""

import zlib

import numpy as np
import torch
from safetensors.torch import load_file, save_file

ROUTERS = (".gate.weight", ".router.weight", ".wg.weight", ".classifier.weight",
           ".layer.weight", ".router.proj.weight")
DOWN = ("down_proj", "output_linear", ".w2")


def value_of(name, tensor, rng):
    """New values of one tensor, before gains; none to leave it as it is."""
    noise = rng.standard_normal(tuple(tensor.shape))
    if name.endswith(("correction_bias", "expert_bias")):
        # Sigmoid scores spread by about 0.25; this moves a part of the rows
        # to other experts without ruling the choice.
        return 0.1 * noise
    if name.endswith("A_log") or "bias" in name:
        return 0.2 * noise
    if tensor.numel() == 1:
        return None
    if tensor.ndim == 1 and ("norm" in name or "scale" in name):
        return tensor.double().numpy() + 0.2 * noise  # about what it is initially
    if "embed" in name:
        return noise
    fan_in = tensor.shape[-1]
    if name.endswith(ROUTERS):
        return 1.5 * noise / np.sqrt(fan_in)
    if any(part in name for part in DOWN):
        return 2.0 * noise / np.sqrt(fan_in)
    return (1.2 * noise / np.sqrt(fan_in)) if tensor.ndim > 1 else 0.2 * noise


def draw(model, seed, gains):
    """Fill every parameter and buffer that is saved."""
    for name, tensor in model.state_dict(keep_vars=True).items():
        rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
        tensor = tensor.data
        if name.endswith("tid2eid"):  # k different experts for each token
            experts = model.config.n_routed_experts
            order = rng.permuted(np.tile(np.arange(experts), (len(tensor), 1)), axis=1)
            tensor.copy_(torch.from_numpy(order[:, : tensor.shape[1]].copy()))
            continue
        value = value_of(name, tensor, rng)
        if value is not None:
            gain = [g for ending, g in gains.items() if name.endswith(ending)]
            tensor.copy_(torch.from_numpy(np.asarray(value * (gain[0] if gain else 1.0))))


def as_released(folder, renames, transposed):
    """Give tensors the names and layout of the release where the library's differ."""
    path = folder / "model.safetensors"
    stored = {}
    for name, tensor in load_file(path).items():
        for old, new in renames:
            name = name.replace(old, new)
        if transposed and name.endswith(transposed):
            tensor = tensor.transpose(1, 2).contiguous()
        stored[name] = tensor
    save_file(stored, path, metadata=dict(format="pt"))
