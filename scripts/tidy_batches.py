"""Which sources clang-tidy may look at together, as one file that includes them all.

Most of its time goes into the headers of the libraries, which every source brings again. Sources can share them
if they are compiled with the same flags, and if what each names for itself means nothing else in another.
"""
import pathlib
import re
import shlex
import subprocess

import project

MOST = 24  # sources in a batch: more saves little
FINDING = re.compile(r"^([^\s:]+):\d+:\d+: (?:warning|error): ", re.MULTILINE)


def flags(entry):
    """The flags in an entry of compile_commands.json."""
    words = shlex.split(entry["command"])
    return tuple(words[1:words.index("-o")])


def names(paths, root=project.ROOT):
    """{path: (for itself, for others)}: the names that each file gives outside of classes and functions.

    For itself: what stands in a namespace without a name; in a source also types and variables.
    """
    command = ["ctags", "-f", "-", "--fields=Ks", "--sort=no", "--languages=C,C++", "--kinds-C++=+p", "-L", "-"]
    listing = subprocess.run(command, input="\n".join(paths), cwd=root, capture_output=True, text=True,
                             errors="replace", check=True).stdout
    found = {path: (set(), set()) for path in paths}
    for row in listing.splitlines():
        name, path = row.split("\t")[:2]
        kind, *scopes = row.split(';"\t', 1)[1].split("\t")
        scope = scopes[0] if scopes else ""
        if kind == "namespace" or not scope.startswith("namespace:") and scope:  # of a class, say
            continue
        own = "__anon" in scope or (path.endswith(".cpp") and kind not in ("function", "prototype"))
        found[path][0 if own else 1].add(name)
    return found


def apart(one, other):
    """Whether one source names for itself what the other knows too: both are (own names, names of headers)."""
    return bool(one[0] & (other[0] | other[1]) or one[1] & other[0])


def batches(sources, flags_of, headers_of, named, jobs):
    """The sources in batches for so many jobs, the largest first. `flags_of` and `headers_of` are asked for each
    source; `named` is what names() says of the sources and the headers."""
    most = min(MOST, -(-len(sources) // (2 * jobs)))  # twice as many as jobs, for these to end together
    groups = {}
    for source in sources:
        means = named[source][0], set().union(*(part for header in headers_of(source) for part in named[header]))
        group = groups.setdefault((pathlib.PurePosixPath(source).suffix, flags_of(source)), [])
        batch = next((batch for batch in group
                      if len(batch) < most and not any(apart(means, others) for others in batch.values())), None)
        if batch is None:
            batch = {}
            group.append(batch)
        batch[source] = means
    return sorted((list(batch) for group in groups.values() for batch in group), key=len, reverse=True)


def judge(sources, together, alone):
    """[(source, exit code, text)] of a batch. together(sources) and alone(source) run clang-tidy: (exit code, text).
    What is found in a batch counts only if it is found in a source by itself too."""
    if len(sources) == 1:
        return [(sources[0], *alone(sources[0]))]
    code, text = together(sources)
    if code == 0:
        return [(source, 0, "") for source in sources]
    places = FINDING.findall(text)
    named = [source for source in sources if any(place == source or place.endswith("/" + source) for place in places)]
    suspects = named or sources  # of a header: whoever includes it
    rest = [source for source in sources if source not in suspects]
    return ([(source, *alone(source)) for source in suspects]
            + (judge(rest, together, alone) if rest else []))
