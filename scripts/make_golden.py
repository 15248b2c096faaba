#!/usr/bin/env python3
"""Make the small checkpoints and golden files under tests/data/.

A developer's tool: building and testing MoERT needs neither this script nor
Python. It needs the packages of scripts/golden-requirements.txt (CPU is
enough), and `olmoe-tiny` also Debian's packages bible-kjv and bible-kjv-text:

    python3 -m venv /tmp/golden-venv
    /tmp/golden-venv/bin/pip install -r scripts/golden-requirements.txt
    /tmp/golden-venv/bin/python scripts/make_golden.py random

Every golden file holds, per Mixture-of-Experts layer, the input, router
logits, selected experts, their weights and the output, captured by hooks from
the modules of Hugging Face transformers. Each is recomputed in float64 from
the checkpoint's tensors before the script ends well. `written` is for families
that the library lacks: checkpoint and numbers come from the formulas alone; `quantised` is for the
layouts of quantised releases, in the same way.
"""

import argparse
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True  # leave nothing behind in the source tree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def first_checkpoints(args):
    from golden import checkpoints, goldenfile

    table = []
    for spec in checkpoints.SPECS:
        if args.only and spec.folder not in args.only:
            continue
        for name in filter(None, (spec.folder, spec.fused_copy)):
            shutil.rmtree(args.out / name, ignore_errors=True)
        for folder in checkpoints.build(spec, args.out):
            model = checkpoints.load(folder, spec.dtype)
            dtype = str(spec.dtype).removeprefix("torch.")
            rows, _ = goldenfile.write(
                folder, spec.family, model, checkpoints.tokens(spec),
                dict(seed=str(spec.seed), dtype=dtype), checkpoints.rules_of()[folder.name], dtype)
            table += rows
            goldenfile.tidy(folder)
    return table


def random_checkpoints(args):
    from golden import build, goldenfile, models

    table = first_checkpoints(args)
    for model in models.all_models():
        if not args.only or model.folder in args.only:
            table += build.make(model, args.out)
    goldenfile.print_table(table)


def written_checkpoints(args):
    from golden import goldenfile, written

    goldenfile.print_table(written.make(args.out, args.only))


def quantised_checkpoints(args):
    from golden import quantised

    quantised.print_table(quantised.make(args.out, args.only))


def float_tables(args):
    from golden import small_floats

    small_floats.make(args.out)


def olmoe_tiny(args):
    from golden import tiny

    tiny.make(args.out / "olmoe-tiny", steps=args.steps, keep_weights=args.keep_weights)


def tiny_loss(args):
    from golden import tiny

    tiny.measure(args.folders)


def check(args):
    from golden import checkpoints, goldenfile, models, quantised, written

    rules = dict(checkpoints.rules_of(), **models.rules_of())
    table = []
    for path in sorted(args.out.glob("*/golden.safetensors")):
        if path.parent.name in rules:
            table += goldenfile.check(path.parent, rules[path.parent.name])
    goldenfile.print_table(table)
    written.check(args.out)
    quantised.check(args.out)


def loaded_back(args):
    from golden import loaded_back

    return 0 if loaded_back.check(args.source, args.made, args.decoded) else 1


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "data",
                        help="where the folders go (default: tests/data)")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default: 1)")
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("random", help="write the seeded random checkpoints")
    p.add_argument("only", nargs="*", metavar="FOLDER", help="only these (default: all)")
    p.set_defaults(action=random_checkpoints)
    p = commands.add_parser(
        "written", help="write those of families that the library lacks, from the formulas")
    p.add_argument("only", nargs="*", metavar="FOLDER", help="only these (default: all)")
    p.set_defaults(action=written_checkpoints)
    p = commands.add_parser(
        "quantised", help="write those in the layouts of quantised releases")
    p.add_argument("only", nargs="*", metavar="FOLDER", help="only these (default: all)")
    p.set_defaults(action=quantised_checkpoints)
    p = commands.add_parser("floats", help="write the tables of floats of eight and four bits")
    p.set_defaults(action=float_tables)
    p = commands.add_parser("olmoe-tiny", help="train and write the small language model")
    p.add_argument("--steps", type=int, default=None, help="training steps (default: as committed)")
    p.add_argument("--keep-weights", action="store_true",
                   help="train nothing: measure the folder's weights, write its golden file again")
    p.set_defaults(action=olmoe_tiny)
    p = commands.add_parser("loss", help="held-out loss of olmoe-tiny with the weights of folders")
    p.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER",
                   help="the first is what the others are compared with")
    p.set_defaults(action=tiny_loss)
    p = commands.add_parser("check", help="recompute every golden file found, in float64")
    p.set_defaults(action=check)
    p = commands.add_parser(
        "loaded-back", help="hold what `moert quantize` wrote against what the libraries read in it")
    p.add_argument("source", type=pathlib.Path, help="the checkpoint that was quantised")
    p.add_argument("made", type=pathlib.Path, help="what came out")
    p.add_argument("decoded", type=pathlib.Path, help="the same decoded: moert quantize MADE DECODED --scheme f32")
    p.set_defaults(action=loaded_back)
    args = parser.parse_args()

    import torch

    torch.set_num_threads(args.threads)
    return args.action(args)


if __name__ == "__main__":
    sys.exit(main())
