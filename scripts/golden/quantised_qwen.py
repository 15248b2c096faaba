"""Quantised releases in the shape of Qwen3-MoE and Qwen3.6."""

import torch

from golden import quantised_codes as codes
from golden.maths import Rule
from golden.quantised_formats import COMPRESSED, MODELOPT, float8, int8, mxfp8, nvfp4
from golden.quantised_spec import VOCAB, Block, Names, Spec, dense, modules, usual, weights

BF16_BLOCKS = float8(torch.bfloat16, "weight_scale_inv", (128, 128))


def qwen3(folder, seed, hidden, width, experts, k, fmt, act, said, quantization, heads=16,
          files=None, extra=None, plain_attention=False, rows=24):
    """Qwen3-MoE with one layer of experts after a dense one."""
    attention = {}
    for i in (0, 1):
        at = f"model.layers.{i}.self_attn."
        attention.update(modules(at, q_proj=(heads, hidden), k_proj=(8, hidden),
                                 v_proj=(8, hidden), o_proj=(hidden, heads)))
    mlp = dense("model.layers.0.mlp.", hidden, 16 if heads == 16 else heads)
    plain = usual("model.", hidden, 2)
    plain.update({f"model.layers.{i}.self_attn.{norm}.weight": (8,)
                  for i in (0, 1) for norm in ("q_norm", "k_norm")})
    coded = dict(mlp) if plain_attention else dict(attention, **mlp)
    if plain_attention:
        plain.update(weights(attention))
    return Spec(
        folder, "qwen3_moe", seed, hidden,
        config=dict(
            architectures=["Qwen3MoeForCausalLM"], attention_bias=False, decoder_sparse_step=1,
            head_dim=8, hidden_act="silu", hidden_size=hidden,
            intermediate_size=mlp["model.layers.0.mlp.gate_proj"][0], mlp_only_layers=[0],
            model_type="qwen3_moe", moe_intermediate_size=width, norm_topk_prob=True,
            num_attention_heads=heads // 8, num_experts=experts, num_experts_per_tok=k,
            num_hidden_layers=2, num_key_value_heads=1, output_router_logits=False,
            rms_norm_eps=1e-6, router_aux_loss_coef=0.001, tie_word_embeddings=False,
            torch_dtype="bfloat16", transformers_version="4.51.0", vocab_size=VOCAB,
            quantization_config=quantization),
        blocks={1: Block(experts, width, Rule(k, renormalize=True), fmt, act)},
        prefix="model.layers.{i}.mlp.", names=Names(), plain=plain, coded=coded,
        coded_format=fmt, files=files or {}, extra=extra or {}, activations=said,
        rows=rows)


LEFT = ["input_layernorm", "mlp.gate", "post_attention_layernorm"]
FP8 = qwen3(
    "qwen3-moe-fp8", 4101, 132, 130, 2, 2, BF16_BLOCKS, codes.group128, "group128",
    dict(activation_scheme="dynamic",
         modules_to_not_convert=["lm_head", *(f"model.layers.{i}.{name}"
                                              for i in (0, 1) for name in LEFT)],
         fmt="e4m3", quant_method="fp8", weight_block_size=[128, 128]),
    rows=16)

FOUR_BITS = dict(dynamic=False, num_bits=4, type="float", group_size=16)
IGNORED = ["lm_head", *(f"model.layers.{i}.{what}" for i in (0, 1)
                        for what in ("mlp.gate", "self_attn*"))]
# Gate and up of an expert have global scales of their own, which some readers do not heed.
NVFP4 = qwen3(
    "qwen3-moe-nvfp4", 4201, 80, 48, 6, 3, nvfp4(MODELOPT, False), codes.nv, "nvfp4",
    dict(config_groups=dict(group_0=dict(
             input_activations=FOUR_BITS, weights=FOUR_BITS, targets=["Linear"])),
         ignore=IGNORED, quant_algo="NVFP4",
         kv_cache_scheme=dict(dynamic=False, num_bits=8, type="float"),
         producer=dict(name="modelopt", version="0.37.0"), quant_method="modelopt"),
    files={"hf_quant_config.json": dict(
        producer=dict(name="modelopt", version="0.37.0"),
        quantization=dict(quant_algo="NVFP4", kv_cache_quant_algo="FP8", group_size=16,
                          exclude_modules=IGNORED))},
    extra={f"model.layers.{i}.self_attn.{name}": (torch.float32, ())
           for i in (0, 1) for name in ("k_proj.k_scale", "v_proj.v_scale")},
    plain_attention=True)


def arguments(**said):
    return dict(dict(actorder=None, block_structure=None, group_size=None, num_bits=8,
                     observer="minmax", observer_kwargs={}, symmetric=True), **said)


