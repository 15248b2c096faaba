"""olmoe-tiny: a byte-level language model, trained here from scratch.

The random checkpoints say whether the arithmetic is right. This one has what
random weights lack: experts that differ for a reason, routing with structure,
and a loss that anything lossy done to the weights can be measured by.
"""

import math
import shutil
import subprocess
import time

import numpy as np
import torch
from transformers import OlmoeConfig, OlmoeForCausalLM

from golden import capture, checkpoints, goldenfile

SEED = 20
RULES = checkpoints.RULES["olmoe"]
STEPS = 1500
BATCH, LENGTH = 16, 128
PEAK_RATE, WARM_UP = 3e-3, 50
HELD_OUT = 200_000  # last bytes of the text; never trained on
MEASURED = 64  # windows of the held-out text that the loss is taken from
GOLDEN_BYTES = 128
TEXT = "King James Version, Debian package bible-kjv-text"


def text():
    """The whole text, a verse a line, without chapter and verse numbers."""
    out = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True)
    verses = [line.split(b" ", 1)[1] for line in out.stdout.splitlines() if b" " in line]
    return np.frombuffer(b"\n".join(verses) + b"\n", np.uint8)


def config():
    return OlmoeConfig(
        vocab_size=256,
        hidden_size=96,
        intermediate_size=64,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_experts=16,
        num_experts_per_tok=4,
        norm_topk_prob=False,
        max_position_embeddings=512,
        router_aux_loss_coef=0.02,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        tie_word_embeddings=False,
    )


def windows(data, starts):
    return torch.from_numpy(np.stack([data[s : s + LENGTH] for s in starts]).astype(np.int64))


def rate(step, steps):
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    return PEAK_RATE * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def imbalance(router_logits, k):
    """Load-balancing loss: 1 for even use of the experts, more for uneven.

    Taken in each layer by itself and averaged. The library's own takes all
    layers together, and so lets an expert die in one layer if its number is
    busy in another.
    """
    losses = []
    for logits in router_logits:
        probabilities = torch.softmax(logits, dim=-1)
        experts = logits.shape[-1]
        chosen = torch.topk(logits, k, dim=-1).indices.flatten()
        share = torch.bincount(chosen, minlength=experts) / chosen.numel()
        losses.append(experts * (share * probabilities.mean(dim=0)).sum())
    return torch.stack(losses).mean()


def train(data, steps):
    torch.manual_seed(SEED)
    model = OlmoeForCausalLM._from_config(
        config(), attn_implementation="sdpa", experts_implementation="grouped_mm")
    model.train()
    flat = [p for p in model.parameters() if p.ndim < 2]
    rest = [p for p in model.parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [dict(params=rest, weight_decay=0.1), dict(params=flat, weight_decay=0.0)],
        lr=PEAK_RATE, betas=(0.9, 0.95))
    rng = np.random.Generator(np.random.PCG64(SEED))
    began = time.time()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        ids = windows(data, rng.integers(0, len(data) - LENGTH, BATCH))
        out = model(input_ids=ids, output_router_logits=True, use_cache=False)
        loss = torch.nn.functional.cross_entropy(
            out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        uneven = imbalance(out.router_logits, model.config.num_experts_per_tok)
        (loss + model.config.router_aux_loss_coef * uneven).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:5}  loss {loss.item():.3f}  imbalance {uneven.item():.3f}  "
                  f"{time.time() - began:6.0f} s", flush=True)
    return model.eval()


def held_out_loss(model, held):
    """Mean nats per byte, and how often each expert is chosen, per layer."""
    starts = np.linspace(0, len(held) - LENGTH, MEASURED).astype(int)
    total, use = 0.0, None
    with torch.no_grad():
        for at in range(0, MEASURED, 16):
            ids = windows(held, starts[at : at + 16])
            seen, logits = capture.run(model, ids, RULES)
            total += torch.nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).double(), ids[:, 1:].flatten(), reduction="sum").item()
            counts = torch.stack([torch.bincount(got["ids"].flatten(), minlength=16)
                                  for got in seen.values()])
            use = counts if use is None else use + counts
    return total / (MEASURED * (LENGTH - 1)), use / use.sum(dim=1, keepdim=True)


def measure(folders):
    """The held-out loss with the weights of each folder, which are plain floats:
    a quantised checkpoint is measured by what MoERT decodes it to."""
    held = text()[-HELD_OUT:]
    losses = []
    for folder in folders:
        loss, _ = held_out_loss(checkpoints.load(folder, torch.float32), held)
        losses.append(loss)
        print(f"{folder}: {loss:.4f} nats/byte, {loss - losses[0]:+.4f}")


def golden_window(model, held):
    """Where in the held-out text the golden bytes start.

    The first window in which no choice of experts, nor their order, hangs on
    the last bits of a score. With 128 bytes in six layers, some nearly always
    do; that says nothing about the text, only about the luck of rounding.
    """
    k = model.config.num_experts_per_tok
    for start in range(0, len(held) - GOLDEN_BYTES, GOLDEN_BYTES):
        ids = torch.from_numpy(held[start : start + GOLDEN_BYTES].astype(np.int64))[None]
        seen, _ = capture.run(model, ids, RULES)
        margin = math.inf
        for got in seen.values():
            scores = torch.softmax(got["logits"].double(), dim=-1)
            top = torch.topk(scores, k + 1, dim=-1).values
            margin = min(margin, (top[:, :-1] - top[:, 1:]).min().item())
        if margin >= 1.1 * goldenfile.LEAST_MARGIN:
            return start, ids
    raise RuntimeError("every window has a near tie")


def make(folder, steps, keep_weights):
    steps = steps or STEPS
    data = text()
    training, held = data[:-HELD_OUT], data[-HELD_OUT:]
    print(f"{len(training)} bytes to train on, {len(held)} held out")
    if not keep_weights:
        model = train(training, steps)
        shutil.rmtree(folder, ignore_errors=True)
        model.to(torch.bfloat16).save_pretrained(folder)
        checkpoints.clean(folder)

    # From here on the weights are those on disk, the arithmetic is float32.
    model = checkpoints.load(folder, torch.float32)
    loss, use = held_out_loss(model, held)
    print(f"held-out loss {loss:.4f} nats/byte")
    for i, row in enumerate(use):
        print(f"layer {i}: share of choices, least {row.min():.3f} most {row.max():.3f}")
    assert loss < 2.0 and use.min() > 0.005
    start, ids = golden_window(model, held)
    print("golden bytes:", start, bytes(ids[0].to(torch.uint8).numpy()))
    meta = dict(
        seed=str(SEED),
        dtype="bfloat16",
        weights="bfloat16",
        arithmetic="float32",
        text=TEXT,
        text_bytes=str(len(data)),
        text_held_out_bytes=str(len(held)),
        text_offset=str(len(training) + start),
        steps=str(steps),
        batch=f"{BATCH}x{LENGTH}",
        held_out_loss_nats_per_byte=f"{loss:.4f}",
        held_out_windows=f"{MEASURED}x{LENGTH}",
    )
    table, _ = goldenfile.write(folder, "olmoe", model, ids, meta, RULES)
    goldenfile.tidy(folder)
    goldenfile.print_table(table)
