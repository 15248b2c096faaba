#!/usr/bin/env python3
"""Checks that the simulator's tests notice mistakes in GPU kernels.

A copy of the sources gets one mistake at a time, is built, and its tests run; each must fail. The mistakes are
those that kernels are known for: a barrier that is missing, copies that nobody waits for, a fragment's index, the
tail of a batch, a scale of the wrong block. Takes some minutes; not part of scripts/test. Exit codes: 0 every mistake
was noticed; 1 one was not, or the tests fail without any; 2 asked wrongly.
"""
import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import project


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    file: str  # in plugins/gpu
    text: str  # stands there once
    instead: str
    programs: tuple = ("gpu32",)


BLOCKS, PARTS, STREAM = "kernels/gemm_blocks.cuh", "kernels/gemm_parts.cuh", "kernels/gemm_stream.cuh"
LAYOUTS, PLAN, LANES = "tile/layouts.cuh", "kernels/plan.cuh", "kernels/lanes.cuh"
CHOICE, SCORES = "kernels/router_choice.cuh", "kernels/router_scores.cuh"

MUTATIONS = [
    Mutation("barrier before a stage is read", BLOCKS, "sync_block();  // the stage is there", "// the stage is there"),
    Mutation("barrier before the next tile writes", BLOCKS, "sync_block();  // the next tile", "// the next tile"),
    Mutation("no wait for copies", BLOCKS, "copy_wait<T::kStages - 2>();", ""),
    Mutation("wait for one group too few", BLOCKS, "copy_wait<T::kStages - 2>();", "copy_wait<T::kStages - 1>();"),
    Mutation("stage of the step before", BLOCKS, "multiply_stage<L, kCodec>(shared() + s % T::kStages",
             "multiply_stage<L, kCodec>(shared() + (s + 1) % T::kStages"),
    Mutation("weights' registers swapped", LAYOUTS, "mma_m16n8k16_bf16(c, a[0], a[4], a[1], a[5], b[0], b[1]);",
             "mma_m16n8k16_bf16(c, a[0], a[1], a[4], a[5], b[0], b[1]);"),
    Mutation("rows' registers swapped", LAYOUTS, "mma_m16n8k16_bf16(c, a[2], a[6], a[3], a[7], b[2], b[3]);",
             "mma_m16n8k16_bf16(c, a[2], a[6], a[3], a[7], b[3], b[2]);"),
    Mutation("sums' rows of NVIDIA", LAYOUTS, "return lane / 4 + i / 2 * 8;", "return lane / 4 + i % 2 * 8;"),
    Mutation("sums' rows of CDNA", LAYOUTS, "return lane / 16 * 4 + i;", "return lane % 4 * 4 + i;", ("gpu64",)),
    Mutation("half of a chunk twice", LAYOUTS, "mfma_16x16x16_bf16(c, a[2], a[3], b[2], b[3]);",
             "mfma_16x16x16_bf16(c, a[0], a[1], b[2], b[3]);", ("gpu64",)),
    Mutation("one column too many", PARTS, "if (position >= end ||", "if (position > end ||"),
    Mutation("one row too many", PARTS, "put_number(args, position, row, row < args.out_rows ?",
             "put_number(args, position, row, row <= args.out_rows ?"),
    Mutation("the last unit is left out", STREAM, "      if (first + d >= units) continue;",
             "      if (first + d + 1 >= units) continue;"),
    Mutation("weights' scale of the next block", PARTS, "chunk / w.scale_chunks;", "(chunk + 1) / w.scale_chunks;"),
    Mutation("rows' scale of the first group", STREAM, "args.rows.group == 0 ? 0 : chunk * kChunk / args.rows.group;",
             "0;"),
    Mutation("the bias of the other half", PARTS, "bias[kPanelRows + in_panel]", "bias[in_panel]"),
    Mutation("a code's sign", "kernels/codecs.cuh", "(codes & 0x8u) << 28", "(codes & 0x8u) << 27"),
    Mutation("a rank that counts itself", PLAN, "((uint64_t{1} << lane) - 1)", "((uint64_t{2} << lane) - 1)"),
    Mutation("barrier before counts are read", PLAN, "  walk<W>(work, run_of_warp<W>(work), true, [](int64_t, int32_t, int32_t) {});\n  sync_block();",
             "  walk<W>(work, run_of_warp<W>(work), true, [](int64_t, int32_t, int32_t) {});"),
    Mutation("barrier before warps are added", LANES, "= v[0];\n  sync_block();", "= v[0];"),
    Mutation("ties go up", CHOICE, "a.key > b.key : a.id < b.id;", "a.key > b.key : a.id > b.id;"),
    Mutation("a lane's own maximum", SCORES, "  top = max_of_lanes<W>(top);\n  double sum = 0;\n  for (int e = lane; e < n; e += W) {\n    x[e]",
             "  double sum = 0;\n  for (int e = lane; e < n; e += W) {\n    x[e]"),
    Mutation("slots in another order", "kernels/combine.cuh", "const int64_t slot = token * args.top_k + j;",
             "const int64_t slot = token * args.top_k + (j + 1) % args.top_k;"),
]


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **more)


