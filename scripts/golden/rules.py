"""What a family's Mixture-of-Experts layer computes, said as data.

`reference.py` reads these tables and nothing of the library. A value written as
a string is a key of config.json (its text part, where it has one); any other
value stands for itself. Tensor names follow the prefix of their layer.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Layout:
    """Where the matrices of experts (or of the shared expert) are.

    `{e}` in a name is the expert; a name without it holds all experts, the
    first dimension being the expert. Biases follow the same rules.
    """

    gate: str = ""
    up: str = ""
    gate_up: str = ""  # gate and up rows in one tensor, gate first
    down: str = ""
    gate_up_bias: str = ""
    down_bias: str = ""
    transposed: bool = False  # [in, out] instead of [out, in]
    interleaved: bool = False  # gate and up rows take turns
    flat: str = ""  # key of an expert's rows in [E * rows, columns]; down is transposed


def per_expert(where, gate="gate_proj", up="up_proj", down="down_proj"):
    """Three tensors for each expert."""
    name = where + "experts.{e}."
    return Layout(gate=f"{name}{gate}.weight", up=f"{name}{up}.weight",
                  down=f"{name}{down}.weight")


def stacked(where, gate_up="experts.gate_up_proj", down="experts.down_proj", **more):
    """Two tensors for all the experts of a layer."""
    return Layout(gate_up=where + gate_up, down=where + down, **more)


def mlp(where, gate="gate_proj", up="up_proj", down="down_proj"):
    """One MLP of three matrices."""
    return Layout(gate=f"{where}{gate}.weight", up=f"{where}{up}.weight",
                  down=f"{where}{down}.weight")


@dataclass(frozen=True)
class Rules:
    """One family. Defaults: softmax over all experts, no renormalisation."""

    experts: Layout
    router: str = "mlp.gate.weight"
    layers: str = "model.layers."
    text: str = ""  # key of the config's text part

    # Scores of experts from logits, in this order.
    router_input: str = "plain"  # or "unit": normed row * router_scale * H^-0.5
    router_scale: str = ""
    router_transposed: bool = False
    router_bias: str = ""
    logit_scale: float | str = 1.0
    softcap: float | str = 0.0
    scoring: str = "softmax"  # softmax_topk sigmoid sqrtsoftplus sparsemixer
    jitter: float | str = 0.0  # sparsemixer's threshold

    # Choice of experts.
    k: int | str = "num_experts_per_tok"
    selection_bias: str = ""
    choose_by_logits: bool = False  # the bias is added to logits, not to scores
    table: str = ""  # of token ids, in layers that have it
    groups: int | str | None = None
    top_groups: int | str | None = None
    group_score: str = "top2_sum"  # or max
    dropped: float = float("-inf")  # score of an expert whose group is out

    # Weights of the chosen.
    renormalize: bool | str = False
    epsilon: float = 0.0  # added to the sum
    least: float | str = 0.0  # least divisor
    scale: float | str = 1.0
    scale_on: str = "weights"  # or output: routed experts' sum
    expert_scale: str = ""
    weight_on_input: bool = False

    # Experts.
    act: str = "silu"  # gelu_tanh relu2
    alpha: float | str | None = None  # gate * sigmoid(alpha * gate), (up + 1)
    limit: float | str | None = None  # of gate from above, of up on both sides
    limit_after: bool = False  # the gate is limited after its activation
    zero_experts: int | str = 0  # router rows behind the experts: identity
    latent_in: str = ""
    latent_out: str = ""
    latent_norm: str = ""  # centred norm of what the experts read
    expert_norm: str = ""  # norm of each expert's output, weight inside
    norm_eps: float | str = 1e-6
    expert_norm_eps: float | str = 1e-8
    input_norm: str = ""  # experts read the normed row (Gemma 4)
    output_bias: str = ""

    # Shared expert, inside or beside the library's module.
    shared: Layout | None = None
    shared_gate: str = ""
    shared_limit: float | str | None = None
    shared_combine: str = "sum"  # or a key whose value is sum or average

    # Where the library computes this: for hooks.
    module: str = "mlp"  # in the decoder layer; "" if router and experts lie apart
    gate: str = "gate"  # the router in it
    gives: tuple = ("logits", "weights", "ids")  # what the router returns
    logits_of: str = ""  # the part of the router that gives logits, if it does not
    beside: str = ""  # a shared expert of the decoder layer
    before: str = ""  # the output is what this part of the module gets
    note: dict = field(default_factory=dict)  # said in the golden file's metadata
