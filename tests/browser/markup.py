"""What a page of HTML is made of: whether its tags nest, its tables, its addresses. Standard library only."""
import html.parser

VOID = {"meta", "br", "img", "link", "input", "hr"}
# An open one of these ends where one of those begins, or where its parent ends.
ENDS_AT = {"td": {"td", "th", "tr", "tbody"}, "th": {"td", "th", "tr", "tbody"}, "tr": {"tr", "tbody"}}
# What may not stand inside a paragraph.
BLOCKS = {"p", "div", "section", "table", "dl", "ul", "figure", "h1", "h2", "h3", "details", "nav", "main"}


class Markup(html.parser.HTMLParser):
    """Reads a page; `faults` has a line for each thing that is not as it should be."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.elements, self.ids = [], [], [], set()
        self.tables = []  # each: rows of texts
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def fault(self, what):
        self.faults.append(f"line {self.getpos()[0]}: {what}")

    def _begin(self, tag, attributes):
        while self.open and tag in ENDS_AT.get(self.open[-1], ()):
            self.open.pop()
        if tag in BLOCKS and "p" in self.open:
            self.fault(f"<{tag}> inside <p>")
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.fault(f"<{tag}> has an attribute twice")
        values = dict(attributes)
        if values.get("id") in self.ids:
            self.fault(f"id {values['id']} stands twice")
        if "id" in values:
            self.ids.add(values["id"])
        if any(name.startswith("on") or name == "style" for name in names):
            self.fault(f"<{tag}> has a style or script of its own, which the page's policy forbids")
        self.elements.append((tag, values))

    def handle_starttag(self, tag, attributes):
        self._begin(tag, attributes)
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attributes):
        if "svg" not in self.open:
            self.fault(f"<{tag}/> outside of a picture")
        self._begin(tag, attributes)

    def handle_endtag(self, tag):
        while self.open and self.open[-1] != tag and self.open[-1] in ENDS_AT:
            self.open.pop()
        if not self.open or self.open[-1] != tag:
            self.fault(f"</{tag}> closes <{self.open[-1] if self.open else ''}>")
        else:
            self.open.pop()

    def handle_data(self, data):
        if "td" in self.open[-3:] or "th" in self.open[-3:]:
            self.tables[-1][-1][-1] += data.rstrip("\n")
