#!/usr/bin/env python3
"""Reads what a compiler said about the registers of kernels (OBJECT.resources, see keep_resources), and holds it to
the table of kernels.txt: most registers of a thread, and most bytes of local memory, which is where spilled registers
and arrays go. A kernel that the table names and no file has is an error."""
import argparse
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

Usage = collections.namedtuple("Usage", "kernel architecture registers local")


def demangled(names):
    """{mangled: "gemm_stream<LayoutNv, 1>"}, without namespaces and arguments."""
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    result = {}
    for name, text in zip(names, done.stdout.splitlines()):
        text = text.replace("(anonymous namespace)::", "").replace("moert::gpu::", "").removeprefix("void ")
        depth = 0
        for end, character in enumerate(text + "("):  # the first bracket outside of template arguments
            depth += {"<": 1, ">": -1}.get(character, 0)
            if character == "(" and depth == 0:
                break
        result[name] = text[:end]
    return result


def from_ptxas(text):
    for block in text.split("Compiling entry function ")[1:]:
        head = re.match(r"'(\S+)' for '(\S+)'", block)
        local = re.search(r"(\d+) bytes stack frame", block)
        registers = re.search(r"Used (\d+) registers", block)
        if not (head and local and registers):
            sys.exit(f"error: not understood: {block}")
        yield Usage(head[1], head[2], int(registers[1]), int(local[1]))


def from_clang(text, architectures):
    """Clang does not say for which architecture: it goes through them in the order of their names."""
    seen = collections.Counter()
    for block in text.split("Function Name: ")[1:]:
        if "LDS Size" not in block:  # a function that kernels call
            continue
        numbers = dict(re.findall(r"remark: +(\w[\w ]*?)(?: \[[^:\n]*)?: (\d+)", block))
        name = block.split()[0]
        if seen[name] >= len(architectures):
            sys.exit(f"error: {name} was compiled more often than there are architectures")
        yield Usage(name, architectures[seen[name]], int(numbers["VGPRs"]) + int(numbers.get("AGPRs", 0)),
                    int(numbers["ScratchSize"]))
        seen[name] += 1
    for name, count in seen.items():
        if count != len(architectures):
            sys.exit(f"error: {name} was compiled for {count} of {len(architectures)} architectures")


def read_table(path):
    """[(kernel, architectures, registers, local)]"""
    rows = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return [(kernel, architectures, int(registers), int(local)) for kernel, architectures, registers, local in rows]


def findings(usages, table):
    names = demangled(sorted({usage.kernel for usage in usages}))
    unused = set(table)
    for usage in usages:
        name = names[usage.kernel]
        for row in table:
            kernel, architectures, registers, local = row
            if kernel != name.split("<")[0] and kernel != "*" or not fnmatch.fnmatchcase(usage.architecture, architectures):
                continue
            unused.discard(row)
            if usage.registers > registers or usage.local > local:
                yield (f"{name} for {usage.architecture}: {usage.registers} registers and {usage.local} bytes of local "
                       f"memory; {registers} and {local} are the most")
            break
    built = {usage.architecture for usage in usages}
    for kernel, architectures, _, _ in sorted(unused):
        if kernel != "*" and any(fnmatch.fnmatchcase(one, architectures) for one in built):
            yield f"{kernel} for {architectures}: named in the table, and no kernel is called so"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("files", nargs="+", metavar="FILE", help="OBJECT.resources of every object")
    parser.add_argument("--clang", metavar="ARCHITECTURES", help="comma-separated; the files are clang's, not ptxas's")
    arguments = parser.parse_args()
    usages = []
    for name in arguments.files:
        text = pathlib.Path(name).read_text()
        usages += from_clang(text, sorted(arguments.clang.split(","))) if arguments.clang else from_ptxas(text)
    if not usages:
        sys.exit("error: the files tell of no kernel")
    found = list(findings(usages, read_table(arguments.table)))
    print("\n".join(found) or f"ok: registers of {len(usages)} kernels")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
