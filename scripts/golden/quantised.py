"""Checkpoints in the layouts of quantised releases, and what they compute.

Bytes come from ml_dtypes and numpy, numbers from the formulas of maths.py with
decoded weights and activations rounded as a format's owner says; nothing is
shared with the runtime. `check` decodes the files again with torch,
compressed-tensors and transformers (quantised_read.py).
"""

import json
import os
import shutil

import ml_dtypes
import numpy as np
import torch
from safetensors.torch import load_file, save_file

from golden import maths, quantised_deepseek, quantised_other, quantised_qwen
from golden.quantised_codes import plain
from golden.quantised_layers import (
    draw_layer, drawn_rows, exchanged, halves, in_order, misread, mistakes, with_setting)
from golden.quantised_spec import model_tensors
from golden.written import HEAD_ROOM, LEAST_MARGIN, sort_header

SPECS = quantised_deepseek.SPECS + quantised_qwen.SPECS + quantised_other.SPECS
LIMIT = 150_000  # bytes of a folder
JITTER = 1e-6  # of what is rounded; a row that changes by more than ...
STEADY = 1e-4  # ... this has a code near a tie, and hangs on the order of a sum
SEEN = 0.05  # a mistake must change so much of a row, twice what a test allows,
SHARE = 0.1  # in so many of the rows


