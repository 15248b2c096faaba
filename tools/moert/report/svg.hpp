// Elements of pictures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "report/numbers.hpp"

namespace moert::report {

// Name and value; a number is written as a coordinate.
struct Attribute {
  Attribute(std::string_view key, std::string text) : name(key), value(std::move(text)) {}
  Attribute(std::string_view key, const char* text) : name(key), value(text) {}
  template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
  Attribute(std::string_view key, Number number)
      : name(key), value(coordinate(static_cast<double>(number))) {}

  std::string_view name;
  std::string value;
};

// Without content the element closes itself, which HTML takes inside pictures only.
std::string element(std::string_view name, std::initializer_list<Attribute> attributes,
                    std::string_view content = {});
// A text whose base line is at y; `anchor` is "start", "middle" or "end".
std::string label(double x, double y, const char* anchor, std::string_view text);
// Of an svg element that shows all from (0, 0).
std::string view_box(double width, double height);
// Of a path or a polyline: "x y".
std::string point(double x, double y);

}  // namespace moert::report
