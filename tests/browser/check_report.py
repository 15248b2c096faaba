#!/usr/bin/env python3
"""Checks the page of `moert report` in a browser, on captures that report_sample makes up.

Looks at it as its readers do: wide and narrow, light and dark, on paper, without a script, with a pointer
and with a keyboard. Needs the Debian package chromium-headless-shell (or chromium).

With --picture FILE it checks nothing, and writes the picture that the documents show:
  cmake --build build/test --target report_sample
  tests/browser/check_report.py --picture docs/pictures/report.png
With --page PAGE, that of an existing report.
"""
import argparse
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import browser
import markup
import png

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KINDS = ("usual", "hostile", "large", "small", "empty")
PROBLEMS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Inspector.targetCrashed")
MOST_BYTES = 1_500_000


def number(text):
    """Of a cell: "1,234", "12.3%", "2.47×"."""
    return float(text.replace(",", "").rstrip("%×"))


def shown(value):
    """Three significant digits, as the page has them."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".split("e")[1])
    return f"{value:,.{max(0, 2 - exponent)}f}"


class Pages(unittest.TestCase):
    """The samples and one browser for all tests: {kind: path} and {kind: text}, put here by main()."""

    paths, texts, browser = {}, {}, None

    def show(self, kind, **how):
        self.browser.show(self.paths[kind], **how)

    def value(self, expression):
        return self.browser.evaluate(expression)

    def settle(self):
        """Until what was asked for is drawn, and its events are over."""
        self.browser.call("Runtime.evaluate", awaitPromise=True, expression="""
            new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))""")

    def table(self, caption):
        """Rows of texts of the page's first table whose caption begins so, the headings first."""
        return self.value(f"""(() => {{
          const table = [...document.querySelectorAll("table")].find(
            (one) => one.caption.textContent.startsWith({caption!r}));
          return table && [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
        }})()""")


class Text(Pages):
    """What stands in the file, before any browser."""

    def test_tags_nest(self):
        for kind, text in self.texts.items():
            with self.subTest(kind):
                self.assertEqual(markup.Markup(text).faults, [])

    def test_nothing_points_outside(self):
        for kind, text in self.texts.items():
            with self.subTest(kind):
                # The hostile names of the samples hold "src=x", which is not an address of the page's.
                found = re.search(r"(?i)https?:|//[a-z]|url\(|@import|\bsrc=(?!x onerror)", text)
                self.assertIsNone(found, found and text[found.start():][:80])
                links = [values["href"] for tag, values in markup.Markup(text).elements if "href" in values]
                self.assertTrue(all(link.startswith("#") for link in links), links)

    def test_size(self):
        for kind, text in self.texts.items():
            self.assertLess(len(text.encode()), MOST_BYTES, kind)


class Numbers(Pages):
    def test_tables_agree(self):
        """The other tables, worked out once more from the table of all counts."""
        for kind in ("usual", "large", "small"):
            with self.subTest(kind):
                self.show(kind)
                balance = self.table("Balance of each layer")
                column = {name: i for i, name in enumerate(balance[0])}
                counts = self.table("Slots that went to each expert")
                self.assertEqual(len(balance), len(counts))
                for layer, figures in zip(counts[1:], balance[1:]):
                    self.check_layer([number(text) for text in layer[1:]],
                                     {name: figures[i] for name, i in column.items()}, layer[0])

    def check_layer(self, loads, figures, layer):
        slots, experts = sum(loads), len(loads)
        self.assertEqual(figures["layer"], layer)
        self.assertEqual(number(figures["experts"]), experts)
        self.assertEqual(number(figures["slots"]), slots)
        self.assertEqual(number(figures["rows"]) * number(figures["k"]), slots)
        self.assertEqual(int(figures["busiest"]), loads.index(max(loads)))
        self.assertEqual(figures["its share"], shown(100 * max(loads) / slots) + "%")
        self.assertEqual(figures["max / mean"], shown(max(loads) * experts / slots) + "×")
        self.assertEqual(number(figures["dead"]), loads.count(0))
        bits = -sum(load / slots * math.log2(load / slots) for load in loads if load)
        self.assertAlmostEqual(number(figures["entropy"]), bits, delta=0.006)
        self.assertAlmostEqual(number(figures["even"]), math.log2(experts), delta=0.006)

    def test_known_numbers(self):
        self.show("usual")
        self.assertIn("65,536", self.value("document.querySelector('.tiles').textContent"))
        balance = self.table("Balance of each layer")
        self.assertEqual(len(balance), 1 + 48)
        self.assertEqual({row[balance[0].index("slots")] for row in balance[1:]}, {"524,288"})
        dead = self.table("Experts without a token")
        self.assertEqual([row[0] for row in dead[1:]], ["2", "9", "16", "23", "30", "37", "44"])

    def test_warnings(self):
        self.show("hostile")
        notices = self.value("[...document.querySelectorAll('#capture-2 .notice')].map((n) => n.textContent)")
        self.assertEqual(len(notices), 3)
        self.assertTrue(notices[0].startswith("Simulated routing."))
        self.assertTrue(notices[1].startswith("84 decisions are absent."))  # 21 rows in 4 layers
        self.assertTrue(notices[2].startswith("12 rows were lost."))
        self.assertEqual(self.value("document.querySelectorAll('#capture-1 .notice').length"), 0)
        states = self.value("[...document.querySelectorAll('.states')].map((n) => n.textContent)")
        self.assertEqual(states, ["complete", "not complete simulated"])


