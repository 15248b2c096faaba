"""What documents show of the output of commands: whole outputs, tables, single numbers. See check_docs.py."""
import contextlib
import difflib
import pathlib
import re
import tempfile
import typing

NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
TABLE = re.compile(r"<!-- table: (.+) -->")
TABLE_END = "<!-- /table -->"
COUNT = re.compile(r"(\d+)<!-- = (.+?) -->")


def collapse(line):
    line = re.sub(r"([-=─━═])\1{2,}", r"\1\1\1", line)
    return re.sub(r"\s+", " ", NUMBER.sub("N", line)).strip()


def matches(expected, actual):
    """Whether the lines agree, where an expected `...` stands for any lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def trimmed(lines):
    lines = [collapse(line) for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@contextlib.contextmanager
def folder_of(page):
    """A folder with the files that the page shows; None where it shows none."""
    files = [block for block in page.blocks if block["file"]]
    if not files:
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        for block in files:
            path = pathlib.Path(name) / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(line + "\n" for _, line in block["lines"]), encoding="utf-8")
        yield name


def check_outputs(page, helps):
    for block in page.blocks:
        if not block["verify"]:
            continue
        if not helps.program:
            yield block["line"], "this block is to be verified, but there is no built program; see --program"
            continue
        runs = []
        for number, line in block["lines"]:
            if line.startswith("$ "):
                runs.append((number, line[2:], []))
            elif runs:
                runs[-1][2].append(line)
        if block["language"] != "console" or not runs:
            yield block["line"], "a block to verify is ```console and begins with a `$ ` line"
        for number, command, lines in runs:
            with folder_of(page) as folder:
                done = helps.run(command, folder)
            expected, actual = trimmed(lines), trimmed(done.stdout.splitlines())
            if not matches(expected, actual):
                wanted = [line for line in expected if line != "..." and line not in actual]
                extra = [line for line in actual if line not in expected] if "..." not in expected else []
                detail = "".join(f"\n  - {line}" for line in wanted) + "".join(f"\n  + {line}" for line in extra)
                detail = detail or "\n  the lines come in another order, or another number of times"
                if done.returncode:
                    detail += f"\n  exit code {done.returncode}: {done.stderr.strip()[-400:]}"
                yield number, f"`{command}` prints something else (numbers shown as N):{detail}"


class Made(typing.NamedTuple):
    """A part of a page that a command prints: whole lines from `line` on, or `columns` of that line."""
    line: int
    command: str
    shown: list | None  # None: a table without an end
    columns: tuple | None = None

    def printed(self, helps):
        """(lines, why there are none)."""
        done = helps.run(self.command)
        if done.returncode:
            return None, f"`{self.command}` ends with exit code {done.returncode}: {done.stderr.strip()[-400:]}"
        return [done.stdout.strip()] if self.columns else done.stdout.splitlines(), None


def made_parts(page):
    """The made parts of a page, from its top; never in a fenced block."""
    table = None
    for number, line in page.prose:
        if table and line.strip() == TABLE_END:
            yield table
            table = None
        elif table:
            table.shown.append(line)
        elif match := TABLE.fullmatch(line.strip()):
            table = Made(number + 1, match[1], [])
        else:
            yield from (Made(number, match[2], [match[1]], match.span(1)) for match in COUNT.finditer(line))
    if table:
        yield table._replace(shown=None)


def check_made(page, helps):
    for part in made_parts(page):
        if part.shown is None:
            yield part.line - 1, f"the table of `{part.command}` has no end, {TABLE_END}"
        elif not helps.program:
            yield part.line, "this is to be compared, but there is no built program; see --program"
        else:
            printed, why = part.printed(helps)
            if printed is not None and printed != part.shown:
                changes = (line for line in difflib.ndiff(part.shown, printed) if line[0] in "-+")
                why = f"`{part.command}` prints something else; --update writes it anew:"
                why += "".join(f"\n  {line.rstrip()}" for line in changes)
            if why:
                yield part.line, why


def update(page, helps, root):
    """Writes the made parts of a page anew; whether any of them was another."""
    path = root / page.path
    lines = path.read_text(encoding="utf-8").splitlines()
    before = list(lines)
    for part in reversed(list(made_parts(page))):  # so that places further up stay where they are
        printed = part.printed(helps)[0] if part.shown is not None else None
        if printed is None:
            continue
        at = part.line - 1
        if part.columns:
            first, end = part.columns
            lines[at] = lines[at][:first] + printed[0] + lines[at][end:]
        else:
            lines[at:at + len(part.shown)] = printed
    if lines != before:
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return lines != before
