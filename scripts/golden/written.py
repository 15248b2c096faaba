"""Checkpoints of families that transformers does not have, and what they compute.

Configurations and tensor names are those of the releases, sizes are tiny,
values are drawn, and the golden values come from the formulas in maths.py:

    cd scripts && /tmp/golden-venv/bin/python -B -m golden.written [--out DIR] [FOLDER...]
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import zlib
from dataclasses import fields, replace

import numpy as np
from safetensors.numpy import load_file, save_file

from golden import maths, written_sigmoid, written_softmax
from golden.written_spec import H

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROWS = 48
LEAST_MARGIN = 3e-5  # as in capture.py; with head room, for others' rounding
HEAD_ROOM = 1.5
SPECS = written_sigmoid.SPECS + written_softmax.SPECS


def draw(seed, name, shape, gain=None):
    """Values of one tensor, from a stream of its own; float32 numbers as float64."""
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
    noise = rng.standard_normal(shape)
    if gain is None:
        gain = 1.2 / np.sqrt(shape[-1])
    value = 1.0 + 0.2 * noise if "norm" in name else gain * noise
    return value.astype(np.float32).astype(np.float64)


def draw_mlp(seed, name, hidden, width):
    return maths.Mlp(
        gate=draw(seed, name + ".gate", (width, hidden)),
        up=draw(seed, name + ".up", (width, hidden)),
        down=draw(seed, name + ".down", (hidden, width), 2.0 / np.sqrt(width)))


def draw_layer(spec, block, at):
    """The tensors of a layer, from streams that no layout changes."""
    seed, inner = spec.seed, block.latent or H
    layer = maths.Layer(
        rule=block.rule, activation=block.activation, norm_eps=block.norm_eps,
        shared_activation=block.shared_activation,
        router=draw(seed, at + ".router", (block.experts, H), 1.5 / np.sqrt(H)),
        experts=[draw_mlp(seed, f"{at}.experts.{e}", inner, block.width)
                 for e in range(block.experts)])
    if block.bias:
        layer.bias = draw(seed, at + ".bias", (block.experts,), 0.1)
    if block.shared:
        layer.shared = draw_mlp(seed, at + ".shared", H, block.shared)
    if block.shared_gate:
        layer.shared_gate = draw(seed, at + ".shared_gate", (1, H))
    if block.latent:
        layer.latent_down = draw(seed, at + ".latent_down", (inner, H))
        layer.latent_up = draw(seed, at + ".latent_up", (H, inner))
        layer.latent_norm = draw(seed, at + ".latent_norm", (inner,))
    return layer


def rows_of(spec, layer, at):
    """The first ROWS rows of a stream in which every choice is clear."""
    rows = draw(spec.seed, at + ".hidden_states", (4 * ROWS, H), 1.0)
    margin = maths.run(layer, rows)["margin"]
    rows = rows[margin >= HEAD_ROOM * LEAST_MARGIN][:ROWS]
    assert len(rows) == ROWS, (spec.folder, at)
    return rows


def simpler(thing, kept=()):
    """`thing` with one of its settings at its default, for each that is not."""
    for item in fields(thing):
        value = getattr(thing, item.name)
        if item.name not in kept and value != item.default:
            yield item.name, replace(thing, **{item.name: item.default})


def assert_matters(folder, layer, rows, output):
    """Every setting changes the output: a file in which one could be left out
    unseen would be no test of it."""
    others = [(name, dict(rule=rule)) for name, rule in
              simpler(layer.rule, kept=("k", "least_k", "groups", "top_groups"))]
    if layer.rule.groups > 1:
        others.append(("groups", dict(rule=replace(layer.rule, groups=1, each_group=False))))
    if layer.rule.least_k > layer.rule.k:
        others.append(("least_k", dict(rule=replace(layer.rule, least_k=1))))
    others += [(name, dict(activation=value)) for name, value in simpler(
        layer.activation, kept=("beta", "linear_beta"))]
    if layer.shared_activation:
        others.append(("shared_activation", dict(shared_activation=None)))
    others += [(name, {name: None}) for name in ("bias", "shared", "shared_gate", "latent_norm")
               if getattr(layer, name) is not None]
    for name, change in others:
        if name == "renormalize" and layer.rule.k < layer.rule.least_k:
            continue
        other = maths.run(replace(layer, **change), rows)["output"]
        share = (np.abs(other - output).max(axis=1) > 1e-3).mean()
        assert share > 0.1, (folder, name, share)


def model_tensors(spec, layers):
    tensors = {name: draw(spec.seed, name, shape) for name, shape in spec.outside.items()}
    for i, layer in layers.items():
        for write in spec.layout:
            tensors.update(write(spec.prefix.format(i=i), layer))
    if spec.beside:
        prefix, layout = spec.beside
        copy = draw_layer(spec, next(iter(spec.blocks.values())), "beside")
        for write in layout:
            tensors.update(write(prefix, copy))
    return {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}


def table_row(spec, i, layer, rows, got, stored):
    def error(key):
        difference = stored[f"layers.{i}.{key}"] - got[key]
        return (np.linalg.norm(difference, axis=1) / np.linalg.norm(got[key], axis=1)).max()

    unbiased = [maths.route(x, layer.rule)[0] for x in got["router_logits"]]
    used = np.bincount(got["topk_ids"].ravel(), minlength=len(layer.experts))
    return dict(
        folder=spec.folder, layer=i, rows=len(rows), logits=error("router_logits"),
        weights=error("topk_weights"), output=error("output"), margin=got["margin"].min(),
        spread=got["router_logits"].std(), rms=np.sqrt((got["output"] ** 2).mean()),
        least_used=int(used.min()),
        bias=float(np.mean([set(a) != set(b) for a, b in zip(got["topk_ids"], unbiased)])))


def golden_tensors(spec, layers):
    """The contents of golden.safetensors, and rows of a table."""
    stored, table = {}, []
    for i, layer in layers.items():
        rows = rows_of(spec, layer, f"layers.{i}")
        got = maths.run(layer, rows)
        assert got["margin"].min() >= LEAST_MARGIN
        assert_matters(spec.folder, layer, rows, got["output"])
        values = dict(got, hidden_states=rows)
        for key in ("hidden_states", "router_logits", "topk_ids", "topk_weights", "output"):
            kind = np.int32 if key == "topk_ids" else np.float32
            stored[f"layers.{i}.{key}"] = np.ascontiguousarray(values[key], kind)
        table.append(table_row(spec, i, layer, rows, got, stored))
    return stored, table


def sort_header(path):
    """The metadata in order, for the same bytes in every run."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode().ljust(end - 8)
    assert len(text) == end - 8
    path.write_bytes(data[:8] + text + data[end:])


