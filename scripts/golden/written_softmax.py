"""Written families whose router takes a softmax: real keys and names, tiny sizes."""

from golden.maths import Activation, Rule
from golden.written_layouts import (
    GUD, W132, dense, fused, joined, outside, per_expert, per_part, shared, tensor)
from golden.written_spec import DENSE, VOCAB, Block, E, H, I, Spec, bailing, bailing_outside, plain

STEP3 = Spec(
    "step3-f32", "step3", 1201,
    config=plain(
        architectures=["Step3TextForCausalLM"], model_type="step3_text", num_hidden_layers=3,
        intermediate_size=DENSE, moe_intermediate_size=I, moe_num_experts=E, moe_top_k=3,
        share_expert_dim=7, norm_expert_weight=False, moe_layers_enum="1,2"),
    blocks={i: Block(E, I, Rule(3), shared=7) for i in (1, 2)},
    prefix="model.layers.{i}.",
    layout=(
        tensor("moe.gate.weight", "router"), shared("share_expert"),
        per_part([f"moe.{part}.weight" for part in GUD])),
    outside={**outside("model.", H, VOCAB), **dense("model.layers.0.mlp.", H, DENSE)},
)

INTERNS1_PRO = Spec(
    "interns1-pro-f32", "interns1_pro", 1401,
    config=dict(
        architectures=["InternS1ProForConditionalGeneration"], model_type="interns1_pro",
        text_config=plain(
            model_type="interns1_pro_text", hidden_act="silu", num_hidden_layers=2,
            intermediate_size=DENSE, moe_intermediate_size=I, num_experts=16,
            num_experts_per_tok=4, norm_topk_prob=True, router_n_groups=4,
            decoder_sparse_step=1, mlp_only_layers=[0])),
    blocks={1: Block(16, I, Rule(4, renormalize=True, groups=4, each_group=True))},
    prefix="model.language_model.layers.{i}.mlp.",
    layout=(tensor("gate.weight", "router"), per_expert()),
    outside={
        **outside("model.language_model.", H, VOCAB),
        **dense("model.language_model.layers.0.mlp.", H, DENSE)},
)

ARCTIC = Spec(
    "arctic-f32", "arctic", 1501,
    config=plain(
        architectures=["ArcticForCausalLM"], model_type="arctic", hidden_act="silu",
        num_hidden_layers=3, intermediate_size=I, num_local_experts=E, num_experts_per_tok=2,
        moe_layer_frequency=2, use_residual=True, parallel_attn_mlp_res=True,
        moe_token_dropping=True, moe_eval_capacity_factor=1, moe_min_capacity=0),
    blocks={1: Block(E, I, Rule(2, renormalize=True))},
    prefix="model.layers.{i}.block_sparse_moe.",
    layout=(tensor("gate.weight", "router"), per_expert(names=W132)),
    outside={
        **outside("model.", H, VOCAB), "model.layers.1.residual_layernorm.weight": (H,),
        **dense("model.layers.1.residual_mlp.", H, H, W132),
        **dense("model.layers.0.block_sparse_moe.mlp.", H, I, W132),
        **dense("model.layers.2.block_sparse_moe.mlp.", H, I, W132)},
)

# The release has no hidden_act; ports of Grok-1 do. It is here because readers of
# files without it do not agree on which gelu is meant.
GROK_2 = Spec(
    "grok-2-f32", "grok_2", 1601,
    config=plain(
        architectures=["Grok1ForCausalLM"], model_type="git", hidden_act="gelu",
        num_hidden_layers=2, intermediate_size=DENSE, moe_intermediate_size=I,
        num_local_experts=E, num_experts_per_tok=2, residual_moe=True,
        router_logit_softcapping=1.5, attn_logit_softcapping=30.0, final_logit_softcapping=50),
    blocks={i: Block(E, I, Rule(2, softcap=1.5), activation=Activation("gelu"))
            for i in (0, 1)},
    prefix="model.layers.{i}.block_sparse_moe.",
    layout=(tensor("gate.weight", "router"), per_expert(names=W132)),
    outside={
        **outside("model.", H, VOCAB, norms=(
            "pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm")),
        **dense("model.layers.0.mlp.", H, DENSE), **dense("model.layers.1.mlp.", H, DENSE)},
)

BAILING = Spec(
    "bailing-moe-f32", "bailing_moe", 1701,
    config=bailing(
        architectures=["BailingMoeForCausalLM"], model_type="bailing_moe", num_hidden_layers=2,
        intermediate_size=DENSE, num_shared_experts=2, first_k_dense_replace=0, norm_head=True),
    blocks={i: Block(E, I, Rule(3, renormalize=True), shared=2 * I) for i in (0, 1)},
    prefix="model.layers.{i}.mlp.",
    layout=(tensor("gate.weight", "router"), per_expert(), shared("shared_experts")),
    outside=bailing_outside(),
)

