"""Written families whose router takes a sigmoid: real keys and names, tiny sizes."""

from golden.maths import Activation, Rule
from golden.written_layouts import (
    GUD, W132, dense, outside, per_expert, per_part, shared, tensor)
from golden.written_spec import DENSE, VOCAB, Block, E, H, I, Spec, bailing, bailing_outside, plain

STEP_LIMITS = Activation("swiglustep", limit=0.6)
GROUPED = Rule(3, scoring="sigmoid", renormalize=True, scale=2.5, groups=4, top_groups=2)
BAILING_LAYOUT = (
    tensor("gate.weight", "router"), tensor("gate.expert_bias", "bias"), per_expert(),
    shared("shared_experts"))

KIMI_K3 = Spec(
    "kimi-k3-f32", "kimi_k3", 1101,
    config=dict(
        architectures=["KimiK3ForConditionalGeneration"], model_type="kimi_k3",
        text_config=dict(plain(
            architectures=["KimiLinearForCausalLM"], model_type="kimi_linear",
            num_hidden_layers=3, intermediate_size=DENSE, moe_intermediate_size=I,
            num_experts=E, num_experts_per_token=3, num_shared_experts=2,
            routed_expert_hidden_size=9, latent_moe_use_norm=True, hidden_act="situ",
            activation_situ_beta=1.5, activation_situ_linear_beta=2.0,
            moe_router_activation_func="sigmoid", topk_method="noaux_tc",
            moe_renormalize=True, routed_scaling_factor=1.0, use_grouped_topk=True,
            num_expert_group=1, topk_group=1, first_k_dense_replace=1, moe_layer_freq=1,
            top_k=50), rms_norm_eps=0.02)),
    blocks={i: Block(
        E, I, Rule(3, scoring="sigmoid", renormalize=True), bias=True, shared=2 * I, latent=9,
        norm_eps=0.02, activation=Activation("situ", beta=1.5, linear_beta=2.0))
        for i in (1, 2)},
    prefix="language_model.model.layers.{i}.block_sparse_moe.",
    layout=(
        tensor("gate.weight", "router"), tensor("gate.e_score_correction_bias", "bias"),
        per_expert(names=W132), shared("shared_experts"),
        tensor("routed_expert_down_proj.weight", "latent_down"),
        tensor("routed_expert_norm.weight", "latent_norm"),
        tensor("routed_expert_up_proj.weight", "latent_up")),
    outside={
        **outside("language_model.model.", H, VOCAB, head="language_model.lm_head.weight"),
        **dense("language_model.model.layers.0.mlp.", H, DENSE),
        "language_model.model.layers.0.mlp_res_norm.weight": (H,),
        "language_model.model.layers.0.mlp_res_proj.weight": (1, H)},
)

# The lists of a release go on with an entry for each layer of multi-token
# prediction, whose tensors follow those of the last layer.
STEP3P5 = Spec(
    "step3p5-f32", "step3p5", 1301,
    config=plain(
        architectures=["Step3p5ForCausalLM"], model_type="step3p5", num_hidden_layers=3,
        num_nextn_predict_layers=1, intermediate_size=DENSE, moe_intermediate_size=I,
        moe_num_experts=E, moe_top_k=3, share_expert_dim=7, moe_layers_enum="1,2",
        moe_router_activation="sigmoid", moe_router_scaling_factor=3.0,
        use_moe_router_bias=True, need_fp32_gate=True, norm_expert_weight=True,
        swiglu_limits=[0.0, 0.0, 0.6, 0.0], swiglu_limits_shared=[0.0, 0.0, 0.9, 0.0]),
    blocks={
        i: Block(E, I, Rule(3, scoring="sigmoid", renormalize=True, scale=3.0), bias=True,
                 shared=7, **limits)
        for i, limits in ((1, {}), (2, dict(
            activation=STEP_LIMITS, shared_activation=Activation("swiglustep", limit=0.9))))},
    prefix="model.layers.{i}.",
    layout=(
        tensor("moe.gate.weight", "router"), tensor("moe.router_bias", "bias"),
        shared("share_expert"), per_part([f"moe.{part}.weight" for part in GUD])),
    outside={
        **outside("model.", H, VOCAB), **dense("model.layers.0.mlp.", H, DENSE),
        **dense("model.layers.3.mlp.", H, DENSE), "model.layers.3.eh_proj.weight": (H, 2 * H),
        "model.layers.0.self_attn.g_proj.weight": (2, H)},
)

