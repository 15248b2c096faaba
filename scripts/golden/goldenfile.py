"""Golden files: writing them, and a check of each against float64."""

import json
import os

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

from golden import capture, reference

# Scores nearer to each other than this could swap under another order of
# float32 summation; such a row would test luck.
LEAST_MARGIN = 3e-5
LEAST_ROWS = 48

# Largest deviation from the float64 recomputation that is accepted.
LIMITS = {
    "float32": dict(logits=1e-5, weights=1e-5, output=1e-5),
    # The library rounds logits, weights and every product to 8 bits.
    "bfloat16": dict(logits=2e-2, weights=3e-2, output=3e-2),
}

KEYS = ("hidden_states", "experts_input", "router_logits", "topk_ids", "topk_weights", "output")


def own_order(got, bias):
    """Slots by the library's own scores, highest first; lower id among equals."""
    logits = got["logits"].float()
    if bias is None:
        score = torch.softmax(logits, dim=-1)
    else:
        score = torch.sigmoid(logits) + torch.from_numpy(bias).float()
    score, ids = score.numpy(), got["ids"].numpy()
    return np.stack([np.lexsort((row, -score[t, row])) for t, row in enumerate(ids)])


def found_order(ids, wanted):
    """Slots in which `wanted` are, row by row, as far as they are there."""
    order = np.zeros_like(wanted)
    for t, row in enumerate(wanted):
        where = {int(e): slot for slot, e in enumerate(ids[t])}
        order[t] = [where.get(int(e), 0) for e in row]
    return order


def settle(got, ref, order):
    """The tensors of a golden file from what was captured, slots in `order`.

    A router that does not give ids or weights proves them by its block's
    output: they are then the reference's.
    """
    ids = ref["topk_ids"]
    weights = torch.from_numpy(ref["topk_weights"]).float()
    if "ids" in got:
        ids = np.take_along_axis(got["ids"].numpy(), order, 1)
    if "weights" in got:
        weights = torch.gather(got["weights"].float(), 1, torch.from_numpy(order))
    kept = {key: got[key] for key in ("hidden_states", "experts_input", "output") if key in got}
    logits = got["logits"].float()
    if not np.array_equal(ref["router_logits"], ref["shaped_logits"]):
        # The library returns logits that are scaled or capped already.
        assert worst(logits, ref["shaped_logits"]) < LIMITS["float32"]["logits"]
        logits = torch.from_numpy(ref["router_logits"]).float()
    return dict(kept, router_logits=logits, topk_weights=weights.contiguous(),
                topk_ids=torch.from_numpy(ids.astype(np.int32)))


class Writer:
    """One golden file in the making."""

    def __init__(self, folder, rules, tokens, arithmetic):
        self.folder, self.rules, self.tokens, self.arithmetic = folder, rules, tokens, arithmetic
        self.tensors = reference.Tensors(folder)
        self.config = reference.read_config(folder, rules)
        self.stored = {}
        # Rows left out, by layer: another set, another order, too near a tie.
        self.dropped = {"other_set": {}, "other_order": {}, "near_tie": {}}
        self.table = []

    def order(self, index, got, ref):
        if "ids" not in got:
            return None
        if self.arithmetic == "float32":
            return found_order(got["ids"].numpy(), ref["topk_ids"])
        layer = reference.Layer(self.rules, self.config, self.tensors, index)
        return own_order(got, layer.tensor(self.rules.selection_bias))

    def choose_rows(self, index, ids, ref):
        """Rows whose ids and slots hang on no rounding."""
        same_order = (ids == ref["topk_ids"]).all(axis=1)
        same_set = (np.sort(ids, 1) == np.sort(ref["topk_ids"], 1)).all(axis=1)
        clear = ref["margin"] >= LEAST_MARGIN
        keep = same_order & clear
        if self.arithmetic == "float32":
            # Nothing to excuse here: choose another seed if this ever fails.
            assert keep.all(), (self.folder.name, index, ref["margin"].min(), same_set.mean())
        self.dropped["other_set"][index] = int((~same_set).sum())
        self.dropped["other_order"][index] = int((same_set & ~same_order).sum())
        self.dropped["near_tie"][index] = int((same_order & ~clear).sum())
        rows = np.flatnonzero(keep)
        assert len(rows) >= LEAST_ROWS, (self.folder.name, index, len(rows))
        return rows

    def add(self, index, captured):
        hidden = captured["hidden_states"].double().numpy()
        ref = reference.block(self.rules, self.config, self.tensors, index, hidden, self.tokens)
        got = settle(captured, ref, self.order(index, captured, ref))
        rows = self.choose_rows(index, got["topk_ids"].numpy(), ref)
        got = {key: value[rows].contiguous() for key, value in got.items()}
        self.stored.update({f"layers.{index}.{key}": value for key, value in got.items()})
        if self.arithmetic != "float32":
            self.stored[f"layers.{index}.rows"] = torch.from_numpy(rows)
        self.table.append(compare(self.folder.name, index, got, ref, rows, self.arithmetic))

    def metadata(self):
        layers = self.dropped["other_set"]
        found = {f"rows_dropped_{why}": by_layer(counts) for why, counts in self.dropped.items()}
        found["rows_dropped"] = by_layer(
            {i: sum(counts[i] for counts in self.dropped.values()) for i in layers})
        return dict(found, format="pt", transformers=transformers.__version__,
                    torch=torch.__version__.split("+")[0], made_by="scripts/make_golden.py",
                    **self.rules.note)

    def save(self, **said):
        path = self.folder / "golden.safetensors"
        save_file(self.stored, path, metadata=dict(self.metadata(), **said))
        order_metadata(path)


