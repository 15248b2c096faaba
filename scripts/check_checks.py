#!/usr/bin/env python3
"""Shows that the checks find what they are there to find: each is run on a small tree with known mistakes."""
import argparse
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import check_docs
import check_layers
import check_sizes
import docs_shown
import mutate_kernels
import project
import tidy_batches

PROGRAM = """#!/bin/sh
case "$*" in
  --help) printf 'usage: moert\\n\\n  run    runs\\n  model  models\\n' ;;
  'run --help') printf 'usage: moert run\\n  --device D\\n' ;;
  'model --help') printf 'usage: moert model\\n  describe DIR\\n' ;;
  'model describe --help') printf '  -o,--output FILE\\n' ;;
  *) printf 'layer   time\\n-----   ----\\n    0   %s us\\n' "$#.5" ;;
esac
"""


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, *lines):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text("".join(line + "\n" for line in lines))


class Layers(Tree):
    def expect(self, path, allowed, refused):
        """Each include of `allowed` passes in the file `path`, each of `refused` is a finding."""
        for target in ("core/src/util/u.hpp", "core/src/spec/s.hpp", "core/src/config/c.hpp", "plugins/quant/q.hpp",
                       "core/src/weights/w.hpp", "core/src/runtime/r.hpp", "plugins/gpu/port.h", "tests/t.hpp"):
            self.write(target)
        self.write(path, *[f"#include {name}" for name in allowed + refused])
        found = [row.split(": ")[1].removeprefix("includes ") for row in check_layers.findings(self.root)]
        self.assertEqual(found, refused)

    def test_abi(self):
        self.expect("core/include/moert/abi/a.h", ["<stdint.h>", "<moert/abi/b.h>"],
                    ["<stdio.h>", "<vector>", "<moert/sdk/x.hpp>"])

    def test_sdk(self):
        self.expect("core/include/moert/sdk/a.hpp", ["<vector>", "<moert/abi/b.h>", "<moert/sdk/x.hpp>"],
                    ["<unistd.h>", "<moert/moert.hpp>", "<nlohmann/json.hpp>"])

    def test_room(self):
        self.expect("core/src/config/c.cpp",
                    ['"config/c.hpp"', '"spec/s.hpp"', '"util/u.hpp"', "<yaml-cpp/yaml.h>", "<moert/abi/b.h>"],
                    ['"weights/w.hpp"', '"runtime/r.hpp"', "<spdlog/spdlog.h>", "<boost/dll.hpp>", '"none.hpp"'])

    def test_runtime(self):
        self.expect("core/src/runtime/r.cpp", ['"config/c.hpp"', '"weights/w.hpp"', "<sys/mman.h>"],
                    ['"../../../plugins/quant/q.hpp"', "<yaml-cpp/yaml.h>", "<CLI/CLI.hpp>"])

    def test_plugin(self):
        self.expect("plugins/cpu/simd/s.cpp", ["<immintrin.h>", "<moert/sdk/x.hpp>"],
                    ['"util/u.hpp"', '"../../quant/q.hpp"', "<moert/moert.hpp>", "<cuda_runtime.h>"])

    def test_gpu_plugin(self):
        self.expect("plugins/cuda/c.cu", ['"../gpu/port.h"', "<cuda_runtime.h>"], ['"../quant/q.hpp"'])

    def test_gpu_port(self):
        self.expect("plugins/gpu/port.cuh", ["<moert_gpu_port.cuh>"], ["<boost/context/fiber.hpp>"])

    def test_gpu_kernel(self):
        self.expect("plugins/gpu/kernels/k.cuh", ['"../port.h"'], ["<moert_gpu_port.cuh>"])

    def test_simulator(self):
        self.expect("tests/simulator/s.cpp", ['"../../plugins/gpu/port.h"', "<boost/context/fiber.hpp>"],
                    ['"util/u.hpp"', "<moert/moert.hpp>", "<cuda_runtime.h>"])

    def test_fibers(self):
        self.expect("tests/cpu/c.cpp", ["<boost/dll.hpp>"], ["<boost/context/fiber.hpp>"])

    def test_conformance(self):
        self.expect("tests/conformance/c.cpp", ["<gtest/gtest.h>", "<moert/sdk/x.hpp>"],
                    ['"util/u.hpp"', "<moert/moert.hpp>", '"t.hpp"'])

    def test_unit_test(self):
        self.expect("tests/unit/u.cpp", ['"runtime/r.hpp"', '"t.hpp"'], ['"../../plugins/quant/q.hpp"'])

    def test_tool(self):
        self.expect("tools/moert/m.cpp", ["<CLI/CLI.hpp>", '"runtime/r.hpp"'], ["<gtest/gtest.h>", '"t.hpp"'])

    def test_made_by_build(self):
        self.write("tests/unit/CMakeLists.txt", 'add_custom_command(OUTPUT "${here}/made.inc")')
        self.expect("tests/unit/u.cpp", ['"made.inc"'], ['"unmade.inc"', '"ade.inc"'])

    def test_unknown_folder(self):
        self.expect("somewhere/x.cpp", ["<vector>"], ["<moert/abi/b.h>"])