class Safety(Pages):
    def test_quiet(self):
        """Nothing is loaded but the file, and nothing is complained of."""
        for kind in KINDS:
            with self.subTest(kind):
                self.show(kind)
                self.settle()
                said = [event for event in self.browser.events if event["method"] in PROBLEMS]
                self.assertEqual(said, [])
                loaded = {event["params"]["request"]["url"] for event in self.browser.events
                          if event["method"] == "Network.requestWillBeSent"}
                self.assertEqual(loaded, {self.paths[kind].resolve().as_uri()})

    def test_hostile_names_are_text(self):
        self.show("hostile")
        self.assertEqual(self.value("document.title"), "Routing report: 2 captures")
        self.assertEqual(self.value("document.scripts.length"), 1)
        self.assertEqual(self.value("document.images.length"), 0)
        heading = self.value("document.querySelector('#capture-2 h2').textContent")
        self.assertTrue(heading.startswith("<script>document.title='taken'</script>\"><img src=x"), heading)
        self.assertIn("\ufffd\ufffd \ufffd</title>", heading)  # no UTF-8, and a line separator
        self.assertTrue(heading.endswith("\ufffdtxt"), heading)  # what would turn the direction of writing

    def test_policy_holds(self):
        """What might have slipped through escaping could do nothing."""
        self.show("hostile")
        blocked = self.browser.call("Runtime.evaluate", awaitPromise=True, returnByValue=True, expression="""
            new Promise((done) => {
              const blocked = [];
              addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
              document.body.insertAdjacentHTML("beforeend", `<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="
                onerror="document.title = 'taken'"><iframe src="data:text/html,x"></iframe><p style="color:red">`);
              const script = document.createElement("script");
              script.textContent = "document.title = 'taken'";
              document.body.append(script);
              fetch("data:,x").catch(() => setTimeout(() => done(blocked), 50));
            })""")["result"]["value"]
        for directive in ("img-src", "frame-src", "style-src-attr", "script-src-elem", "connect-src"):
            self.assertIn(directive, blocked)
        self.assertEqual(self.value("document.title"), "Routing report: 2 captures")


