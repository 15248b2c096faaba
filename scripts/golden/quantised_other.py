"""Quantised releases in the shape of gpt-oss, Llama 4 and Mixtral."""

import torch

from golden import quantised_codes as codes
from golden.maths import Activation, Rule
from golden.quantised_formats import float8, mxfp4
from golden.quantised_spec import (
    GUD, VOCAB, W132, Block, Names, Spec, modules, usual, weights)
from golden.quantised_words import awq, gptq

SELF = "model.layers.0.self_attn."
GPT_OSS = Spec(
    "gpt-oss-mxfp4", "gpt_oss", 5101, 96,
    config=dict(
        architectures=["GptOssForCausalLM"], attention_bias=True, experts_per_token=3,
        head_dim=8, hidden_act="silu", hidden_size=96, intermediate_size=64,
        layer_types=["sliding_attention"], model_type="gpt_oss", num_attention_heads=2,
        num_experts_per_tok=3, num_hidden_layers=1, num_key_value_heads=1, num_local_experts=6,
        output_router_logits=False,
        quantization_config=dict(
            modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                    "model.embed_tokens", "lm_head"],
            quant_method="mxfp4"),
        rms_norm_eps=1e-5, router_aux_loss_coef=0.9, sliding_window=16, swiglu_limit=1.5,
        tie_word_embeddings=False, transformers_version="4.55.0.dev0", vocab_size=VOCAB),
    blocks={0: Block(6, 64, Rule(3, renormalize=True), mxfp4, router_bias=True,
                     expert_bias=True,
                     activation=Activation("swigluoai", limit=1.5, alpha=1.702))},
    prefix="model.layers.{i}.mlp.", names=Names(router="router.weight", stacked=True),
    plain={**usual("model.", 96, 1), f"{SELF}sinks": (2,),
           **weights(modules(SELF, q_proj=(16, 96), k_proj=(8, 96), v_proj=(8, 96),
                             o_proj=(96, 16))),
           **{f"{SELF}{name}.bias": (n,) for name, n in (
               ("q_proj", 16), ("k_proj", 8), ("v_proj", 8), ("o_proj", 96))}})

LLAMA = "language_model.model."
CHANNELS = float8(torch.bfloat16, "weight_scale")
ARGUMENTS = dict(actorder=None, block_structure=None, group_size=None, num_bits=8,
                 observer_kwargs={}, symmetric=True, type="float")
LLAMA_ATTENTION = {}
for _i in (0, 1):
    LLAMA_ATTENTION.update(modules(
        f"{LLAMA}layers.{_i}.self_attn.", q_proj=(16, 72), k_proj=(8, 72), v_proj=(8, 72),
        o_proj=(72, 16)))
LLAMA4 = Spec(
    "llama4-fp8-dynamic", "llama4", 5201, 72,
    config=dict(
        architectures=["Llama4ForConditionalGeneration"], model_type="llama4",
        text_config=dict(
            attention_bias=False, head_dim=8, hidden_act="silu", hidden_size=72,
            interleave_moe_layer_step=1, intermediate_size=40, intermediate_size_mlp=14,
            model_type="llama4_text", num_attention_heads=2, num_experts_per_tok=1,
            num_hidden_layers=2, num_key_value_heads=1, num_local_experts=4,
            output_router_logits=False, rms_norm_eps=1e-5, router_aux_loss_coef=0.001,
            router_jitter_noise=0.0, torch_dtype="bfloat16", vocab_size=VOCAB),
        torch_dtype="bfloat16", transformers_version="4.51.0.dev0",
        quantization_config=dict(
            config_groups=dict(group_0=dict(
                input_activations=dict(ARGUMENTS, dynamic=True, observer=None, strategy="token"),
                output_activations=None, targets=["Linear"],
                weights=dict(ARGUMENTS, dynamic=False, observer="mse", strategy="channel"))),
            format="float-quantized", global_compression_ratio=None,
            ignore=["vision_model.patch_embedding.linear", "multi_modal_projector.linear_1",
                    *(f"{LLAMA}layers.{i}.{name}" for i in (0, 1) for name in (
                        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                        "self_attn.o_proj", "feed_forward.router")),
                    "language_model.lm_head"],
            kv_cache_scheme=None, quant_method="compressed-tensors",
            quantization_status="compressed")),
    blocks={i: Block(4, 40, Rule(1, scoring="sigmoid"), CHANNELS, codes.token, shared=40,
                     weight_on_input=True) for i in (0, 1)},
    prefix=LLAMA + "layers.{i}.feed_forward.",
    names=Names(router="router.weight", shared="shared_expert.", parts=GUD),
    plain={**usual(LLAMA, 72, 2, head="language_model.lm_head.weight"),
           **weights(LLAMA_ATTENTION), "multi_modal_projector.linear_1.weight": (72, 8),
           "vision_model.patch_embedding.linear.weight": (8, 12)},
    activations="token")


def mixtral(folder, seed, hidden, width, fmt, kind, dtype, quantization):
    attention = {}
    for i in (0, 1):
        attention.update(modules(
            f"model.layers.{i}.self_attn.", q_proj=(32, hidden), k_proj=(16, hidden),
            v_proj=(16, hidden), o_proj=(hidden, 32)))
    return Spec(
        folder, "mixtral", seed, hidden,
        config=dict(
            architectures=["MixtralForCausalLM"], hidden_act="silu", hidden_size=hidden,
            intermediate_size=width, model_type="mixtral", num_attention_heads=4,
            num_experts_per_tok=2, num_hidden_layers=2, num_key_value_heads=2,
            num_local_experts=4, output_router_logits=False, quantization_config=quantization,
            rms_norm_eps=1e-5, router_aux_loss_coef=0.02, tie_word_embeddings=False,
            torch_dtype=dtype, transformers_version="4.36.0.dev0", vocab_size=VOCAB),
        blocks={i: Block(4, width, Rule(2, renormalize=True), fmt) for i in (0, 1)},
        prefix="model.layers.{i}.block_sparse_moe.", names=Names(parts=W132), rows=16,
        plain=usual("model.", hidden, 2), coded=attention, coded_format=fmt, kind=kind)


AWQ = mixtral(
    "mixtral-awq", 5301, 96, 64, awq, torch.float16, "float16",
    dict(bits=4, group_size=32, modules_to_not_convert=["gate"], quant_method="awq",
         version="gemm", zero_point=True))

# Two layers' worth of 96 x 64 with another order of inputs in each matrix.
GPTQ = mixtral(
    "mixtral-gptq", 5401, 64, 96, gptq, torch.bfloat16, "bfloat16",
    dict(batch_size=1, bits=4, block_name_to_quantize=None, damp_percent=0.1, desc_act=True,
         group_size=32, model_seqlen=4096, module_name_preceding_first_block=None,
         quant_method="gptq", sym=False, true_sequential=True, use_exllama=False))

SPECS = [GPT_OSS, LLAMA4, AWQ, GPTQ]