class Sizes(Tree):
    def found(self):
        paths = check_sizes.project.files(check_sizes.project.CODE, self.root)
        rows, _, _ = check_sizes.check_functions(self.root, paths)
        return [row.split(" ")[0] for row in check_sizes.check_files(self.root, paths) + rows]

    @staticmethod
    def function(lines, head="int f(int a) {"):
        return [head] + ["  ++a;"] * (lines - 2) + ["}"]

    def test_files(self):
        for path, limit in (("core/include/moert/abi/a.h", 150), ("core/include/moert/a.hpp", 250),
                            ("core/src/util/a.cpp", 400), ("tests/unit/a.cpp", 500)):
            with self.subTest(path=path):
                self.write(path, *["//"] * limit)
                self.assertEqual(self.found(), [])
                self.write(path, *["//"] * (limit + 1))
                self.assertEqual(self.found(), [f"{path}:{limit + 1}:"])
                self.write(path)

    def test_exceptions_only_shrink(self):
        self.write("core/src/util/a.cpp", *["//"] * 450)
        for length, findings in ((450, []), (449, ["core/src/util/a.cpp:450:"]), (460, ["core/src/util/a.cpp:1:"])):
            with mock.patch.object(check_sizes, "EXCEPTIONS", {"core/src/util/a.cpp": length}):
                self.assertEqual(self.found(), findings)
        with mock.patch.object(check_sizes, "EXCEPTIONS", {"core/src/util/a.cpp": 450, "gone.cpp": 601}):
            self.assertEqual(self.found(), ["gone.cpp:1:", "gone.cpp:1:"])

    def test_functions(self):
        short = [line for i in range(40) for line in self.function(3, f"int g{i}(int a) {{")]
        self.write("core/src/util/a.cpp", *short, *self.function(60))
        self.assertEqual(self.found(), [])
        self.write("core/src/util/a.cpp", *short, *self.function(61, "int S::f(int a) const {"))
        self.assertEqual(self.found(), ["core/src/util/a.cpp:121:"])

    def test_nine_of_ten(self):
        self.write("core/src/util/a.cpp", *[line for i in range(10) for line in
                                            self.function(36 if i < 2 else 5, f"int g{i}(int a) {{")])
        self.assertIn("nine", self.found())

    def test_kernels(self):
        self.write("plugins/cuda/a.cu", *self.function(150, "__global__ void k(int a) {"))
        self.assertEqual(self.found(), [])
        self.write("plugins/cuda/a.cu", *self.function(151, "__global__ void k(int a) {"))
        self.assertEqual(self.found(), ["plugins/cuda/a.cu:1:"])


