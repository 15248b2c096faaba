// SPDX-License-Identifier: Apache-2.0
#include "text_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

namespace moert::tool {

namespace {

// Code points: what a terminal shows as one column for all names met here.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  }));
}

std::string formatted(const char* format, int digits, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, digits, value);
  return text;
}

std::string scaled(double value, const std::vector<const char*>& units, double step) {
  size_t unit = 0;
  while (unit + 1 < units.size() && std::fabs(value) >= step) {
    value /= step;
    ++unit;
  }
  const int digits = unit == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return fixed(value, digits) + " " + units[unit];
}

}  // namespace

TextTable::TextTable(std::vector<std::string> columns) {
  for (std::string& name : columns) {
    const bool right = name.starts_with('>');
    if (right) name.erase(0, 1);
    columns_.push_back({name, right, width_of(name)});
  }
}

void TextTable::add(std::vector<Cell> row) {
  row.resize(columns_.size(), Cell(""));
  for (size_t i = 0; i < row.size(); ++i) {
    row[i].text = row[i].text.empty() ? "-" : printable(row[i].text);
    columns_[i].width = std::max(columns_[i].width, width_of(row[i].text));
  }
  rows_.push_back(std::move(row));
}

std::string TextTable::padded(const std::string& text, const Column& column, bool last) const {
  const std::string blanks(column.width - std::min(column.width, width_of(text)), ' ');
  if (column.right) return blanks + text;
  return last ? text : text + blanks;
}

void TextTable::print(Console& console, const std::string& indent) const {
  std::string head = indent, rule = indent;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const bool last = i + 1 == columns_.size();
    head += console.bold(padded(columns_[i].name, columns_[i], last)) + (last ? "" : "  ");
    rule += std::string(columns_[i].width, '-') + (last ? "" : "  ");
  }
  console.line(head);
  console.line(rule);
  for (const std::vector<Cell>& row : rows_) {
    std::string text = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      const std::string cell = padded(row[i].text, columns_[i], last);
      text += row[i].paint == Cell::good  ? console.good(cell)
              : row[i].paint == Cell::bad ? console.bad(cell)
                                          : cell;
      if (!last) text += "  ";
    }
    console.line(text);
  }
}

std::string fixed(double value, int digits) { return formatted("%.*f", digits, value); }

std::string significant(double value, int digits) { return formatted("%.*e", digits - 1, value); }

std::string bytes_text(uint64_t bytes) {
  return scaled(static_cast<double>(bytes), {"B", "kB", "MB", "GB", "TB"}, 1000);
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fixed(seconds, 2) + " s";
  return scaled(seconds * 1e9, {"ns", "us", "ms"}, 1000);
}

std::string ranges_text(const std::vector<int64_t>& rising) {
  std::string text;
  for (size_t i = 0; i < rising.size();) {
    size_t end = i + 1;
    while (end < rising.size() && rising[end] == rising[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(rising[i]);
    if (end > i + 1) text += (end == i + 2 ? ", " : "-") + std::to_string(rising[end - 1]);
    i = end;
  }
  return text;
}

std::string count_text(uint64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string path_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) return path;
  const std::filesystem::path relative = std::filesystem::path(path).lexically_relative(here);
  return relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

}  // namespace moert::tool
