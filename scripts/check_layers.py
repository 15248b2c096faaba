#!/usr/bin/env python3
"""Checks that includes point one way. The tables below are the authority.

Every #include of the C, C++ and GPU sources is looked up. A file belongs to the longest folder of
FOLDERS that it lies in; it may include that folder and the ones listed for it. Libraries are allowed
by LIBRARIES, system headers by SYSTEM.
"""
import argparse
import pathlib
import re

import project

ABI = "core/include/moert/abi"
SDK = "core/include/moert/sdk"
API = "core/include"  # abi and sdk lie inside it
UTIL = "core/src/util"
SPEC = "core/src/spec"  # plain data types: what one room hands to another

# folder -> other folders that its files may include. "*" stands for one folder name.
FOLDERS = {
    ABI: [],
    SDK: [ABI],
    API: [],
    UTIL: [API],
    SPEC: [UTIL, API],
    "core/src/*": [SPEC, UTIL, API],
    "core/src/capture": [SPEC, UTIL, API, "core/src/weights"],  # its files are safetensors
    "core/src/runtime": ["core/src", API],
    "plugins/*": [ABI, SDK],
    "plugins/gpu": [ABI, SDK],
    "plugins/cuda": [ABI, SDK, "plugins/gpu"],
    "plugins/hip": [ABI, SDK, "plugins/gpu"],
    "tools": ["core/src", API],
    "tools/moert/report": ["core/src/capture", API],  # a page of what captures hold, apart from the program
    "bench": ["core/src", API],
    "tests": ["core/src", "tools/moert/report", API],
    "tests/conformance": [ABI, SDK],
    "tests/cpu": ["plugins/cpu", "tests", "core/src", API],  # levels of instructions that this machine lacks
    "tests/toolkits": ["plugins/cuda", "plugins/hip", "tests"],  # what needs no toolkit of them
    "tests/plugins": [ABI, SDK],
    "tests/simulator": ["plugins/gpu", ABI, SDK],
    "tests/gpu": ["plugins/gpu", "tests", ABI, SDK],
    "examples/*": [API],
}

# first part of the include -> folders that may use the library.
LIBRARIES = {
    "boost/dll": ["core/src/loader"],
    "boost/regex.hpp": ["core/src/weights"],
    "boost/context": ["tests/simulator"],
    "boost": ["core/src/loader", "tests"],
    "yaml-cpp": ["core/src/config"],
    "spdlog": ["core/src/observe"],
    "fmt": ["core/src/observe"],
    "CLI": ["tools"],
    "nlohmann": ["core/src/config", "core/src/weights", "core/src/capture", "tools", "tests"],
    "gtest": ["tests"],
    "gmock": ["tests"],
    "benchmark": ["bench"],
    "xxhash.h": ["core/src/util"],
    "zlib.h": ["core/src/capture", "tests"],
    "cuda": ["plugins/cuda", "plugins/gpu"],
    "hip": ["plugins/hip", "plugins/gpu"],
    "rocm": ["plugins/hip"],
    "moert_gpu_port.cuh": ["plugins/gpu/port.cuh"],  # found by the backend's include path
}
VENDOR_HEADER = re.compile(r"(cuda|cub|nv|mma|cooperative_groups|driver_types|vector_types)")
VENDOR_FOLDERS = ["plugins/cuda", "plugins/gpu"]

# Where headers of the operating system and the processor may be used: not in what plugins see.
SYSTEM = ["core/src", "plugins", "tools", "tests", "bench", "examples"]

ABI_STANDARD = {"stdint.h", "stddef.h"}
STANDARD = set("""
algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
condition_variable coroutine deque exception execution filesystem format forward_list fstream functional
future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex
scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept stop_token
streambuf string string_view strstream syncstream system_error thread tuple type_traits typeindex
typeinfo unordered_map unordered_set utility valarray variant vector version
cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef
cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype
assert.h ctype.h errno.h fenv.h float.h inttypes.h limits.h locale.h math.h setjmp.h signal.h
stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h tgmath.h
threads.h time.h uchar.h wchar.h wctype.h
""".split())