class Docs(Tree):
    def setUp(self):
        super().setUp()
        self.write("build/moert", PROGRAM)
        self.write("scripts/go", "#!/bin/sh", "echo 'go [--fast]'")
        for name in ("build/moert", "scripts/go"):
            (self.root / name).chmod(0o755)
        self.write("docs/b.md", "# B", "## Two words, `x`")

    def found(self, *lines):
        self.write("a.md", *lines)
        helps = check_docs.Help(self.root, str(self.root / "build/moert"))
        pages = {name: check_docs.Page(pathlib.PurePosixPath(name), (self.root / name).read_text())
                 for name in ("a.md", "docs/b.md")}
        page = pages["a.md"]
        return [number for rows in (check_docs.check_links(page, pages, self.root),
                                    check_docs.check_paths(page, self.root),
                                    check_docs.check_commands(page, helps, self.root),
                                    docs_shown.check_outputs(page, helps),
                                    docs_shown.check_made(page, helps)) for number, _ in rows]

    def updated(self, *lines):
        """What --update makes of these lines; afterwards there is nothing to be found, nor to be changed."""
        self.write("a.md", *lines)
        helps = check_docs.Help(self.root, str(self.root / "build/moert"))

        def update():
            page = check_docs.Page(pathlib.PurePosixPath("a.md"), (self.root / "a.md").read_text())
            return docs_shown.update(page, helps, self.root), list(docs_shown.check_made(page, helps))
        self.assertTrue(update()[0])
        self.assertEqual(update(), (False, []))
        return (self.root / "a.md").read_text().splitlines()

    def test_links(self):
        self.assertEqual(self.found("# A", "[b](docs/b.md) [b](docs/b.md#two-words-x) [a](#a) [w](https://example.org)"), [])
        self.assertEqual(self.found("[b](b.md)", "", "[b](docs/b.md#three)", "[up](../x)"), [1, 3, 4])

    def test_paths(self):
        self.assertEqual(self.found("`docs/b.md` `docs/<x>` `other/x` `build/x`"), [])
        self.assertEqual(self.found("", "`docs/c.md`"), [2])

    def test_commands(self):
        self.assertEqual(self.found("```sh", "moert run x --device cpu | cat", "moert model describe D --output F",
                                    "A=1 scripts/go --fast && cmake --nothing", "```", "`moert run x`"), [])
        self.assertEqual(self.found("```sh", "moert fly", "moert run --fast", "scripts/went", "scripts/go --slow",
                                    "moert model describe \\", "  --device cpu", "```", "`moert fly x`"),
                         [2, 3, 4, 5, 6, 9])

    def test_outputs(self):
        def block(*lines):
            return self.found("<!-- verify -->", "```console", "$ moert run x", *lines, "```")
        self.assertEqual(block("layer time", "----- ---", "0   17.25 us"), [])
        self.assertEqual(block("layer time", "..."), [])
        self.assertEqual(block("layer time", "----- ---", "0   17.25 ms"), [3])
        self.assertEqual(block("layer time", "----- ---"), [3])
        self.assertEqual(block(), [3])

    def test_files(self):
        def page(printed):
            return self.found("<!-- file: d/x -->", "```yaml", "a: 1", "```", "<!-- verify -->", "```console",
                              "$ cat d/x", printed, "```")
        self.assertEqual(page("a: 1"), [])
        self.assertEqual(page("b: 1"), [7])

    def test_tables(self):
        def table(*lines, command="moert list"):
            return self.found("", f"<!-- table: {command} -->", *lines, "<!-- /table -->")
        printed = ["layer   time", "-----   ----", "    0   1.5 us"]
        self.assertEqual(table(*printed), [])
        self.assertEqual(table("0", command="moert list | grep -c '^0' || true"), [])
        for lines in (printed[:-1], [*printed, ""], [*printed[:2], "    0   2.5 us"], printed[::-1]):
            with self.subTest(lines=lines):
                self.assertEqual(table(*lines), [3])
        self.assertEqual(table(command="moert list | grep -c '^0'"), [3])
        self.assertEqual(self.found("<!-- table: moert list -->", *printed), [1])
        self.assertEqual(self.found("```text", "<!-- table: moert list -->", "```"), [])

    def test_counts(self):
        self.assertEqual(self.found("3<!-- = moert list | wc -l --> and 1<!-- = moert list | grep -c us -->"), [])
        self.assertEqual(self.found("3<!-- = moert list | wc -l --> and 2<!-- = moert list | grep -c us -->"), [1])
        self.assertEqual(self.found("", "30<!-- = moert list | wc -l -->"), [2])

    def test_update(self):
        self.assertEqual(self.updated("a 7<!-- = moert list | wc -l --> b 1234<!-- = echo 5 -->", "",
                                      "<!-- table: moert list -->", "gone", "gone", "<!-- /table -->", "c"),
                         ["a 3<!-- = moert list | wc -l --> b 5<!-- = echo 5 -->", "",
                          "<!-- table: moert list -->", "layer   time", "-----   ----", "    0   1.5 us",
                          "<!-- /table -->", "c"])
        self.assertEqual(self.updated("1<!-- = echo 5 -->", "<!-- table: moert list -->", "<!-- /table -->")[2:],
                         ["layer   time", "-----   ----", "    0   1.5 us", "<!-- /table -->"])