class Looks(Pages):
    def cells(self, kind="usual", **how):
        """Colours of the heatmap's cells on the screen, {colour: pixels}."""
        self.show(kind, height=1400, **how)
        box = self.value("""(() => {
          const box = document.querySelector(".heatmap .cells").getBoundingClientRect();
          return [box.left, box.top, box.width, box.height].map(Math.round);
        })()""")
        return png.Picture(self.browser.picture()).colours(*box, step=3)

    def test_heatmap(self):
        for dark in (False, True):
            with self.subTest(dark=dark):
                colours = self.cells(dark=dark)
                self.assertGreaterEqual(len(colours), 8)
                bright = sum(n for colour, n in colours.items() if png.luminance(colour) > 0.5)
                dim = sum(n for colour, n in colours.items() if png.luminance(colour) < 0.2)
                self.assertGreater(bright, 20)
                self.assertGreater(dim, 20)

    def test_dark_page_is_dark(self):
        for dark in (False, True):
            self.show("usual", dark=dark)
            edge = png.Picture(self.browser.picture()).pixel(3, 3)
            self.assertEqual(png.luminance(edge) < 0.1, dark)

    def colour(self, name):
        return tuple(self.value(f"""(() => {{
          const probe = document.createElement("i");
          probe.style.color = "var({name})";
          document.body.append(probe);
          const colour = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
          probe.remove();
          return colour;
        }})()"""))

    def test_contrast(self):
        """Texts can be read, and the colour scale goes one way on either side of even."""
        texts = [("--ink", "--page"), ("--ink", "--card"), ("--muted", "--page"), ("--muted", "--card"),
                 ("--accent", "--page"), ("--accent", "--card"), ("--warn", "--warn-page"), ("--bad", "--bad-page"),
                 ("--bad", "--page"), ("--ink", "--warn-page"), ("--ink", "--bad-page"), ("--card", "--accent"),
                 ("--on-strong", "--q0"), ("--on-strong", "--q8"), ("--on-half", "--q1"), ("--on-half", "--q7"),
                 ("--on-dead", "--dead")] + [("--ink", f"--q{i}") for i in range(2, 7)]
        for dark in (False, True):
            self.show("small", dark=dark)
            for text, page in texts:
                with self.subTest(text=text, page=page, dark=dark):
                    self.assertGreaterEqual(png.contrast(self.colour(text), self.colour(page)), 4.5)
            scale = [png.luminance(self.colour(f"--q{i}")) for i in range(9)]
            middle = 4
            cold, hot = scale[middle::-1], scale[middle:]
            for side in (cold, hot):
                self.assertEqual(side, sorted(side, reverse=not dark), f"dark={dark}")
            for step in range(9):
                self.assertGreaterEqual(png.contrast(self.colour("--dead"), self.colour(f"--q{step}")), 1.6)

    def test_no_sideways_scrolling(self):
        for kind in KINDS:
            for width in (320, 360, 768, 1280):
                with self.subTest(kind=kind, width=width):
                    self.show(kind, width=width, height=740)
                    self.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
                    self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)

    def test_paper(self):
        self.show("hostile", dark=True, media="print")
        self.assertEqual(self.value("getComputedStyle(document.querySelector('.choice')).display"), "none")
        self.assertGreater(png.luminance(self.colour("--card")), 0.9)
        wide = self.value("[...document.querySelectorAll('svg')].filter((s) => s.getBoundingClientRect().right > innerWidth).length")
        self.assertEqual(wide, 0)


