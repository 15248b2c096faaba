#!/usr/bin/env python3
"""Says which lines of the GPU kernels the simulator's tests run.

Builds plugins/gpu for the simulators in build/coverage with counters, runs the tests of both widths of warps (kernels,
conformance), and prints a table: for each file of kernels its lines, and how many of them ran. A line counts where it was
compiled, for whichever types; it ran if it ran for any of them. Takes some minutes; not part of scripts/test.

Exit codes: 0 done; 1 a build or a test failed, or less than --least ran; 2 asked wrongly.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import project

FOLDER = project.ROOT / "build/coverage"
KERNELS = ("plugins/gpu/kernels/", "plugins/gpu/tile/")
WIDTHS = ("32", "64")


def run(command, **more):
    """Runs it; ends the program where that fails."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **more)
    if done.returncode != 0:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n")
        sys.exit(f"{pathlib.Path(command[0]).name} ended with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def build():
    run(["cmake", "-S", project.ROOT, "-B", FOLDER, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DMOERT_BUILD_TOOLS=OFF",
         "-DMOERT_BUILD_BENCH=OFF", "-DMOERT_ENABLE_CUDA=OFF", "-DMOERT_ENABLE_HIP=OFF",
         "-DCMAKE_CXX_FLAGS=--coverage -fprofile-update=prefer-atomic"])
    targets = [f"{name}{width}" for name in ("gpu", "moert_plugin_sim") for width in WIDTHS]
    run(["ninja", "-C", FOLDER, f"-j{os.cpu_count()}", "moert_conformance", *targets])


def tests():
    """(command, more of its environment) of everything that runs kernels."""
    for width in WIDTHS:
        layouts = ("nv", "rdna") if width == "32" else ("cdna",)
        plugin = FOLDER / f"lib/moert/test-plugins/libmoert_sim{width}.so"
        for layout in layouts:
            more = {"MOERT_SIM_LAYOUT": layout} if layout == "rdna" else {}
            yield [FOLDER / f"bin/gpu{width}", *(["--gtest_filter=*Gemm*"] if more else [])], more
            yield [FOLDER / "bin/moert_conformance", "--plugin", plugin], more


def run_tests():
    for old in FOLDER.rglob("*.gcda"):
        old.unlink()
    for command, more in tests():
        run([*command, "--gtest_brief=1"], env=os.environ | more)


def counts():
    """{file of kernels: {line: how often it ran}}"""
    found = collections.defaultdict(collections.Counter)
    objects = sorted(FOLDER.rglob("*.gcda"))

    def lines_of(record):
        said = run(["gcov", "--json-format", "--stdout", record], cwd=record.parent)
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for documents in pool.map(lines_of, objects):
            for document in documents:
                for file in document["files"]:
                    path = (pathlib.Path(document["current_working_directory"]) / file["file"]).resolve()
                    if not path.is_relative_to(project.ROOT):
                        continue
                    name = str(path.relative_to(project.ROOT))
                    if name.startswith(KERNELS):
                        for line in file["lines"]:
                            found[name][line["line_number"]] += line["count"]
    return found


def share(ran, lines):
    return f"{100 * ran / lines:.1f} %" if lines else "-"


def report(found, with_lines):
    """Prints the table; returns the share of all lines that ran, in percent."""
    width = max(map(len, found))
    print(f"{'file':<{width}}  lines    ran")
    all_lines, all_ran = 0, 0
    for name in sorted(found):
        lines = found[name]
        ran = sum(count > 0 for count in lines.values())
        all_lines, all_ran = all_lines + len(lines), all_ran + ran
        print(f"{name:<{width}}  {len(lines):5}  {share(ran, len(lines)):>7}")
        if with_lines and ran < len(lines):
            texts = (project.ROOT / name).read_text().splitlines()
            for number in sorted(line for line, count in lines.items() if count == 0):
                print(f"  {number:4}  {texts[number - 1].strip()}")
    print(f"{'all':<{width}}  {all_lines:5}  {share(all_ran, all_lines):>7}")
    return 100 * all_ran / all_lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", action="store_true", help="show the lines that did not run")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT",
                        help="of all lines must have run (default: %(default)s)")
    parser.add_argument("--no-run", action="store_true", help="report what the last call counted")
    args = parser.parse_args()
    if shutil.which("gcov") is None:
        parser.error("gcov is not there: it comes with g++")
    if not args.no_run:
        build()
        run_tests()
    found = counts()
    if not found:
        sys.exit("nothing was counted")
    return 1 if report(found, args.lines) < args.least else 0


if __name__ == "__main__":
    sys.exit(main())