class TidyBatches(Tree):
    def batches(self, sources, flags=None, headers=None, jobs=1):
        named = tidy_batches.names(sorted({*sources, *(header for row in (headers or {}).values() for header in row)}),
                                   self.root)
        found = tidy_batches.batches(sources, lambda source: (flags or {}).get(source, ()),
                                     lambda source: (headers or {}).get(source, []), named, jobs)
        return sorted(sorted(batch) for batch in found)

    def test_names(self):
        self.write("a.cpp", "namespace m {", "struct Type { int member; };", "int shared() { int local = 1; return local; }",
                   "namespace {", "int own(int a) { return a; }", "class Rig { void run(); };", "}", "}")
        self.write("a.hpp", "namespace m {", "struct Seen {};", "int shared();", "}")
        self.assertEqual(tidy_batches.names(["a.cpp", "a.hpp"], self.root),
                         {"a.cpp": ({"Type", "own", "Rig"}, {"shared"}), "a.hpp": (set(), {"Seen", "shared"})})

    def test_batches(self):
        for source, name in (("a.cpp", "one"), ("b.cpp", "two"), ("c.cpp", "one"), ("d.cpp", "four")):
            self.write(source, "namespace {", f"int {name}() {{ return 1; }}", "}")
        self.write("two.hpp", "int two();")
        sources = ["a.cpp", "c.cpp", "b.cpp", "d.cpp"]
        self.assertEqual(self.batches(sources), [["a.cpp", "b.cpp"], ["c.cpp", "d.cpp"]])
        self.assertEqual(self.batches(sources, flags={"b.cpp": ("-mavx2",)}),
                         [["a.cpp", "d.cpp"], ["b.cpp"], ["c.cpp"]])
        self.assertEqual(self.batches(["a.cpp", "b.cpp", "d.cpp"], headers={"a.cpp": ["two.hpp"]}),
                         [["a.cpp", "d.cpp"], ["b.cpp"]])
        self.assertEqual(self.batches(sources, jobs=2), [[source] for source in sorted(sources)])

    def test_findings(self):
        """A finding is repeated by its source alone; one that is of the batch's making is none."""
        alone = {"a.cpp": 1, "c.cpp": 0}
        asked = []

        def together(sources):
            asked.append(sources)
            text = "".join(f"/x/{source}:1:2: error: it is bad\n" for source in sources if source in alone)
            return int(bool(text)), text
        found = tidy_batches.judge(["a.cpp", "b.cpp", "c.cpp", "d.cpp"], together,
                                   lambda source: (alone[source], source))
        self.assertEqual(found, [("a.cpp", 1, "a.cpp"), ("c.cpp", 0, "c.cpp"), ("b.cpp", 0, ""), ("d.cpp", 0, "")])
        self.assertEqual(asked, [["a.cpp", "b.cpp", "c.cpp", "d.cpp"], ["b.cpp", "d.cpp"]])

    def test_findings_in_headers(self):
        found = tidy_batches.judge(["a.cpp", "b.cpp"], lambda sources: (1, "/x/a.hpp:1:2: error: it is bad\n"),
                                   lambda source: (1, source))
        self.assertEqual(found, [("a.cpp", 1, "a.cpp"), ("b.cpp", 1, "b.cpp")])


class Mutations(unittest.TestCase):
    """mutate_kernels.py runs seldom; that its texts still stand in the kernels is seen at once."""

    def test_texts_stand_once(self):
        for mutation in mutate_kernels.MUTATIONS:
            text = (project.ROOT / "plugins/gpu" / mutation.file).read_text()
            self.assertEqual(text.count(mutation.text), 1, mutation.name)
            self.assertNotEqual(mutation.text, mutation.instead, mutation.name)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.argv[1:] = []
    unittest.main()