BAILING_V2 = Spec(
    "bailing-moe-v2-f32", "bailing_moe_v2", 1801,
    config=bailing(
        architectures=["BailingMoeV2ForCausalLM"], model_type="bailing_moe",
        num_hidden_layers=3, intermediate_size=DENSE, first_k_dense_replace=1,
        num_shared_experts=1, moe_shared_expert_intermediate_size=I, score_function="sigmoid",
        moe_router_enable_expert_bias=True, n_group=4, topk_group=2,
        routed_scaling_factor=2.5, router_dtype="fp32", num_nextn_predict_layers=0),
    blocks={i: Block(E, I, GROUPED, bias=True, shared=I) for i in (1, 2)},
    prefix="model.layers.{i}.mlp.", layout=BAILING_LAYOUT,
    outside={**bailing_outside(), **dense("model.layers.0.mlp.", H, DENSE)},
)

# As in the release, the limit of the shared expert begins a layer earlier than
# that of the experts.
LING_3 = Spec(
    "ling-3-f32", "bailing_hybrid", 1901,
    config=bailing(
        architectures=["BailingMoeV3ForCausalLM"], model_type="bailing_hybrid",
        num_hidden_layers=3, intermediate_size=DENSE, first_k_dense_replace=1,
        num_shared_experts=1, score_function="sigmoid", moe_router_enable_expert_bias=True,
        n_group=4, topk_group=2, routed_scaling_factor=2.5, num_nextn_predict_layers=0,
        expert_swiglu_limit_list=[0.0, 0.0, 0.6],
        share_expert_swiglu_limit_list=[0.0, 0.4, 0.8]),
    blocks={
        i: Block(E, I, GROUPED, bias=True, shared=I, activation=own,
                 shared_activation=Activation("swiglustep", limit=limit))
        for i, own, limit in ((1, Activation(), 0.4), (2, STEP_LIMITS, 0.8))},
    prefix="model.layers.{i}.mlp.", layout=BAILING_LAYOUT,
    outside={**bailing_outside(), **dense("model.layers.0.mlp.", H, DENSE)},
)

DEEPSEEK_REF = Spec(
    "deepseek-v3-ref-f32", "deepseek_v3_ref", 2101,
    config=dict(
        vocab_size=VOCAB, dim=H, inter_dim=DENSE, moe_inter_dim=I, n_layers=2, n_dense_layers=1,
        n_heads=2, n_routed_experts=E, n_shared_experts=2, n_activated_experts=3,
        n_expert_groups=4, n_limited_groups=2, route_scale=2.5, score_func="sigmoid",
        q_lora_rank=H, kv_lora_rank=H, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8),
    blocks={1: Block(E, I, GROUPED, bias=True, shared=2 * I)},
    prefix="layers.{i}.ffn.",
    layout=(tensor("gate.weight", "router"), tensor("gate.bias", "bias"),
            per_expert(names=W132), shared("shared_experts", W132)),
    outside={
        **outside("", H, VOCAB, attention="attn", embed="embed", head="head.weight",
                  norms=("attn_norm", "ffn_norm"), projections=("wq_a", "wo")),
        **dense("layers.0.ffn.", H, DENSE, W132)},
)

SPECS = [KIMI_K3, STEP3P5, BAILING_V2, LING_3, DEEPSEEK_REF]