class Use(Pages):
    TIP = "(() => { const tip = document.querySelector('.tip'); return tip.hidden ? null : tip.textContent; })()"

    def point_at(self, row, expert):
        self.value("document.querySelector('.heatmap').scrollIntoView()")
        self.settle()
        x, y = self.value(f"""(() => {{
          const svg = document.querySelector(".heatmap");
          const box = svg.getBoundingClientRect(), d = svg.dataset;
          return [box.left + Number(d.left) + ({expert} + 0.5) * d.cellWidth,
                  box.top + Number(d.top) + ({row} + 0.5) * d.cellHeight];
        }})()""")
        self.browser.point(x, y)

    def test_pointer(self):
        for kind, row, expert in (("usual", 3, 17), ("large", 93, 511), ("small", 1, 7)):
            with self.subTest(kind):
                self.show(kind)
                counts = self.table("Slots that went to each expert")[row + 1]
                self.point_at(row, expert)
                loads = [number(text) for text in counts[1:]]
                share = loads[expert] / sum(loads)
                self.assertEqual(self.value(self.TIP), f"layer {counts[0]}, expert {expert}\n{counts[expert + 1]} slots, "
                                 f"{shown(100 * share)}% of the layer\n{shown(share * len(loads))}× an even load")
                marked = self.value("[...document.querySelectorAll('.on')].map((one) => one.dataset.row)")
                self.assertEqual(marked, [str(row)] * 4)  # two charts, two curves
                self.browser.point(2, 2)
                self.assertIsNone(self.value(self.TIP))

    def test_keyboard(self):
        self.show("usual")
        self.value("document.querySelector('.heatmap').focus()")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowRight"):
            self.browser.press(key)
        self.assertTrue(self.value(self.TIP).startswith("layer 1, expert 2\n"), self.value(self.TIP))
        self.browser.press("Escape")
        self.assertIsNone(self.value(self.TIP))

    def test_keyboard_scrolls_along(self):
        """On a narrow screen, the cell that keys chose stays in sight, and so do its numbers."""
        self.show("usual", width=360, height=500)
        self.value("document.querySelector('.heatmap').focus({preventScroll: true})")
        for key in ["ArrowRight"] * 61 + ["ArrowDown"] * 40:
            self.browser.press(key)
        self.settle()
        self.assertTrue((self.value(self.TIP) or "").startswith("layer 40, expert 60\n"), self.value(self.TIP))
        inside = self.value("""[".heatmap .cursor", ".tip"].map((name) => {
          const box = document.querySelector(name).getBoundingClientRect();
          return box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
        })""")
        self.assertEqual(inside, [True, True])

    def test_choice(self):
        self.show("hostile")
        visible = "[...document.querySelectorAll('.capture')].filter((one) => one.offsetHeight > 0).map((one) => one.id)"
        self.assertEqual(self.value(visible), ["capture-1", "capture-2"])
        for link, want in ((2, ["capture-2"]), (1, ["capture-1"]), (0, ["capture-1", "capture-2"])):
            self.browser.events.clear()
            self.value(f"document.querySelectorAll('.choice a')[{link}].click()")
            self.settle()
            self.assertEqual(self.value(visible), want)
            self.assertEqual(self.value(f"document.querySelectorAll('.choice a')[{link}].ariaCurrent"), "true")

    def test_without_script(self):
        """Pictures and tables are all there."""
        for kind in ("usual", "hostile"):
            self.show(kind, script=False, height=1400)
            picture = png.Picture(self.browser.picture())
            self.assertGreaterEqual(len(picture.colours(step=3)), 12)
            document = self.browser.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
            for selector, least in (("svg.heatmap .cells path", 5), (".chart circle", 4), (".curves polyline", 4),
                                    ("table.counts td", 32), ("details:not([open])", 5)):
                found = self.browser.call("DOM.querySelectorAll", nodeId=document, selector=selector)["nodeIds"]
                self.assertGreaterEqual(len(found), least, selector)


def make_page(options, kind, folder):
    page = pathlib.Path(folder, f"{kind}.html")
    subprocess.run([options.sample, kind, str(page)], check=True)
    return page


def write_picture(options, chromium, folder):
    chromium.show(options.page or make_page(options, "usual", folder), width=1280, height=1290)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_bytes(png.with_palette(chromium.picture()))
    print(f"wrote {options.picture}: {options.picture.stat().st_size:,} bytes")


def run_tests(options, chromium, folder, arguments):
    Pages.browser = chromium
    Pages.paths = {kind: make_page(options, kind, folder) for kind in KINDS}
    Pages.texts = {kind: path.read_text(encoding="utf-8") for kind, path in Pages.paths.items()}
    return unittest.main(argv=[sys.argv[0], *arguments], verbosity=2, exit=False).result.wasSuccessful()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", default=str(ROOT / "build/test/bin/report_sample"), help="the program report_sample")
    parser.add_argument("--browser", help="program of the browser; else " + " or ".join(browser.PROGRAMS))
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE", help="write the picture of the documents instead")
    parser.add_argument("--page", type=pathlib.Path, help="with --picture: of this report instead of a sample")
    options, rest = parser.parse_known_args()
    try:
        with tempfile.TemporaryDirectory(prefix="moert-report-") as folder, browser.Browser(options.browser) as chromium:
            if options.picture:
                write_picture(options, chromium, folder)
            elif not run_tests(options, chromium, folder, rest):
                sys.exit(1)
    except browser.BrowserError as error:
        sys.exit(f"FAILED: {error}")
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"FAILED: no samples: {error}")


if __name__ == "__main__":
    main()
