"""What the folders of random weights are: one `Model` for each."""

from dataclasses import dataclass, field, replace

from golden.rules import Layout, Rules


@dataclass(frozen=True)
class Model:
    """One checkpoint with random weights."""

    folder: str
    arch: str  # the class in transformers
    config: dict
    rules: Rules
    seed: int
    sequences: tuple = (2, 24)  # how many, how long
    gains: dict = field(default_factory=dict)  # of tensors whose names end so
    config_class: str = ""  # of a model type that borrows its architecture
    run: str = ""  # the part of the model that is run, if not all of it
    renames: tuple = ()  # pairs: the library's name, the release's
    transposed: tuple = ()  # endings of tensors that the release has transposed
    fused_copy: str = ""  # a second folder, with the same weights in another layout
    fused_experts: Layout | None = None  # of the second folder


def rules_of():
    """{folder: rules} of all models and their second folders."""
    found = {}
    for model in all_models():
        found[model.folder] = model.rules
        if model.fused_copy:
            found[model.fused_copy] = replace(model.rules, experts=model.fused_experts)
    return found


def all_models():
    from golden import models_grouped, models_other, models_sigmoid, models_softmax

    parts = models_softmax, models_grouped, models_sigmoid, models_other
    return [model for part in parts for model in part.MODELS]
