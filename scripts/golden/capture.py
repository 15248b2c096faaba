"""What the library's own modules compute: hooks on a forward pass."""

import re

import torch

TOWERS = ("vision", "visual", "audio")


def routed_layers(model, rules):
    """(index, decoder layer) of every layer of the text that routes to experts."""
    for name, module in model.named_modules():
        found = re.search(r"(?:^|\.)(?:layers|blocks)\.(\d+)$", name)
        if not found or any(tower in name for tower in TOWERS):
            continue
        block = getattr(module, rules.module, None) if rules.module else module
        if isinstance(getattr(block, rules.gate, None), torch.nn.Module):
            yield int(found.group(1)), module


def rows(value):
    """One row per token, of a tensor or of the first of several."""
    if isinstance(value, tuple):
        value = value[0]
    return value.detach().clone().flatten(0, -2)


class Watch:
    """Collects what passes through a model's layers while it runs."""

    def __init__(self, model, rules):
        self.seen, self.handles = {}, []
        for index, layer in routed_layers(model, rules):
            self.watch(layer, rules, self.seen.setdefault(index, {}))

    def on(self, module, action):
        """Call action(input, output) after each run of a module."""

        def hook(module, args, kwargs, output):
            given = args[0] if args else kwargs.get("hidden_states")
            action(given, output)

        self.handles.append(module.register_forward_hook(hook, with_kwargs=True))

    def watch(self, layer, rules, got):
        block = getattr(layer, rules.module) if rules.module else layer
        gate = getattr(block, rules.gate)

        def on_gate(given, output):
            if not rules.module:
                got["hidden_states"] = rows(given)
            output = output if isinstance(output, tuple) else (output,)
            for what, value in zip(rules.gives, output):
                if what:
                    got[what] = rows(value)

        def on_block(given, output):
            got["hidden_states"] = rows(given)
            got.setdefault("output", rows(output))

        def on_experts(given, output):
            got["experts_input"], got["output"] = rows(given), rows(output)

        self.on(gate, on_gate)
        if rules.logits_of:
            self.on(getattr(gate, rules.logits_of),
                    lambda given, output: got.update(logits=rows(output)))
        if rules.before:
            self.on(getattr(block, rules.before),
                    lambda given, output: got.update(output=rows(given)))
        if rules.module:
            self.on(block, on_block)
        else:
            self.on(block.experts, on_experts)
        if rules.beside:
            self.on(getattr(layer, rules.beside),
                    lambda given, output: got.update(beside=rows(output)))

    def finish(self):
        for handle in self.handles:
            handle.remove()
        for got in self.seen.values():
            if "beside" in got:
                got["output"] = got["output"] + got.pop("beside")
        return self.seen


def run(model, input_ids, rules):
    """One forward pass; {layer: tensors} as the modules gave them, and logits."""
    watch = Watch(model, rules)
    with torch.no_grad():
        logits = model(input_ids=input_ids, use_cache=False).logits
    return watch.finish(), logits
