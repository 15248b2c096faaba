#!/usr/bin/env python3
"""Checks the Markdown files: links, paths, commands, and what they show of the program's output.

Links       relative links and their #anchors lead somewhere; so does `a/path` in backticks that begins
            with a folder of the project.
Commands    in fenced blocks, and in backticks: scripts/NAME exists, a subcommand of `moert` exists, and
            every --flag shown is in the --help of that script or subcommand.
Outputs     a ```console block directly after the comment <!-- verify --> is run: each `$ ` line, from
            the top folder, with the built program in PATH. What it prints on stdout must be what stands
            below it; numbers, runs of blanks and lengths of rules may differ. A line `...` stands for
            any lines. On a page with blocks directly after comments <!-- file: NAME -->, it is run in a
            folder with these files instead.
Made parts  the lines between <!-- table: COMMAND --> and <!-- /table --> are what COMMAND prints, and so
            is the number directly before <!-- = COMMAND -->, digit by digit. --update writes them anew.
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess

import docs_shown
import project

LINK = re.compile(r"(?<!\\)\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
CODE_SPAN = re.compile(r"(`+)(.+?)\1")
FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*([\w+-]*)")
PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)+/?")
FILE = re.compile(r"<!-- file: (\S+) -->")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
SHELLS = {"", "console", "sh", "bash", "shell"}
MADE_BY_BUILDING = {"build", "out"}


class Page:
    """A Markdown file taken apart: prose lines, and fenced blocks."""

    def __init__(self, path, text):
        self.path, self.prose, self.blocks = path, [], []
        fence, block, comment = None, None, ""
        for number, line in enumerate(text.splitlines(), 1):
            match = FENCE.match(line)
            if fence:
                if match and match[2].startswith(fence) and not match[3]:
                    fence = None
                else:
                    block["lines"].append((number, line))
            elif match:
                fence = match[2]
                file = FILE.fullmatch(comment)
                block = {"language": match[3], "line": number, "verify": comment == "<!-- verify -->",
                         "file": file[1] if file else None, "lines": []}
                self.blocks.append(block)
                comment = ""
            else:
                self.prose.append((number, line))
                comment = line.strip() or comment

    def anchors(self):
        seen = {}
        for _, line in self.prose:
            match = HEADING.match(line)
            if match:
                slug = re.sub(r"[^\w\- ]", "", LINK.sub(lambda m: m[0].split("](")[0][1:], match[1]).lower())
                slug = slug.replace(" ", "-")
                count = seen.get(slug, 0)
                seen[slug] = count + 1
                yield f"{slug}-{count}" if count else slug
            yield from re.findall(r'<a (?:id|name)="([^"]+)"', line)


class Help:
    """The project's scripts and the built program: their --help texts, asked for once each, and what
    commands print that stand in documents."""

    def __init__(self, root, program):
        self.root, self.program, self.texts = root, program, {}

    def run(self, command, folder=None):
        """A shell line with the program in PATH, from the top folder or another."""
        environment = dict(os.environ, NO_COLOR="1", LC_ALL="C.UTF-8",
                           PATH=f"{pathlib.Path(self.program).parent}:{os.environ['PATH']}")
        return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder or self.root,
                              env=environment, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)

    def text(self, command):
        key = tuple(command)
        if key not in self.texts:
            try:
                done = subprocess.run([*command, "--help"], cwd=self.root, capture_output=True, text=True,
                                      timeout=60, stdin=subprocess.DEVNULL)
                self.texts[key] = done.stdout + done.stderr
            except (OSError, subprocess.TimeoutExpired) as error:
                self.texts[key] = f"({error})"
        return self.texts[key]


def check_links(page, pages, root):
    for number, line in page.prose:
        for target in LINK.findall(CODE_SPAN.sub("", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, anchor = target.partition("#")
            path = os.path.normpath(page.path.parent / name) if name else str(page.path)
            if not (root / path).exists() or path.startswith(".."):
                yield number, f"link to {target}: there is no {path}"
            elif anchor and path in pages and anchor not in set(pages[path].anchors()):
                yield number, f"link to {target}: {path} has no heading '{anchor}'"


def check_paths(page, root):
    folders = {entry.name for entry in root.iterdir() if entry.is_dir()} - MADE_BY_BUILDING
    for number, line in page.prose:
        for _, span in CODE_SPAN.findall(line):
            if PATH.fullmatch(span) and span.split("/")[0] in folders:
                if not (root / span).exists() and not (root / page.path.parent / span).exists():
                    yield number, f"`{span}` does not exist"


def commands(page):
    """(line number, command line): shell lines of fenced blocks, and commands in backticks."""
    for block in page.blocks:
        if block["language"] not in SHELLS:
            continue
        joined, start = "", 0
        for number, line in block["lines"]:
            if not joined:
                start = number
            if line.rstrip().endswith("\\"):
                joined += line.rstrip()[:-1] + " "
                continue
            text = (joined + line).strip()
            joined = ""
            is_output = block["language"] == "console" and not text.startswith("$ ")
            if text and not is_output:
                yield start, text.removeprefix("$ ")
    for number, line in page.prose:
        for _, span in CODE_SPAN.findall(line):
            if " " in span.strip():
                yield number, span.strip()


def simple_commands(line):
    """The commands of a shell line as word lists: split at | && ; and without redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError:
        words = line.split()
    current = []
    for word in words:
        if word and set(word) <= set("|&;()"):
            yield current
            current = []
        else:
            current.append(word)
    yield current