def copy_sources(to):
    """The project's sources and no other file, without the data that only other tests read."""
    listing = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=project.ROOT, check=True)
    names = {name for name in filter(None, listing.stdout.split("\0"))
             if not name.startswith("tests/data/") and (project.ROOT / name).is_file()}
    for path in list(to.rglob("*")):
        if not path.is_dir() and str(path.relative_to(to)) not in names:
            path.unlink()
    for name in names:
        source, target = project.ROOT / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)


def build(folder, programs):
    return run(["ninja", "-C", str(folder), f"-j{os.cpu_count()}", *programs])


def outcome(folder, programs, seconds):
    """What the tests say: "passed", "failed", or "hangs"."""
    for program in programs:
        try:
            if run([str(folder / "bin" / program), "--gtest_brief=1"], timeout=seconds).returncode != 0:
                return "failed"
        except subprocess.TimeoutExpired:
            return "hangs"
    return "passed"


def judge(mutation, source, folder, seconds):
    path = source / "plugins/gpu" / mutation.file
    whole = path.read_text()
    if whole.count(mutation.text) != 1:
        return f"its text stands {whole.count(mutation.text)} times in {mutation.file}"
    path.write_text(whole.replace(mutation.text, mutation.instead))
    try:
        if build(folder, mutation.programs).returncode != 0:
            return "does not compile"
        return outcome(folder, mutation.programs, seconds)
    finally:
        path.write_text(whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="WORD", help="only mistakes whose name has WORD")
    parser.add_argument("--timeout", type=int, default=300, metavar="S", help="of a test program (default: %(default)s)")
    args = parser.parse_args()
    chosen = [m for m in MUTATIONS if not args.only or any(word in m.name for word in args.only)]
    if not chosen:
        parser.error("no mistake has that word in its name")
    source = project.ROOT / "build/mutants/source"
    folder = project.ROOT / "build/mutants/build"
    copy_sources(source)
    configured = run(["cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                      "-DMOERT_BUILD_TOOLS=OFF", "-DMOERT_BUILD_BENCH=OFF", "-DMOERT_ENABLE_CUDA=OFF", "-DMOERT_ENABLE_HIP=OFF"])
    if configured.returncode != 0:
        sys.exit(configured.stderr)
    programs = sorted({program for m in chosen for program in m.programs})
    if (built := build(folder, programs)).returncode != 0:
        sys.exit(built.stdout[-3000:])
    if (clean := outcome(folder, programs, args.timeout)) != "passed":
        sys.exit(f"without a mistake: {clean}")
    missed = 0
    for mutation in chosen:
        result = judge(mutation, source, folder, args.timeout)
        noticed = result in ("failed", "hangs")
        missed += not noticed
        print(f"{'noticed' if noticed else 'MISSED ':7}  {mutation.name}" + ("" if noticed else f": {result}"), flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mistakes were noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
