// SPDX-License-Identifier: Apache-2.0
#include "report/svg.hpp"

namespace moert::report {

std::string element(std::string_view name, std::initializer_list<Attribute> attributes,
                    std::string_view content) {
  std::string markup = "<";
  markup += name;
  for (const Attribute& attribute : attributes) {
    markup += ' ';
    markup += attribute.name;
    markup += "=\"";
    markup += attribute.value;
    markup += '"';
  }
  if (content.empty()) return markup += "/>";
  markup += '>';
  markup += content;
  markup += "</";
  markup += name;
  return markup += '>';
}

std::string label(double x, double y, const char* anchor, std::string_view text) {
  return element("text", {{"x", x}, {"y", y}, {"text-anchor", anchor}}, text);
}

std::string view_box(double width, double height) { return "0 0 " + point(width, height); }

std::string point(double x, double y) { return coordinate(x) + " " + coordinate(y); }

}  // namespace moert::report
