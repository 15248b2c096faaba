// Markup of the report. A std::string here is markup, unless it came from a file: then escape() first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moert::report {

// A text for the page or a quoted attribute. Bytes that are no UTF-8, control characters and characters
// that turn the direction of what follows become U+FFFD; line breaks and tabs become blanks.
std::string escape(std::string_view text);

struct Column {
  std::string_view name;
  bool text = false;           // else a number, aligned to the right
  std::string_view note = {};  // what it means, shown to a pointer that rests on it
};

// A table that scrolls sideways by itself where the page is too narrow. The first cell of a row is its heading.
class Table {
 public:
  Table(std::string_view caption, const std::vector<Column>& columns,
        std::string_view css_class = {});
  void row(const std::vector<std::string>& cells, const std::string& attributes = {});
  bool empty() const { return rows_ == 0; }
  std::string take();

 private:
  std::string caption_;
  std::vector<bool> text_;
  std::string markup_;
  size_t rows_ = 0;
};

// What is folded away until asked for.
std::string details(const std::string& summary, const std::string& body);
// A part of a capture, with its heading and one sentence that says how to read it.
std::string part(const std::string& heading, const std::string& lead, const std::string& body);
// Something wide that scrolls by itself; `label` names it for those who cannot see it.
std::string scrolling(const std::string& label, const std::string& body);

}  // namespace moert::report