# "file.hpp" is looked for beside the including file, in the folders above it that belong to the same
# entry of FOLDERS, then in these.
QUOTE_ROOTS = ["core/src", "plugins", "tests", "tools", "tools/moert", "bench"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(<([^>]+)>|"([^"]+)")')


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def folder_of(path):
    """The entry of FOLDERS for a path: (the folder it names, the folders it may include)."""
    parts = path.split("/")
    best = None
    for pattern, allowed in FOLDERS.items():
        names = pattern.split("/")
        if len(parts) > len(names) and all(n in ("*", p) for n, p in zip(names, parts)):
            rank = (len(names), "*" not in names)
            if best is None or rank > best[0]:
                best = (rank, "/".join(parts[:len(names)]), allowed)
    return (best[1], best[2]) if best else (None, [])


def resolve(path, quoted, root):
    """The project file that a quoted include means, or None."""
    here = pathlib.PurePosixPath(path)
    own, _ = folder_of(path)
    starts = [str(here.parent)] + [str(p) for p in here.parents if own and inside(str(p), own)]
    for start in starts + QUOTE_ROOTS:
        candidate = (root / start / quoted).resolve()
        for wanted in (candidate, candidate.with_name(candidate.name + ".in")):
            if wanted.is_file() and wanted.is_relative_to(root.resolve()):
                return str(candidate.relative_to(root.resolve()))
    return None


def made_by_build(path, quoted, root):
    """Whether the CMakeLists.txt beside the file names the include: then building makes it."""
    recipe = (root / path).parent / "CMakeLists.txt"
    return recipe.is_file() and re.search(rf"(?<![\w.-]){re.escape(quoted)}", recipe.read_text()) is not None


def check_project(path, target):
    own, allowed = folder_of(path)
    if own is None:
        return f"no rule for the folder of this file; add one to FOLDERS in {__file__.rsplit('/', 1)[-1]}"
    if any(inside(target, folder) for folder in [own, *allowed]):
        return None
    return f"{own} may include only itself" + (f", {', '.join(allowed)}" if allowed else "")


def check_library(path, header):
    for library in sorted(LIBRARIES, key=len, reverse=True):
        if inside(header, library):
            where = LIBRARIES[library]
            ok = any(inside(path, folder) for folder in where)
            return None if ok else f"{library} is used only in {', '.join(where)}"
    if inside(path, ABI):
        return None if header in ABI_STANDARD else "the ABI includes only stdint.h, stddef.h and its own headers"
    if header in STANDARD:
        return None
    if VENDOR_HEADER.match(header):
        ok = any(inside(path, folder) for folder in VENDOR_FOLDERS)
        return None if ok else f"headers of a GPU toolkit are used only in {', '.join(VENDOR_FOLDERS)}"
    if any(inside(path, folder) for folder in SYSTEM):
        return None
    return "what plugins and embedders include uses only the standard library"


def check_include(path, angle, quoted, root):
    """Why this include is not allowed, or None."""
    name = angle or quoted
    if name.startswith("moert/"):
        return check_project(path, f"{API}/{name}")
    if angle:
        return check_library(path, angle)
    target = resolve(path, quoted, root)
    if target is None and made_by_build(path, quoted, root):
        return None
    if target is None:
        return "no such file beside it or in " + ", ".join(QUOTE_ROOTS) + " (a library wants <...>)"
    return check_project(path, target)


def findings(root):
    found = []
    for path in map(str, project.files(project.CODE, root)):
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            why = match and check_include(path, match[2], match[3], root)
            if why:
                found.append(f"{path}:{number}: includes {match[1]}: {why}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=project.ROOT, help="the project to check")
    root = parser.parse_args().root
    found = findings(root)
    project.finish(found, f"includes of {len(project.files(project.CODE, root))} files point one way")


if __name__ == "__main__":
    main()
