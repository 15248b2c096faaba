"""Quantised releases with DeepSeek's routers: V3, V3.2 with a layer left out, V4, Kimi-K2.5."""

import torch

from golden import quantised_codes as codes
from golden.maths import Activation, Rule
from golden.quantised_formats import float8, int4, mxfp4_i8
from golden.quantised_layers import bfloat16
from golden.quantised_spec import (
    VOCAB, W132, Block, Names, Spec, dense, modules, usual, weights)

BLOCK = (128, 128)
GROUPED = Rule(3, scoring="sigmoid", renormalize=True, scale=2.5, groups=4, top_groups=2)
F32_BLOCKS = float8(torch.float32, "weight_scale_inv", BLOCK)
POWER_BLOCKS = float8(torch.float32, "weight_scale_inv", BLOCK, power=True)
E8M0_BLOCKS = float8(torch.float8_e8m0fnu, "scale", BLOCK)


def latent(prefix, hidden):
    """{module: shape} and {name: shape} of V3's attention."""
    coded = modules(prefix, q_a_proj=(8, hidden), q_b_proj=(16, 8),
                    kv_a_proj_with_mqa=(12, hidden), kv_b_proj=(24, 8), o_proj=(hidden, 16))
    norms = {f"{prefix}{name}.weight": (8,) for name in ("q_a_layernorm", "kv_a_layernorm")}
    return coded, norms


def v3_config(hidden, width, shared, layers, quantization, **more):
    return dict(dict(
        architectures=["DeepseekV3ForCausalLM"], attention_bias=False, first_k_dense_replace=1,
        hidden_act="silu", hidden_size=hidden, intermediate_size=10, kv_lora_rank=8,
        model_type="deepseek_v3", moe_intermediate_size=width, moe_layer_freq=1, n_group=4,
        n_routed_experts=8, n_shared_experts=shared, norm_topk_prob=True,
        num_attention_heads=2, num_experts_per_tok=3, num_hidden_layers=layers,
        num_key_value_heads=2, num_nextn_predict_layers=1, q_lora_rank=8, qk_nope_head_dim=4,
        qk_rope_head_dim=4, quantization_config=quantization, rms_norm_eps=1e-6,
        routed_scaling_factor=2.5, scoring_func="sigmoid", tie_word_embeddings=False,
        topk_group=2, topk_method="noaux_tc", torch_dtype="bfloat16",
        transformers_version="4.33.1", v_head_dim=8, vocab_size=VOCAB), **more)


def v3_outside(hidden, layers, extra):
    """What the file holds beside MoE layers: `extra` is the layer of multi-token prediction."""
    plain = usual("model.", hidden, layers)
    coded = dense("model.layers.0.mlp.", hidden, 10)
    for i in range(layers):
        matrices, norms = latent(f"model.layers.{i}.self_attn.", hidden)
        coded.update(matrices)
        plain.update(norms)
    plain.update({f"model.layers.{extra}.{name}.weight": (hidden,) for name in ("enorm", "hnorm")})
    coded[f"model.layers.{extra}.self_attn.q_a_proj"] = (8, hidden)
    return dict(plain=plain, coded=coded)


FP8 = dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8",
           weight_block_size=[128, 128])

# The shared experts are one matrix of 132 rows: blocks of 128 and of 4, times 128 and 8.
V3 = Spec(
    "deepseek-v3-fp8", "deepseek_v3", 3101, 136,
    config=v3_config(136, 12, 11, 2, FP8),
    blocks={1: Block(8, 12, GROUPED, F32_BLOCKS, codes.group128, bias=True, shared=132)},
    prefix="model.layers.{i}.mlp.", names=Names(), rows=20,
    coded_format=F32_BLOCKS, activations="group128", **v3_outside(136, 2, 2))

# A layer that modules_to_not_convert names by its block; layer 2 has no scales at all.
MIXED = Spec(
    "deepseek-v3-fp8-mixed", "deepseek_v3", 3201, 140,
    config=v3_config(
        140, 6, 1, 3,
        dict(FP8, modules_to_not_convert=["lm_head", "model.layers.2.mlp"], scale_fmt="ue8m0"),
        architectures=["DeepseekV32ForCausalLM"], model_type="deepseek_v32", index_topk=64,
        transformers_version="4.44.2"),
    blocks={1: Block(8, 6, GROUPED, POWER_BLOCKS, codes.group128_ue8m0, bias=True, shared=6),
            2: Block(8, 6, GROUPED, bfloat16, bias=True, shared=6)},
    prefix="model.layers.{i}.mlp.", names=Names(), rows=16,
    coded_format=POWER_BLOCKS, activations="1:group128_ue8m0 2:none", **v3_outside(140, 3, 3))

