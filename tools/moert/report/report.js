// What the page can do besides showing: naming the cell under the pointer, and showing one capture alone.
// Every number that it says is read from the tables.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);

  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const right = document.documentElement.clientWidth - width - 8;
    const above = y - height - 14;
    tip.style.left = `${Math.max(8, Math.min(x + 14, right))}px`;
    tip.style.top = `${above < 8 ? y + 18 : above}px`;
  }

  function hideTip() {
    tip.hidden = true;
  }

  function showTipAt(cell, text) {
    const box = cell.getBoundingClientRect();
    showTip(text, box.right, box.top);
  }

  // Three significant digits, as the tables have them.
  function numberText(value) {
    if (value === 0) return "0";
    const exponent = Number(value.toExponential(2).split("e")[1]);
    const digits = Math.max(0, 2 - exponent);
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  // One layer of a capture stands out in all its pictures; -1: none.
  function markLayer(capture, row) {
    for (const part of capture.querySelectorAll(".curves [data-row], .chart [data-row]"))
      part.classList.toggle("on", Number(part.dataset.row) === row);
  }

  function cellText(tableRow, expert) {
    const cell = tableRow.cells[expert + 1];
    const layer = tableRow.cells[0].textContent.trim();
    const slots = Number(tableRow.dataset.slots);
    if (!cell || slots === 0) return `layer ${layer}: no decisions`;
    const count = Number(cell.textContent.replaceAll(",", ""));
    const share = count / slots;
    const even = share * (tableRow.cells.length - 1);
    return `layer ${layer}, expert ${expert}\n${cell.textContent.trim()} slots, ` +
      `${numberText(100 * share)}% of the layer\n${numberText(even)}× an even load`;
  }

  class Heatmap {
    constructor(svg, capture) {
      this.svg = svg;
      this.capture = capture;
      this.rows = capture.querySelector("table.counts").tBodies[0].rows;
      this.row = -1;
      this.expert = -1;
      for (const name of ["left", "top", "cellWidth", "cellHeight"]) this[name] = Number(svg.dataset[name]);
      this.cursor = document.createElementNS(svg.namespaceURI, "rect");
      this.cursor.setAttribute("class", "cursor");
      this.cursor.setAttribute("visibility", "hidden");
      this.around = this.cellWidth < 8 ? 3 : 0;  // what is smaller than its own frame would not be seen
      this.cursor.setAttribute("width", this.cellWidth + 2 * this.around);
      this.cursor.setAttribute("height", this.cellHeight + 2 * this.around);
      svg.append(this.cursor);
      svg.tabIndex = 0;
      const hint = svg.closest("figure").querySelector(".hint");
      hint.textContent = "Point at a cell, or press the arrow keys in the picture, for its numbers.";
      svg.addEventListener("pointermove", (event) => this.point(event));
      svg.addEventListener("pointerdown", (event) => this.point(event));
      svg.addEventListener("pointerleave", () => this.leave());
      svg.addEventListener("blur", () => this.leave());
      svg.addEventListener("keydown", (event) => this.key(event));
    }

    point(event) {
      const box = this.svg.getBoundingClientRect();
      const scale = this.svg.viewBox.baseVal.width / box.width;
      const expert = Math.floor(((event.clientX - box.left) * scale - this.left) / this.cellWidth);
      const row = Math.floor(((event.clientY - box.top) * scale - this.top) / this.cellHeight);
      this.byKey = false;
      if (this.choose(row, expert)) showTip(this.text, event.clientX, event.clientY);
      else this.leave();
    }

    key(event) {
      const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (event.key === "Escape") this.leave();
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      const first = this.row < 0;
      this.choose(first ? 0 : this.row + step[0], first ? 0 : this.expert + step[1]);
      this.byKey = true;
      this.cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
      showTipAt(this.cursor, this.text);
    }

    choose(row, expert) {
      const tableRow = this.rows[row];
      if (!tableRow || expert < 0 || expert >= tableRow.cells.length - 1) return false;
      if (row !== this.row) markLayer(this.capture, row);
      this.row = row;
      this.expert = expert;
      this.text = cellText(tableRow, expert);
      this.cursor.setAttribute("x", this.left + expert * this.cellWidth - this.around);
      this.cursor.setAttribute("y", this.top + row * this.cellHeight - this.around);
      this.cursor.setAttribute("visibility", "visible");
      return true;
    }

    // The tip stays with a cell that keys chose; a pointer is over another one now.
    scrolled() {
      if (this.row < 0) return;
      if (this.byKey) showTipAt(this.cursor, this.text);
      else this.leave();
    }

    leave() {
      hideTip();
      this.row = -1;
      this.cursor.setAttribute("visibility", "hidden");
      markLayer(this.capture, -1);
    }
  }

  const heatmaps = [...document.querySelectorAll("svg.heatmap")].map((svg) => new Heatmap(svg, svg.closest(".capture")));
  // Of the page and of what scrolls inside it: scroll events do not bubble.
  addEventListener("scroll", () => heatmaps.forEach((heatmap) => heatmap.scrolled()), { capture: true, passive: true });

  // The address says which capture is shown: a link to one can be handed on, and "back" works.
  const links = document.querySelectorAll(".choice a");
  function choose() {
    const wanted = document.getElementById(location.hash.slice(1));
    const alone = wanted && wanted.classList.contains("capture") ? wanted : null;
    for (const section of document.querySelectorAll(".capture, .comparison"))
      section.hidden = alone !== null && section !== alone;
    for (const link of links) {
      if (link.hash === (alone ? `#${alone.id}` : "#top")) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (alone) alone.scrollIntoView();
  }
  if (links.length > 0) {
    addEventListener("hashchange", choose);
    choose();
  }
})();