def check_flags(words, text, shown_as):
    for word in words:
        if word == "--":
            return
        flag = word.split("=")[0]
        if re.fullmatch(r"--[a-z][a-z0-9-]*", flag) and flag not in ("--help", "--version"):
            if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text):
                yield f"{flag} is not in `{shown_as} --help`"


def check_moert(words, helps):
    command, text = [helps.program], helps.text([helps.program])
    everything = text
    rest = words[1:]
    while rest and re.fullmatch(r"[a-z][a-z0-9-]*", rest[0]):
        listed = re.search(rf"^\s+{re.escape(rest[0])}(?:\s|,|$)", text, re.MULTILINE)
        if not listed and len(command) == 1:
            yield f"`moert {rest[0]}`: no such subcommand"
            return
        if not listed:
            break
        command.append(rest.pop(0))
        text = helps.text(command)
        everything += text
    yield from check_flags(rest, everything, " ".join(["moert", *command[1:]]))


def check_commands(page, helps, root):
    for number, line in commands(page):
        for words in simple_commands(line):
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words = words[1:]
            if not words:
                continue
            if words[0].startswith(("scripts/", "./scripts/")):
                name = words[0].removeprefix("./")
                if re.search(r"[*<>{}]", name):
                    continue
                if not (root / name).is_file():
                    yield number, f"{name} does not exist"
                elif os.access(root / name, os.X_OK):
                    flags = words[1:2] if name == "scripts/run" else words[1:]
                    yield from ((number, why) for why in check_flags(flags, helps.text([str(root / name)]), name))
            elif helps.program and (words[0] == "moert" or re.fullmatch(r"(\./)?build/\S*/moert", words[0])):
                yield from ((number, why) for why in check_moert(words, helps))


def read_pages(root):
    return {str(path): Page(path, (root / path).read_text(encoding="utf-8"))
            for path in project.files((".md",), root)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=project.ROOT, help="the project to check")
    parser.add_argument("--program", type=pathlib.Path,
                        help="the built moert (default: the one in build/test or build/run, if any)")
    parser.add_argument("--update", action="store_true", help="first write the made parts anew")
    arguments = parser.parse_args()
    root, program = arguments.root.resolve(), arguments.program
    if program is None:
        built = [root / "build" / folder / "bin/moert" for folder in ("test", "run")]
        program = next((path for path in built if path.is_file()), None)
    elif not program.is_file():
        parser.error(f"there is no {program}")
    helps = Help(root, str(program.resolve()) if program else None)
    pages = read_pages(root)
    if arguments.update:
        if not program:
            parser.error("--update needs a built program; see --program")
        for name in [name for name, page in pages.items() if docs_shown.update(page, helps, root)]:
            print(f"updated {name}")
        pages = read_pages(root)
    found = []
    for name, page in pages.items():
        for rows in (check_links(page, pages, root), check_paths(page, root),
                     check_commands(page, helps, root), docs_shown.check_outputs(page, helps), docs_shown.check_made(page, helps)):
            found += [f"{name}:{number}: {why}" for number, why in rows]
    verified = sum(block["verify"] for page in pages.values() for block in page.blocks)
    made = sum(1 for page in pages.values() for _ in docs_shown.made_parts(page))
    missing = "" if program else "; no built program, so its commands were not looked up"
    project.finish(found, f"links and commands of {len(pages)} pages, {verified} shown outputs, "
                          f"{made} made parts{missing}")


if __name__ == "__main__":
    main()
