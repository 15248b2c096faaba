#!/usr/bin/env python3
"""Checks the size budget: lengths of files and of functions.

Lines of a file: ABI header 150, other header 250, source 400, test 500. Lines of a function: 60 on the
host, and nine of ten under 36; 150 in GPU sources. EXCEPTIONS lists longer files with the length they
have (600 at most). The list may only shrink: an entry that is larger than its file is a finding too.
"""
import argparse
import pathlib
import subprocess

import project

ABI_HEADER, HEADER, SOURCE, TEST, CEILING = 150, 250, 400, 500, 600
FUNCTION, FUNCTION_P90, KERNEL = 60, 35, 150

# path -> its length. Shorten the file and the entry with it; new entries are not taken.
EXCEPTIONS = {}

GPU = (".cu", ".cuh", ".hip")


def budget(path):
    name = str(path)
    if name.startswith("core/include/moert/abi/"):
        return ABI_HEADER
    if name.startswith("tests/"):
        return TEST
    return HEADER if path.suffix in (".h", ".hpp", ".cuh") else SOURCE


def check_files(root, paths):
    found = []
    for path in paths:
        lines = len((root / path).read_bytes().splitlines())
        limit, excepted = budget(path), EXCEPTIONS.get(str(path))
        if excepted is None and lines > limit:
            found.append(f"{path}:{limit + 1}: {lines} lines; {limit} are the budget. Split the file by subject")
        elif excepted is not None and lines > excepted:
            found.append(f"{path}:{excepted + 1}: {lines} lines, over the {excepted} of its exception")
        elif excepted is not None and lines < excepted:
            advice = f"lower its exception to {lines}" if lines > limit else "remove its exception"
            found.append(f"{path}:1: {lines} lines, shorter than its exception says: {advice}")
    for name, excepted in EXCEPTIONS.items():
        if excepted > CEILING:
            found.append(f"{name}:1: an exception may be {CEILING} lines at most, not {excepted}")
        if not (root / name).is_file():
            found.append(f"{name}:1: is gone: remove its exception")
    return found


def functions(root, paths):
    """(path, first line, lines, name) of every function that ctags finds."""
    command = ["ctags", "-f", "-", "--fields=+ne", "--sort=no", "--languages=C,C++,CUDA", "--kinds-C=f",
               "--kinds-C++=f", "--kinds-CUDA=f", "--langmap=C++:+.inc", "--langmap=CUDA:+.cuh.hip", "-L", "-"]
    # ctags takes .h for C++, which reads C headers as well.
    listing = subprocess.run(command, input="\n".join(map(str, paths)), cwd=root, capture_output=True,
                             text=True, errors="replace", check=True).stdout
    for row in listing.splitlines():
        name, path, *rest = row.split("\t")
        fields = dict(part.split(":", 1) for part in rest if ":" in part and not part.startswith("/^"))
        if "line" in fields and "end" in fields:
            first, last = int(fields["line"]), int(fields["end"])
            yield pathlib.PurePosixPath(path), first, last - first + 1, name


def check_functions(root, paths):
    found, lengths = [], []
    for path, first, lines, name in functions(root, paths):
        limit = KERNEL if path.suffix in GPU else FUNCTION
        if lines > limit:
            found.append(f"{path}:{first}: {name} has {lines} lines; {limit} are the budget")
        if path.suffix not in GPU and path.parts[0] != "tests":
            lengths.append((lines, f"{path}:{first}: {name}"))
    lengths.sort()
    position = -(-len(lengths) * 9 // 10) - 1  # the ninth of ten
    if lengths and lengths[position][0] > FUNCTION_P90:
        found.append(f"nine of ten functions should have {FUNCTION_P90} lines at most, but the 90th percentile "
                     f"of {len(lengths)} is {lengths[position][0]}. The longest:")
        found += [f"  {where} ({lines} lines)" for lines, where in lengths[-8:]]
    return found, len(lengths), lengths[position][0] if lengths else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=project.ROOT, help="the project to check")
    root = parser.parse_args().root
    paths = project.files(project.CODE, root)
    found, count, p90 = check_functions(root, paths)
    project.finish(check_files(root, paths) + found,
                   f"sizes of {len(paths)} files and {count} functions (90th percentile {p90} lines)")


if __name__ == "__main__":
    main()