def compressed(form, weight, inputs):
    return dict(
        config_groups=dict(group_0=dict(
            input_activations=inputs, output_activations=None, targets=["Linear"],
            weights=weight)),
        format=form, global_compression_ratio=None,
        ignore=["lm_head", "model.layers.1.mlp.gate"], kv_cache_scheme=None,
        quant_method="compressed-tensors", quantization_status="compressed")


NVFP4_CT = qwen3(
    "qwen3-moe-nvfp4-ct", 4301, 112, 64, 5, 2, nvfp4(COMPRESSED, True), codes.nv, "nvfp4",
    compressed(
        "nvfp4-pack-quantized",
        arguments(num_bits=4, group_size=16, strategy="tensor_group", type="float",
                  dynamic=False),
        arguments(num_bits=4, group_size=16, strategy="tensor_group", type="float",
                  dynamic="local")))

INT8 = qwen3(
    "qwen3-moe-int8", 4401, 56, 40, 7, 3, int8, codes.token_int8, "token_int8",
    compressed("int-quantized",
               arguments(strategy="channel", type="int", dynamic=False),
               arguments(strategy="token", type="int", dynamic=True, observer=None)))

MXFP8 = qwen3(
    "qwen3-moe-mxfp8", 4501, 96, 64, 4, 2, mxfp8, codes.mx, "mxfp8",
    dict(quant_method="modelopt", quant_algo="MXFP8", kv_cache_scheme=None,
         ignore=["lm_head", "model.layers.1.mlp.gate"],
         producer=dict(name="modelopt", version="0.41.0")),
    heads=32)

ROOT = "model.language_model."
LINEAR = f"{ROOT}layers.0.linear_attn."
MTP = "mtp.layers.0."
QWEN3_6 = Spec(
    "qwen3-5-moe-fp8", "qwen3_5_moe", 4601, 144,
    config=dict(
        architectures=["Qwen3_5MoeForConditionalGeneration"], dtype="bfloat16",
        model_type="qwen3_5_moe",
        text_config=dict(
            attention_bias=False, dtype="bfloat16", head_dim=8, hidden_act="silu",
            hidden_size=144, layer_types=["linear_attention"], mlp_only_layers=[],
            model_type="qwen3_5_moe_text", moe_intermediate_size=20, mtp_num_hidden_layers=1,
            mtp_use_dedicated_embeddings=False, num_attention_heads=2, num_experts=6,
            num_experts_per_tok=3, num_hidden_layers=1, num_key_value_heads=1,
            output_router_logits=False, rms_norm_eps=1e-6, router_aux_loss_coef=0.001,
            shared_expert_intermediate_size=28, tie_word_embeddings=False, vocab_size=VOCAB),
        tie_word_embeddings=False, transformers_version="5.7.0.dev0",
        quantization_config=dict(
            activation_scheme="dynamic", fmt="e4m3", quant_method="fp8",
            weight_block_size=[128, 128],
            modules_to_not_convert=[
                "lm_head", f"{ROOT}embed_tokens", f"{ROOT}layers.0.mlp.gate",
                f"{ROOT}layers.0.mlp.shared_expert_gate", f"{LINEAR}conv1d",
                f"{LINEAR}in_proj_a", f"{LINEAR}in_proj_b", "mtp.fc",
                f"{MTP}mlp.gate", f"{MTP}mlp.shared_expert_gate"])),
    blocks={0: Block(6, 20, Rule(3, renormalize=True), BF16_BLOCKS, codes.group128,
                     shared=28, shared_gate=True)},
    prefix=ROOT + "layers.{i}.mlp.", names=Names(shared="shared_expert."),
    plain={**usual(ROOT, 144, 1), f"{LINEAR}A_log": (2,), f"{LINEAR}dt_bias": (2,),
           f"{LINEAR}conv1d.weight": (16, 1, 2), f"{LINEAR}norm.weight": (4,),
           f"{LINEAR}in_proj_a.weight": (2, 144), f"{LINEAR}in_proj_b.weight": (2, 144),
           "mtp.norm.weight": (144,), f"{MTP}input_layernorm.weight": (144,),
           f"{MTP}mlp.gate.weight": (1, 144)},
    coded={**modules(LINEAR, in_proj_qkv=(16, 144), in_proj_z=(8, 144), out_proj=(144, 8)),
           **dense(f"{MTP}mlp.experts.0.", 144, 4)},
    coded_format=BF16_BLOCKS, activations="group128")

SPECS = [FP8, NVFP4, NVFP4_CT, INT8, MXFP8, QWEN3_6]
