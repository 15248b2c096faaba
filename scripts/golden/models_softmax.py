"""Families whose router is a softmax, and no selection bias."""

from golden.models import Model
from golden.rules import Layout, Rules, mlp, per_expert, stacked
from golden.sizes import (
    DENSE, DENSE_FIRST, EIGHT, EIGHT_LOCAL, GROUPS, H, IMAGE, LATENT, LINEAR, SHARED, SMALL, TEXT,
    VISION, WIDTH,
)

QWEN_SHARED = dict(shared=mlp("mlp.shared_expert."), shared_gate="mlp.shared_expert_gate.weight")
VL = "model.language_model.layers."
GRANITE = dict(
    experts=stacked("block_sparse_moe.", "input_linear.weight", "output_linear.weight"),
    router="block_sparse_moe.router.layer.weight", scoring="softmax_topk",
    module="block_sparse_moe", gate="router")
GRANITE_SHARED = dict(
    GRANITE, beside="shared_mlp",
    shared=Layout(gate_up="shared_mlp.input_linear.weight", down="shared_mlp.output_linear.weight"))
W123 = ("w1", "w3", "w2")

MODELS = [
    Model(
        "flex-olmo-f32", "FlexOlmoForCausalLM",
        dict(TEXT, **EIGHT, intermediate_size=WIDTH, norm_topk_prob=True),
        Rules(per_expert("mlp."), renormalize="norm_topk_prob"), seed=1401),
    Model(
        "qwen3-next-f32", "Qwen3NextForCausalLM",
        dict(TEXT, **EIGHT, **LINEAR, intermediate_size=DENSE, moe_intermediate_size=WIDTH,
             shared_expert_intermediate_size=SHARED, norm_topk_prob=True),
        Rules(per_expert("mlp."), renormalize="norm_topk_prob", **QWEN_SHARED), seed=1102),
    Model(
        "qwen3-5-moe-f32", "Qwen3_5MoeForConditionalGeneration",
        dict(text_config=dict(TEXT, **EIGHT, **LINEAR, moe_intermediate_size=WIDTH,
                              shared_expert_intermediate_size=SHARED,
                              rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                   mrope_section=[1, 0, 0],
                                                   partial_rotary_factor=0.25)),
             vision_config=dict(VISION, num_position_embeddings=4), **IMAGE),
        Rules(per_expert("mlp."), layers=VL, text="text_config", renormalize=True, **QWEN_SHARED),
        seed=1103, fused_copy="qwen3-5-moe-stacked-f32", fused_experts=stacked("mlp.")),
    Model(
        "qwen3-vl-moe-f32", "Qwen3VLMoeForConditionalGeneration",
        dict(text_config=dict(TEXT, num_experts=8, num_experts_per_tok=3, head_dim=8,
                              intermediate_size=DENSE, moe_intermediate_size=WIDTH,
                              rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                   mrope_section=[2, 1, 1])),
             vision_config=dict(VISION, num_position_embeddings=4, deepstack_visual_indexes=[0]),
             **IMAGE),
        Rules(stacked("mlp.", transposed=True), layers=VL, text="text_config", renormalize=True),
        seed=1104, transposed=("gate_up_proj", "down_proj"),
        fused_copy="qwen3-vl-moe-stacked-f32", fused_experts=stacked("mlp.")),
    Model(
        "deepseek-v2-f32", "DeepseekV2ForCausalLM",
        dict(dict(DENSE_FIRST, **SMALL), **LATENT, first_k_dense_replace=1, n_routed_experts=16,
             num_experts_per_tok=4, n_group=4, topk_group=2, n_shared_experts=2,
             topk_method="group_limited_greedy", routed_scaling_factor=4.0, norm_topk_prob=False),
        Rules(per_expert("mlp."), groups="n_group", top_groups="topk_group", group_score="max",
              dropped=0.0, scale="routed_scaling_factor", shared=mlp("mlp.shared_experts.")),
        seed=1105),
    Model(
        "gpt-oss-f32", "GptOssForCausalLM",
        dict(TEXT, **EIGHT_LOCAL, head_dim=8, intermediate_size=WIDTH, swiglu_limit=1.5,
             rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
        Rules(stacked("mlp.", transposed=True, interleaved=True,
                      gate_up_bias="mlp.experts.gate_up_proj_bias",
                      down_bias="mlp.experts.down_proj_bias"),
              router="mlp.router.weight", router_bias="mlp.router.bias", scoring="softmax_topk",
              alpha="swiglu_alpha", limit="swiglu_limit", gate="router"),
        seed=1106),
    Model(
        "gemma4-f32", "Gemma4ForConditionalGeneration",
        dict(text_config=dict(TEXT, num_experts=8, top_k_experts=3, enable_moe_block=True,
                              head_dim=8, global_head_dim=8, intermediate_size=DENSE,
                              moe_intermediate_size=WIDTH, hidden_size_per_layer_input=0,
                              vocab_size_per_layer_input=48, pad_token_id=0,
                              layer_types=["sliding_attention", "full_attention"]),
             vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                num_attention_heads=2, num_key_value_heads=1, head_dim=4,
                                patch_size=2, position_embedding_size=4),
             audio_config=None, image_token_id=60, video_token_id=61, audio_token_id=62),
        Rules(stacked("", "experts.gate_up_proj", "experts.down_proj"), layers=VL,
              text="text_config", k="top_k_experts", router="router.proj.weight",
              router_scale="router.scale", router_input="unit",
              expert_scale="router.per_expert_scale", norm_eps="rms_norm_eps",
              input_norm="pre_feedforward_layernorm_2.weight", renormalize=True,
              act="gelu_tanh", module="", gate="router", gives=("", "weights", "ids"),
              logits_of="proj",
              note=dict(hidden_states="what the router reads, before its own norm",
                        experts_input="what the experts read")),
        seed=1107, gains={"router.proj.weight": 4.5}),
    Model(
        "granitemoe-f32", "GraniteMoeForCausalLM",
        dict(TEXT, **EIGHT_LOCAL, intermediate_size=WIDTH, attention_multiplier=0.3),
        Rules(**GRANITE), seed=1108),
    Model(
        "granitemoeshared-f32", "GraniteMoeSharedForCausalLM",
        dict(TEXT, **EIGHT_LOCAL, intermediate_size=WIDTH, attention_multiplier=0.3,
             shared_intermediate_size=SHARED),
        Rules(**GRANITE_SHARED), seed=1109),
    Model(
        "granitemoehybrid-f32", "GraniteMoeHybridForCausalLM",
        dict(TEXT, **EIGHT_LOCAL, intermediate_size=WIDTH, attention_multiplier=0.3,
             shared_intermediate_size=SHARED, layer_types=["linear_attention", "full_attention"],
             mamba_n_heads=2, mamba_d_state=4, mamba_d_conv=2, mamba_expand=1,
             mamba_chunk_size=16, time_step_limit=(0.0, 10.0)),
        Rules(**GRANITE_SHARED), seed=1110),
    Model(
        "granitemoe-swa-f32", "GraniteMoeSWAForCausalLM",
        dict(TEXT, **EIGHT_LOCAL, intermediate_size=WIDTH, attention_multiplier=0.3,
             shared_intermediate_size=SHARED),
        Rules(**dict(GRANITE_SHARED, experts=stacked("block_sparse_moe."),
                     router="block_sparse_moe.router.weight")), seed=1111),
    Model(
        "phimoe-f32", "PhimoeForCausalLM",
        dict(TEXT, num_local_experts=8, num_experts_per_tok=2, intermediate_size=WIDTH,
             router_jitter_noise=0.2),
        Rules(per_expert("block_sparse_moe.", *W123), router="block_sparse_moe.gate.weight",
              scoring="sparsemixer", jitter="router_jitter_noise", k=2, gate="router"),
        seed=1112),
    Model(
        "dbrx-f32", "DbrxForCausalLM",
        dict(vocab_size=48, d_model=H, n_heads=2, n_layers=2, max_seq_len=128,
             bos_token_id=None, eos_token_id=None, pad_token_id=None, tie_word_embeddings=False,
             attn_config=dict(kv_n_heads=1, clip_qkv=8.0, rope_theta=10000.0),
             ffn_config=dict(ffn_hidden_size=WIDTH, moe_num_experts=8, moe_top_k=3,
                             moe_normalize_expert_weights=1.0)),
        Rules(Layout(gate="ffn.experts.mlp.w1", up="ffn.experts.mlp.v1", down="ffn.experts.mlp.w2",
                     flat="ffn_config.ffn_hidden_size"),
              layers="transformer.blocks.", router="ffn.router.layer.weight",
              k="ffn_config.moe_top_k", renormalize=True, module="ffn", gate="router",
              gives=("logits",)), seed=1113),
    Model(
        "jamba-f32", "JambaForCausalLM",
        dict(TEXT, num_experts=8, num_experts_per_tok=2, intermediate_size=WIDTH,
             num_hidden_layers=4, expert_layer_period=2, expert_layer_offset=1,
             attn_layer_period=4, attn_layer_offset=2, mamba_d_state=4, mamba_d_conv=2,
             mamba_expand=1, mamba_dt_rank=2, use_mamba_kernels=False),
        Rules(per_expert("feed_forward."), router="feed_forward.router.weight",
              module="feed_forward", gate="router"), seed=1114),
    Model(
        "hunyuan-v1-moe-f32", "HunYuanMoEV1ForCausalLM",
        dict(TEXT, num_experts=8, moe_topk=[3, 2], intermediate_size=WIDTH, head_dim=10),
        Rules(per_expert("mlp."), router="mlp.gate.wg.weight", k="moe_topk", renormalize=True,
              shared=mlp("mlp.shared_mlp.")), seed=1115),
    Model(
        "minimax-f32", "MiniMaxForCausalLM",
        dict(TEXT, **EIGHT_LOCAL, intermediate_size=WIDTH, head_dim=10, block_size=16),
        Rules(per_expert("block_sparse_moe.", *W123), router="block_sparse_moe.gate.weight",
              renormalize=True), seed=1116),
    Model(
        "jetmoe-f32", "JetMoeForCausalLM",
        dict(TEXT, num_local_experts=8, num_experts_per_tok=2, intermediate_size=WIDTH,
             kv_channels=6),
        Rules(stacked("mlp.", "input_linear.weight", "output_linear.weight"),
              router="mlp.router.layer.weight", scoring="softmax_topk", output_bias="mlp.bias",
              gate="router", gives=("", "", "", "", "logits")), seed=1117),
    Model(
        "aria-f32", "AriaForConditionalGeneration",
        dict(text_config=dict(TEXT, moe_num_experts=8, moe_topk=3, moe_num_shared_experts=2,
                              intermediate_size=WIDTH),
             vision_config=dict(model_type="idefics3_vision", hidden_size=8, intermediate_size=8,
                                num_hidden_layers=1, num_attention_heads=2, image_size=4,
                                patch_size=2),
             projector_patch_to_query_dict={"4": 2}, image_token_index=60),
        Rules(stacked("mlp.", "experts.fc1.weight", "experts.fc2.weight", transposed=True),
              text="text_config", layers="language_model.model.layers.",
              router="mlp.router.weight", k="moe_topk", scoring="softmax_topk", gate="router",
              shared=mlp("mlp.shared_experts.")), seed=1118),
    Model(
        "mistral4-f32", "Mistral4ForCausalLM",
        dict(dict(DENSE_FIRST, **SMALL), **LATENT, **GROUPS, first_k_dense_replace=1),
        Rules(stacked("mlp."), groups="n_group", top_groups="topk_group", dropped=0.0,
              renormalize="norm_topk_prob", epsilon=1e-20, scale="routed_scaling_factor",
              shared=mlp("mlp.shared_experts.")), seed=1319),
    Model(
        "lara-mini-f32", "LaraMiniForCausalLM",
        dict(TEXT, **EIGHT, **LINEAR, moe_intermediate_size=WIDTH,
             shared_expert_intermediate_size=SHARED),
        Rules(stacked("mlp."), renormalize="norm_topk_prob", shared=mlp("mlp.shared_expert.")),
        seed=1220),
    Model(
        "mellum-f32", "MellumForCausalLM",
        dict(DENSE_FIRST, **EIGHT, head_dim=8, mlp_layer_types=["sparse", "dense", "sparse"]),
        Rules(per_expert("mlp."), renormalize="norm_topk_prob"), seed=1121),
]