def errors(got, wanted):
    """Deviation of each row, of its norm."""
    with np.errstate(all="ignore"):
        error = np.linalg.norm(got - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    return np.where(np.isfinite(error), error, np.inf)


def output(layer, rows):
    with np.errstate(all="ignore"):
        return maths.run(layer, rows)["output"]


def rows_of(spec, i, layer, show):
    """The first rows in which every choice is clear and no code hangs on a tie."""
    rows = drawn_rows(spec, i, 8 * spec.rows)
    got = maths.run(layer, rows)
    moved = output(with_setting(layer, jitter=JITTER), rows)
    clear = got["margin"] >= HEAD_ROOM * LEAST_MARGIN
    steady = errors(moved, got["output"]) < STEADY
    rows = rows[clear & steady][:spec.rows]
    assert len(rows) == spec.rows, (spec.folder, i, len(rows))
    if show:
        print(f"{spec.folder} layer {i}: {steady.mean():.2f} of the rows hang on no tie")
    return rows


def assert_mistakes_are_seen(spec, i, layer, rows, wanted):
    """A file that a wrong reading passes would be no test of it."""
    found = {}
    read = {name: misread(layer, name) for name in mistakes(layer)}
    read["up before gate"] = in_order(layer, exchanged)
    if spec.names.stacked:
        read["gate rows before up rows"] = in_order(layer, halves)
    for name, other in read.items():
        error = errors(output(other, rows), wanted)
        found[name] = float(np.quantile(error, 1 - SHARE))
        assert found[name] > SEEN, (spec.folder, i, name, found[name])
    return found


def golden_tensors(spec, layers, show=False):
    """The contents of golden.safetensors, and rows of a table."""
    stored, table = {}, []
    for i, layer in layers.items():
        rows = rows_of(spec, i, layer, show)
        got = maths.run(layer, rows)
        seen = assert_mistakes_are_seen(spec, i, layer, rows, got["output"])
        if show:
            print(f"{spec.folder} layer {i}: " + ", ".join(
                f"{name} {error:.2g}" for name, error in seen.items()))
        used = np.bincount(got["topk_ids"].ravel(), minlength=len(layer.experts))
        assert used.min() > 0, (spec.folder, i, used)
        for key, value in dict(got, hidden_states=rows).items():
            kind = {"hidden_states": torch.bfloat16, "topk_ids": torch.int32}.get(
                key, torch.float32)
            if key != "margin":
                stored[f"layers.{i}.{key}"] = torch.from_numpy(value).to(kind).contiguous()
        unrounded = errors(output(with_setting(layer, act=plain), rows), got["output"])
        table.append(dict(
            folder=spec.folder, layer=i, rows=len(rows), margin=got["margin"].min(),
            rms=np.sqrt((got["output"] ** 2).mean()), least_used=int(used.min()),
            activations=float(np.median(unrounded)), activations_most=float(unrounded.max())))
    return stored, table


def write_json(path, what):
    path.write_text(json.dumps(what, indent=2) + "\n")


def build(spec, out):
    """Write one folder; rows of a table."""
    folder = out / spec.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    layers = {i: draw_layer(spec, i) for i in spec.blocks}
    for name, what in {"config.json": spec.config, **spec.files}.items():
        write_json(folder / name, what)
    save_file(model_tensors(spec, layers), folder / "model.safetensors",
              metadata=dict(format="pt"))
    stored, table = golden_tensors(spec, layers, show=True)
    save_file(stored, folder / "golden.safetensors", metadata=dict(
        format="pt", family=spec.family, seed=str(spec.seed), dtype="bfloat16",
        arithmetic="float64", reference="float64 numpy from the decoded weights",
        activations=spec.activations, made_by="scripts/make_golden.py", numpy=np.__version__,
        ml_dtypes=ml_dtypes.__version__, rows_run=str(spec.rows)))
    sort_header(folder / "golden.safetensors")
    os.chmod(folder, 0o755)
    for path in folder.iterdir():
        os.chmod(path, 0o644)
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size <= LIMIT, (spec.folder, size)
    for row in table:
        row["kB"] = size / 1000
    return table


def make(out, only=()):
    """Write the folders (all, or those named) into `out`; rows of a table."""
    table = []
    for spec in SPECS:
        if not only or spec.folder in only:
            table += build(spec, out)
    return table


def print_table(table):
    """activations: how far the output moves, as a share of a row's norm, where
    activations are not rounded: in the median row and in the one that moves most."""
    print(f"{'folder':<24}{'layer':>6}{'rows':>5}{'margin':>9}{'rms':>7}{'least':>6}"
          f"{'activations':>18}{'kB':>7}")
    for r in table:
        print(f"{r['folder']:<24}{r['layer']:>6}{r['rows']:>5}{r['margin']:>9.1e}"
              f"{r['rms']:>7.2f}{r['least_used']:>6}{r['activations']:>9.4f}"
              f"{r['activations_most']:>9.4f}{r['kB']:>7.1f}")


def same(a, b):
    """Whether tensors are equal, byte for byte."""
    def view(x):
        return x.contiguous().reshape(-1).view(torch.uint8)

    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(view(a), view(b))


def assert_same(spec, there, here):
    assert there.keys() == here.keys(), (spec.folder, there.keys() ^ here.keys())
    for name in here:
        assert same(there[name], here[name]), (spec.folder, name)


def check(out):
    """Draw every folder that is there again; read it with others' code and compute it."""
    from golden import quantised_read

    quantised_read.assert_rules_agree()
    for spec in SPECS:
        folder = out / spec.folder
        if not (folder / "golden.safetensors").exists():
            continue
        there = load_file(folder / "model.safetensors")
        golden = load_file(folder / "golden.safetensors")
        layers = {i: draw_layer(spec, i) for i in spec.blocks}
        assert_same(spec, there, model_tensors(spec, layers))
        assert json.loads((folder / "config.json").read_text()) == spec.config, spec.folder
        worst = 0.0
        for i, layer in layers.items():
            read = quantised_read.read_layer(spec, i, there)
            quantised_read.assert_equal(spec, i, read, layer)
            rows = golden[f"layers.{i}.hidden_states"].double().numpy()
            got = maths.run(read, rows)
            assert np.array_equal(got["topk_ids"], golden[f"layers.{i}.topk_ids"].numpy())
            for key in ("router_logits", "topk_weights", "output"):
                wanted = golden[f"layers.{i}.{key}"].double().numpy()
                worst = max(worst, errors(got[key], wanted).max())
        assert worst < 1e-5, (spec.folder, worst)
        print(f"{spec.folder}: {worst:.1e} from its numbers, read by "
              f"{', '.join(sorted(quantised_read.readers(spec)))}")
