"""How families of written.py name and lay out the tensors of a layer.

Each function here gives a writer: called with a prefix and a maths.Layer, it
yields (name, array). Arrays are in the order of torch unless a function says
otherwise: [out, in] for matrices.
"""

import numpy as np

GUD = ("gate_proj", "up_proj", "down_proj")
W132 = ("w1", "w3", "w2")


def parts(mlp):
    return mlp.gate, mlp.up, mlp.down


def tensor(name, what, shape=None, transposed=False):
    """One array of the layer, perhaps seen in another shape."""

    def write(prefix, layer):
        value = getattr(layer, what)
        if shape:
            value = value.reshape(shape)
        yield prefix + name, value.T if transposed else value

    return write


def shared(name, names=GUD):
    """The shared experts as one MLP of three matrices."""

    def write(prefix, layer):
        for part, value in zip(names, parts(layer.shared)):
            yield f"{prefix}{name}.{part}.weight", value

    return write


def per_expert(name="experts", names=GUD):
    """Three matrices for each expert."""

    def write(prefix, layer):
        for e, expert in enumerate(layer.experts):
            for part, value in zip(names, parts(expert)):
                yield f"{prefix}{name}.{e}.{part}.weight", value

    return write


def per_part(names=tuple(f"{part}.weight" for part in GUD)):
    """Three tensors, each with that matrix of all experts: [E, out, in]."""

    def write(prefix, layer):
        for name, values in zip(names, zip(*map(parts, layer.experts))):
            yield prefix + name, np.stack(values)

    return write


def fused(name="experts"):
    """Two tensors: gate rows then up rows [E, 2I, H], and down [E, H, I]."""

    def write(prefix, layer):
        both = [np.concatenate([e.gate, e.up]) for e in layer.experts]
        yield f"{prefix}{name}.gate_up_proj", np.stack(both)
        yield f"{prefix}{name}.down_proj", np.stack([e.down for e in layer.experts])

    return write


def joined(name, joint, up_first=False, transposed=False):
    """Gate and up of one MLP in one matrix of 2I rows; `transposed`: [in, out].

    `name` is that of the experts ("experts.{e}") or of the shared MLP.
    """

    def write(prefix, layer):
        mlps = layer.experts if "{e}" in name else [layer.shared]
        for e, mlp in enumerate(mlps):
            both = np.concatenate([mlp.up, mlp.gate] if up_first else [mlp.gate, mlp.up])
            for part, value in ((joint, both), ("down_proj", mlp.down)):
                yield (f"{prefix}{name.format(e=e)}.{part}.weight",
                       value.T if transposed else value)

    return write


def dense(prefix, hidden, width, names=GUD):
    """{name: shape} of an MLP that is no part of a Mixture-of-Experts layer."""
    gate, up, down = names
    return {f"{prefix}{gate}.weight": (width, hidden), f"{prefix}{up}.weight": (width, hidden),
            f"{prefix}{down}.weight": (hidden, width)}


def outside(root, hidden, vocab, attention="self_attn", layer=0,
            norms=("input_layernorm", "post_attention_layernorm"),
            embed="embed_tokens", head="lm_head.weight", projections=("q_proj", "o_proj")):
    """{name: shape} of embeddings, norms, and the attention of one layer."""
    at = f"{root}layers.{layer}."
    names = {f"{root}{embed}.weight": (vocab, hidden), f"{root}norm.weight": (hidden,),
             head: (vocab, hidden)}
    names.update({f"{at}{norm}.weight": (hidden,) for norm in norms})
    names.update({f"{at}{attention}.{p}.weight": (hidden, hidden) for p in projections})
    return names