MISTRAL = Spec(
    "mistral-native-f32", "mistral_native", 2001, config_name="params.json",
    config=dict(
        dim=H, n_layers=2, hidden_dim=DENSE, n_heads=2, n_kv_heads=2, head_dim=10,
        norm_eps=1e-6, vocab_size=VOCAB,
        moe=dict(num_experts=E, num_experts_per_tok=3, first_k_dense_replace=1,
                 route_every_n=1, expert_hidden_dim=I, routed_scale=1.5,
                 num_shared_experts=2, num_expert_groups=1, num_expert_groups_per_tok=1,
                 renorm_strategy="WEIGHTS", use_load_balancing_bias=False)),
    blocks={1: Block(E, I, Rule(3, renormalize=True, scale=1.5), shared=2 * I)},
    prefix="layers.{i}.",
    layout=(tensor("gate.weight", "router"), per_expert(names=W132),
            shared("shared_experts", W132)),
    outside={
        **outside("", H, VOCAB, attention="attention", embed="tok_embeddings",
                  head="output.weight", norms=("attention_norm", "ffn_norm"),
                  projections=("wq", "wo")),
        **dense("layers.0.feed_forward.", H, DENSE, W132)},
)

HUNYUAN = Spec(
    "hunyuan-large-f32", "hunyuan", 2201,
    config=plain(
        architectures=["HunYuanForCausalLM"], model_type="hunyuan", hidden_act="silu",
        num_hidden_layers=2, intermediate_size=I, moe_intermediate_size=[I, I], num_experts=E,
        moe_topk=[1, 2], num_shared_expert=[1, 2], use_mixed_mlp_moe=True,
        moe_layer_num_skipped=0, mlp_bias=False, use_cla=True, cla_share_factor=2,
        group_limited_greedy=False, n_group=None, topk_group=None, routed_scaling_factor=1.0),
    blocks={i: Block(E, I, Rule(k, renormalize=True, least_k=2), shared=n * I)
            for i, k, n in ((0, 1, 1), (1, 2, 2))},
    prefix="model.layers.{i}.mlp.",
    layout=(
        tensor("gate.wg.weight", "router"),
        joined("experts.{e}", "gate_and_up_proj", up_first=True),
        joined("shared_mlp", "gate_and_up_proj", up_first=True)),
    outside=outside("model.", H, VOCAB),
)

ERNIE_PADDLE = Spec(
    "ernie4-5-paddle-f32", "ernie4_5_moe_paddle", 2301,
    config=plain(
        architectures=["Ernie4_5_MoeForCausalLM"], model_type="ernie4_5_moe",
        hidden_act="silu", num_hidden_layers=2, intermediate_size=DENSE, moe_intermediate_size=I,
        moe_num_experts=E, moe_k=3, moe_num_shared_experts=2, moe_layer_start_index=1,
        moe_layer_end_index=1, moe_layer_interval=1, moe_use_aux_free=True,
        moe_gate="topk", moe_capacity=[64, 64, 64], use_bias=False),
    blocks={1: Block(E, I, Rule(3, renormalize=True), bias=True, shared=2 * I)},
    prefix="ernie.layers.{i}.mlp.",
    layout=(
        tensor("gate.weight", "router", transposed=True),
        tensor("moe_statics.e_score_correction_bias", "bias", shape=(1, E)),
        joined("experts.{e}", "up_gate_proj", transposed=True),
        joined("shared_experts", "up_gate_proj", transposed=True)),
    outside={
        **outside("ernie.", H, VOCAB, projections=("qkv_proj", "o_proj")),
        "ernie.layers.0.mlp.up_gate_proj.weight": (H, 2 * DENSE),
        "ernie.layers.0.mlp.down_proj.weight": (DENSE, H)},
)


def qwen3_5(folder, experts, mtp_experts):
    """The same model in either layout, with its multi-token prediction in the other."""
    router = tensor("gate.weight", "router")
    rest = (router, shared("shared_expert"), tensor("shared_expert_gate.weight", "shared_gate"))
    return Spec(
        folder, "qwen3_5_moe", 2401,
        config=dict(
            architectures=["Qwen3_5MoeForConditionalGeneration"], model_type="qwen3_5_moe",
            text_config=plain(
                model_type="qwen3_5_moe_text", hidden_act="silu", num_hidden_layers=1,
                moe_intermediate_size=I, num_experts=E, num_experts_per_tok=3,
                shared_expert_intermediate_size=7, mlp_only_layers=[],
                mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False)),
        blocks={0: Block(E, I, Rule(3, renormalize=True), shared=7, shared_gate=True)},
        prefix="model.language_model.layers.{i}.mlp.", layout=(*rest, experts),
        beside=("mtp.layers.0.mlp.", (*rest, mtp_experts)),
        outside={
            **outside("model.language_model.", H, VOCAB), "mtp.fc.weight": (H, 2 * H),
            "mtp.norm.weight": (H,), "mtp.layers.0.input_layernorm.weight": (H,)},
    )


SPECS = [
    STEP3, INTERNS1_PRO, ARCTIC, GROK_2, BAILING, MISTRAL, HUNYUAN, ERNIE_PADDLE,
    qwen3_5("qwen3-5-moe-fused-f32", fused(), per_expert()),
    qwen3_5("qwen3-5-moe-per-expert-f32", per_expert(), fused()),
]