def write(folder, family, model, input_ids, metadata, rules, arithmetic="float32"):
    """Capture, check and write `folder`/golden.safetensors; rows of a table."""
    seen, logits = capture.run(model, input_ids, rules)
    assert seen, folder.name
    tokens = input_ids.flatten()
    writer = Writer(folder, rules, tokens.numpy(), arithmetic)
    if arithmetic == "float32":  # else layers hold different rows of it
        writer.stored["input_ids"] = tokens.clone()
    for index, captured in seen.items():
        writer.add(index, captured)
    writer.save(family=family, rows_run=str(input_ids.numel()),
                sequences="x".join(map(str, input_ids.shape)), **metadata)
    return writer.table, logits


def by_layer(counts):
    return " ".join(f"{i}:{n}" for i, n in counts.items())


def order_metadata(path):
    """Sort the metadata in a file's header, for the same bytes in every run.

    The writer puts it in no fixed order. Sorting changes no length.
    """
    data = bytearray(path.read_bytes())
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    data[8:end] = text.ljust(end - 8)
    assert int.from_bytes(data[:8], "little") == end - 8 and len(text) <= end - 8
    path.write_bytes(data)


def worst(got, wanted):
    """Largest deviation of a row, of the row's norm."""
    error = np.linalg.norm(got.double().numpy() - wanted, axis=1)
    return (error / np.linalg.norm(wanted, axis=1)).max()


def compare(name, layer, got, ref, rows, arithmetic):
    """Deviation of the stored values from float64, asserted and as a table row."""
    ref = {key: value[rows] if np.ndim(value) else value for key, value in ref.items()}
    assert np.array_equal(got["topk_ids"].numpy(), ref["topk_ids"]), (name, layer)

    errors = {name: worst(got[key], ref[key]) for name, key in (
        ("logits", "router_logits"), ("weights", "topk_weights"), ("output", "output"))}
    if "experts_input" in got:
        errors["output"] = max(errors["output"], worst(got["experts_input"], ref["experts_input"]))
    for key, error in errors.items():
        assert error < LIMITS[arithmetic][key], (name, layer, key, error)
    used = np.bincount(ref["topk_ids"].ravel(), minlength=ref["router_logits"].shape[1])
    return dict(
        folder=name, layer=layer, rows=len(rows), shape=list(got["hidden_states"].shape),
        logits=errors["logits"], weights=errors["weights"], output=errors["output"],
        margin=ref["margin"].min(), spread=ref["router_logits"].std(),
        rms=np.sqrt((ref["output"] ** 2).mean()), least_used=int(used.min()),
        bias=float(ref["bias_matters"]), groups=float(ref["groups_matter"]),
        limit=float(ref["limited"]))


def check(folder, rules):
    """Recompute a golden file read back from disk; table rows."""
    tensors = reference.Tensors(folder)
    config = reference.read_config(folder, rules)
    table = []
    with safe_open(folder / "golden.safetensors", framework="pt") as f:
        meta = f.metadata()
        names = list(f.keys())
        tokens = f.get_tensor("input_ids").numpy() if "input_ids" in names else None
        layers = sorted({int(n.split(".")[1]) for n in names if n.startswith("layers.")})
        for i in layers:
            got = {key: f.get_tensor(f"layers.{i}.{key}") for key in KEYS
                   if f"layers.{i}.{key}" in names}
            ref = reference.block(rules, config, tensors, i,
                                  got["hidden_states"].double().numpy(), tokens)
            rows = np.arange(len(got["hidden_states"]))
            arithmetic = meta.get("arithmetic", meta["dtype"])
            table.append(compare(folder.name, i, got, ref, rows, arithmetic))
    return table


def print_table(table):
    """logits, weights, output: largest deviation from float64, of a row's norm;
    margin: nearest two scores that decide ids or slots; spread: standard
    deviation of the logits; rms: of the output; least: rows at the least used
    expert; bias, groups: share of rows whose experts would be others without
    them; limit: share of an expert's values that its limit changes."""
    print(f"{'folder':<26}{'layer':>6}{'rows':>5}{'logits':>9}{'weights':>9}{'output':>9}"
          f"{'margin':>9}{'spread':>8}{'rms':>7}{'least':>6}{'bias':>6}{'groups':>7}{'limit':>6}")
    for r in table:
        print(f"{r['folder']:<26}{r['layer']:>6}{r['rows']:>5}{r['logits']:>9.1e}"
              f"{r['weights']:>9.1e}{r['output']:>9.1e}{r['margin']:>9.1e}"
              f"{r['spread']:>8.2f}{r['rms']:>7.2f}{r['least_used']:>6}{r['bias']:>6.2f}"
              f"{r['groups']:>7.2f}{r['limit']:>6.2f}")


def tidy(folder):
    """Plain file permissions, whatever the umask was."""
    os.chmod(folder, 0o755)
    for path in folder.iterdir():
        os.chmod(path, 0o644)
