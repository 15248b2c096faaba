"""The first random checkpoints, each in float32 and most in bfloat16 too.

The other families are in `models.py`, with other weights and smaller sizes.
"""

import pathlib
import tempfile
import zlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    MixtralConfig,
    OlmoeConfig,
    Qwen2MoeConfig,
    Qwen3MoeConfig,
)

from golden.rules import Rules, mlp, per_expert, stacked

VOCAB = 64


@dataclass(frozen=True)
class Spec:
    """One random checkpoint."""

    folder: str
    family: str
    config_class: type
    sizes: dict
    seed: int
    dtype: torch.dtype = torch.float32
    sequences: tuple = (2, 32)  # how many, how long
    max_shard_size: str | None = None
    fused_copy: str | None = None  # a second folder with fused expert tensors


COMMON = dict(
    vocab_size=VOCAB,
    max_position_embeddings=128,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
    tie_word_embeddings=False,
)

DEEPSEEK = dict(
    num_hidden_layers=3,
    num_attention_heads=2,
    num_key_value_heads=2,
    q_lora_rank=16,
    kv_lora_rank=8,
    qk_rope_head_dim=4,
    qk_nope_head_dim=4,
    v_head_dim=8,
    n_routed_experts=16,
    n_group=4,
    topk_group=2,
    num_experts_per_tok=4,
    routed_scaling_factor=2.5,
    norm_topk_prob=True,
    first_k_dense_replace=1,
    num_nextn_predict_layers=0,
)

RULES = dict(
    olmoe=Rules(per_expert("mlp."), renormalize="norm_topk_prob"),
    mixtral=Rules(per_expert("block_sparse_moe.", "w1", "w3", "w2"), renormalize=True,
                  router="block_sparse_moe.gate.weight"),
    qwen3_moe=Rules(per_expert("mlp."), renormalize="norm_topk_prob"),
    qwen2_moe=Rules(per_expert("mlp."), renormalize="norm_topk_prob",
                    shared=mlp("mlp.shared_expert."), shared_gate="mlp.shared_expert_gate.weight"),
    deepseek_v3=Rules(
        per_expert("mlp."), scoring="sigmoid", renormalize="norm_topk_prob", epsilon=1e-20,
        selection_bias="mlp.gate.e_score_correction_bias", groups="n_group",
        top_groups="topk_group", scale="routed_scaling_factor", shared=mlp("mlp.shared_experts.")),
)

# bf16 folders run more tokens, because rows whose selection hangs on bf16
# rounding are left out of the golden file afterwards.
MORE = (2, 48)

SPECS = [
    Spec(
        "olmoe-f32", "olmoe", OlmoeConfig,
        dict(hidden_size=40, intermediate_size=16, num_hidden_layers=2,
             num_attention_heads=4, num_experts=8, num_experts_per_tok=3,
             norm_topk_prob=False),
        seed=101,
    ),
    Spec(
        "olmoe-bf16", "olmoe", OlmoeConfig,
        dict(hidden_size=48, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, num_experts=8, num_experts_per_tok=3,
             norm_topk_prob=False),
        seed=102, dtype=torch.bfloat16, sequences=MORE,
    ),
    Spec(
        "mixtral-f32", "mixtral", MixtralConfig,
        dict(hidden_size=32, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             num_local_experts=8, num_experts_per_tok=2),
        seed=203, max_shard_size="80KB",
    ),
    Spec(
        "mixtral-bf16", "mixtral", MixtralConfig,
        dict(hidden_size=40, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             num_local_experts=8, num_experts_per_tok=2),
        seed=202, dtype=torch.bfloat16, sequences=MORE,
    ),
    Spec(
        "qwen3-moe-f32", "qwen3_moe", Qwen3MoeConfig,
        dict(hidden_size=36, intermediate_size=28, moe_intermediate_size=20,
             num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
             head_dim=8, num_experts=8, num_experts_per_tok=3,
             norm_topk_prob=True, mlp_only_layers=[1]),
        seed=301, fused_copy="qwen3-moe-fused-f32",
    ),
    Spec(
        "qwen3-moe-bf16", "qwen3_moe", Qwen3MoeConfig,
        dict(hidden_size=48, intermediate_size=28, moe_intermediate_size=20,
             num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
             head_dim=8, num_experts=8, num_experts_per_tok=4,
             norm_topk_prob=True, mlp_only_layers=[0]),
        seed=302, dtype=torch.bfloat16, sequences=MORE,
    ),
    Spec(
        "qwen2-moe-f32", "qwen2_moe", Qwen2MoeConfig,
        dict(hidden_size=40, intermediate_size=24, moe_intermediate_size=16,
             shared_expert_intermediate_size=28, num_hidden_layers=3,
             decoder_sparse_step=2, num_attention_heads=4,
             num_key_value_heads=1, num_experts=8, num_experts_per_tok=4,
             norm_topk_prob=False),
        seed=401,
    ),
    Spec(
        "deepseek-v3-f32", "deepseek_v3", DeepseekV3Config,
        dict(DEEPSEEK, hidden_size=32, intermediate_size=40,
             moe_intermediate_size=12, n_shared_experts=1),
        seed=501,
    ),
    Spec(
        "deepseek-v3-bf16", "deepseek_v3", DeepseekV3Config,
        dict(DEEPSEEK, hidden_size=40, intermediate_size=28,
             moe_intermediate_size=16, n_shared_experts=2),
        seed=502, dtype=torch.bfloat16, sequences=MORE,
    ),
]