ATTENTION = "layers.0.attn."
V4 = Spec(
    "deepseek-v4-fp4", "deepseek_v4", 3301, 160,
    config=dict(
        architectures=["DeepseekV4ForCausalLM"], attention_bias=False, expert_dtype="fp4",
        head_dim=8, hc_eps=1e-6, hc_mult=2, hc_sinkhorn_iters=20, hidden_act="silu",
        hidden_size=160, index_topk=16, model_type="deepseek_v4", moe_intermediate_size=64,
        n_routed_experts=4, n_shared_experts=1, norm_topk_prob=True, num_attention_heads=2,
        num_experts_per_tok=2, num_hidden_layers=1, num_hash_layers=0, num_key_value_heads=1,
        num_nextn_predict_layers=0, o_groups=2, q_lora_rank=8, qk_rope_head_dim=4,
        quantization_config=dict(
            activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", scale_fmt="ue8m0",
            weight_block_size=[128, 128]),
        rms_norm_eps=1e-6, routed_scaling_factor=1.5, scoring_func="sqrtsoftplus",
        sliding_window=16, swiglu_limit=1.0, tie_word_embeddings=False, topk_method="noaux_tc",
        torch_dtype="bfloat16", transformers_version="4.57.1", vocab_size=VOCAB),
    blocks={0: Block(
        4, 64, Rule(2, scoring="sqrtsoftplus", renormalize=True, scale=1.5), mxfp4_i8,
        codes.group128_ue8m0, activation=Activation("silu", limit=1.0), bias=True, shared=64,
        shared_format=E8M0_BLOCKS)},
    prefix="layers.{i}.ffn.", names=Names(bias="gate.bias", parts=W132),
    plain={**usual("", 160, 1, head="head.weight", norms=("attn_norm", "ffn_norm"), embed="embed"),
           f"{ATTENTION}q_norm.weight": (8,), f"{ATTENTION}kv_norm.weight": (8,)},
    coded=modules(ATTENTION, wq_a=(8, 160), wq_b=(16, 8), wkv=(8, 160), wo_a=(8, 8),
                  wo_b=(160, 8)),
    coded_format=E8M0_BLOCKS,
    extra={f"{ATTENTION}attn_sink": (torch.float32, (2,)),
           **{f"layers.0.hc_{part}_base": (torch.float32, (8,)) for part in ("attn", "ffn")},
           **{f"layers.0.hc_{part}_scale": (torch.float32, (3,)) for part in ("attn", "ffn")},
           "hc_head_base": (torch.float32, (2,)), "hc_head_scale": (torch.float32, (1,))},
    activations="group128_ue8m0")

KIMI = "language_model.model."
KIMI_MATRICES, KIMI_NORMS = {}, {}
for _i in (0, 1):
    _matrices, _norms = latent(f"{KIMI}layers.{_i}.self_attn.", 96)
    KIMI_MATRICES.update(_matrices)
    KIMI_NORMS.update(_norms)

# The quantisation is inside text_config; shared experts and dense layers are bfloat16.
K25 = Spec(
    "kimi-k25-int4", "deepseek_v3", 3401, 96,
    config=dict(
        architectures=["KimiK25ForConditionalGeneration"], dtype="bfloat16",
        model_type="kimi_k25",
        text_config=v3_config(
            96, 64, 1, 2,
            dict(config_groups=dict(group_0=dict(
                     input_activations=None, output_activations=None, targets=["Linear"],
                     weights=dict(
                         actorder=None, block_structure=None, dynamic=False, group_size=32,
                         num_bits=4, observer="minmax", observer_kwargs={}, strategy="group",
                         symmetric=True, type="int"))),
                 format="pack-quantized",
                 ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                         r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
                 kv_cache_scheme=None, quant_method="compressed-tensors",
                 quantization_status="compressed"),
            dtype="bfloat16", model_type="kimi_k2", n_group=1, n_routed_experts=5,
            num_nextn_predict_layers=0, rms_norm_eps=1e-5, routed_scaling_factor=2.827,
            top_k=50, topk_group=1, transformers_version="4.56.2"),
        tie_word_embeddings=False),
    blocks={1: Block(5, 64, Rule(3, scoring="sigmoid", renormalize=True, scale=2.827), int4,
                     bias=True, shared=64, shared_format=bfloat16)},
    prefix=KIMI + "layers.{i}.mlp.", names=Names(),
    plain={**usual(KIMI, 96, 2, head="language_model.lm_head.weight"), **KIMI_NORMS,
           **weights(KIMI_MATRICES), **weights(dense(KIMI + "layers.0.mlp.", 96, 10)),
           "mm_projector.proj.0.weight": (8, 8)})

SPECS = [V3, MIXED, V4, K25]
