"""Builds the folders of `models.py`: checkpoint, then golden file."""

import shutil

import numpy as np
import torch
import transformers

from golden import goldenfile, weights
from golden.sizes import VOCAB

# The library's plain loops, in float32.
PLAIN = dict(attn_implementation="eager", experts_implementation="eager")


def fresh(model):
    """The library's model with the weights it starts from."""
    if model.config_class:
        config = getattr(transformers, model.config_class)(**model.config)
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, **PLAIN)
    kind = getattr(transformers, model.arch)
    return kind._from_config(kind.config_class(**model.config), dtype=torch.float32, **PLAIN)


def load(model, folder):
    """The library's own model from a folder; nothing missing, nothing left over."""
    kind = transformers.AutoModelForCausalLM if model.config_class else getattr(
        transformers, model.arch)
    made, info = kind.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, **PLAIN)
    assert not any(info.values()), (folder.name, info)
    return made.eval()


def save(model, made, folder, released=True):
    made.save_pretrained(folder, save_original_format=released)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if released and (model.renames or model.transposed):
        weights.as_released(folder, model.renames, model.transposed)


def tokens(model):
    """The input of the golden run: [sequences, length] of token numbers."""
    rng = np.random.Generator(np.random.PCG64([model.seed, 7]))
    return torch.from_numpy(rng.integers(0, VOCAB, size=model.sequences))


def same_weights(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def make(model, out):
    """Write the folder of `model` and its fused copy; rows of a table."""
    made = fresh(model)
    weights.draw(made, model.seed, model.gains)
    folder = out / model.folder
    shutil.rmtree(folder, ignore_errors=True)
    save(model, made, folder)
    loaded = load(model, folder)
    assert same_weights(made, loaded), model.folder
    part = getattr(loaded, model.run) if model.run else loaded
    meta = dict(seed=str(model.seed), dtype="float32")
    table, _ = goldenfile.write(
        folder, loaded.config.model_type, part, tokens(model), meta, model.rules)
    goldenfile.tidy(folder)
    if model.fused_copy:
        copy = out / model.fused_copy
        shutil.rmtree(copy, ignore_errors=True)
        save(model, made, copy, released=False)
        assert same_weights(made, load(model, copy)), model.fused_copy
        shutil.copy(folder / "golden.safetensors", copy)
        goldenfile.tidy(copy)
    return table