def rules_of():
    """{folder: rules} of all that this file makes, and of olmoe-tiny."""
    found = {"olmoe-tiny": RULES["olmoe"]}
    for spec in SPECS:
        found[spec.folder] = RULES[spec.family]
        if spec.fused_copy:
            found[spec.fused_copy] = replace(RULES[spec.family], experts=stacked("mlp."))
    return found


def draw_weights(model, seed):
    """Fill every parameter and buffer that is saved, from numpy's generator.

    Each tensor has a stream of its own, found from its name, so that the
    values depend neither on the order of the modules nor on torch's generator.
    Gains are chosen for activations of order one and router logits with a
    standard deviation of about 1.5: the library's 0.02 would leave all the
    experts nearly equal.
    """
    with torch.no_grad():
        for name, tensor in model.state_dict(keep_vars=True).items():
            rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
            noise = rng.standard_normal(tuple(tensor.shape))
            fan_in = tensor.shape[-1]
            if name.endswith("e_score_correction_bias"):
                # Sigmoid scores spread by about 0.25; this moves a part of
                # the rows to other experts without ruling the choice.
                value = 0.1 * noise
            elif name.endswith("bias"):
                value = 0.2 * noise
            elif "norm" in name:
                value = 1.0 + 0.2 * noise
            elif "embed_tokens" in name:
                value = noise
            elif name.endswith("mlp.gate.weight"):
                value = 1.5 * noise / np.sqrt(fan_in)
            elif "down_proj" in name:
                value = 2.0 * noise / np.sqrt(fan_in)
            else:
                value = 1.2 * noise / np.sqrt(fan_in)
            tensor.data.copy_(torch.from_numpy(value))


def clean(folder):
    """Drop what a runtime has no use for."""
    (folder / "generation_config.json").unlink(missing_ok=True)


def load(folder, dtype):
    """The library's own model from a folder, with its plain loop over experts."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
    )
    return model.eval()


def build(spec, out):
    """Write the checkpoint of `spec` into `out` (and its fused copy)."""
    folder = out / spec.folder
    config = spec.config_class(**COMMON, **spec.sizes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    draw_weights(model, spec.seed)
    shard = {"max_shard_size": spec.max_shard_size} if spec.max_shard_size else {}
    if spec.dtype != torch.float32:
        # Converting by a save and a load lets the library keep in float32
        # what it always keeps so.
        with tempfile.TemporaryDirectory() as scratch:
            model.save_pretrained(scratch)
            model = load(pathlib.Path(scratch), spec.dtype)
    model.save_pretrained(folder, **shard)
    clean(folder)
    folders = [folder]
    if spec.fused_copy:
        fused = out / spec.fused_copy
        model.save_pretrained(fused, save_original_format=False)
        clean(fused)
        folders.append(fused)
    return folders


def tokens(spec):
    """The input of the golden run: [sequences, length] of token numbers."""
    rng = np.random.Generator(np.random.PCG64([spec.seed, 7]))
    return torch.from_numpy(rng.integers(0, VOCAB, size=spec.sequences))
