"""What a folder of written.py is, and the sizes they share."""

from dataclasses import dataclass

from golden.maths import Activation, Rule
from golden.written_layouts import outside

# No two sizes are equal, so that none can stand in for another.
H, I, E, VOCAB, DENSE = 16, 5, 8, 12, 14


@dataclass(frozen=True)
class Block:
    """Sizes and rules of one Mixture-of-Experts layer."""

    experts: int
    width: int
    rule: Rule
    activation: Activation = Activation()
    bias: bool = False
    shared: int = 0  # width of all shared experts together
    shared_activation: Activation | None = None  # None: as the experts'
    shared_gate: bool = False
    latent: int = 0
    norm_eps: float = 0.0


@dataclass(frozen=True)
class Spec:
    """One folder."""

    folder: str
    family: str
    seed: int
    config: dict
    blocks: dict  # layer number: Block
    prefix: str  # of a layer's tensors, with {i}
    layout: tuple  # writers of written_layouts
    outside: dict  # {name: shape} of tensors that are no part of these layers
    config_name: str = "config.json"
    # One more layer of the first block's sizes, which no golden file looks at:
    # (prefix, layout).
    beside: tuple | None = None


def plain(**config):
    """Keys that most files share, after those of the family."""
    return {**config, "hidden_size": H, "rms_norm_eps": 1e-5, "num_attention_heads": 2,
            "num_key_value_heads": 2, "vocab_size": VOCAB}


def bailing(**config):
    return plain(hidden_act="silu", moe_intermediate_size=I, num_experts=E,
                 num_experts_per_tok=3, norm_topk_prob=True, **config)


def bailing_outside():
    return outside("model.", H, VOCAB, attention="attention", embed="word_embeddings",
                   projections=("dense", "query_key_value"))