def build(spec, out):
    """Write one folder; rows of a table."""
    folder = out / spec.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    layers = {i: draw_layer(spec, block, f"layers.{i}") for i, block in spec.blocks.items()}
    (folder / spec.config_name).write_text(json.dumps(spec.config, indent=2) + "\n")
    save_file(model_tensors(spec, layers), folder / "model.safetensors",
              metadata=dict(format="pt"))
    stored, table = golden_tensors(spec, layers)
    save_file(stored, folder / "golden.safetensors", metadata=dict(
        format="pt", family=spec.family, seed=str(spec.seed), dtype="float32",
        arithmetic="float64", reference="float64 numpy from the maths",
        made_by="scripts/make_golden.py", numpy=np.__version__, rows_run=str(ROWS)))
    sort_header(folder / "golden.safetensors")
    os.chmod(folder, 0o755)
    for path in folder.iterdir():
        os.chmod(path, 0o644)
    return table


def make(out, only=()):
    """Write the folders (all, or those named) into `out`; rows of a table."""
    table = []
    for spec in SPECS:
        if not only or spec.folder in only:
            table += build(spec, out)
    return table


def check(out):
    """Draw and compute every folder that is there again, and compare."""
    for spec in SPECS:
        path = out / spec.folder / "golden.safetensors"
        if not path.exists():
            continue
        layers = {i: draw_layer(spec, block, f"layers.{i}") for i, block in spec.blocks.items()}
        there = load_file(out / spec.folder / "model.safetensors")
        here = model_tensors(spec, layers)
        assert there.keys() == here.keys(), spec.folder
        assert all(np.array_equal(there[name], here[name]) for name in here), spec.folder
        there, (here, _) = load_file(path), golden_tensors(spec, layers)
        assert there.keys() == here.keys(), spec.folder
        for name, value in here.items():
            assert np.allclose(there[name], value, rtol=1e-6, atol=1e-6), (spec.folder, name)
        print(f"{spec.folder}: as its formulas say")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "data")
    parser.add_argument("only", nargs="*", metavar="FOLDER")
    args = parser.parse_args()
    for row in make(args.out, args.only):
        print("  ".join(f"{key} {value:.2g}" if isinstance(value, float) else f"{value}"
                        for key, value in row.items()))


if __name__ == "__main__":
    sys.exit(main())
