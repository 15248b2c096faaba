// Tables for people: aligned columns under a header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "console.hpp"

namespace moert::tool {

struct Cell {
  enum Paint { plain, good, bad };
  Cell(std::string content) : text(std::move(content)) {}  // NOLINT: a text is a cell
  Cell(const char* content) : text(content) {}             // NOLINT: a text is a cell
  Cell(std::string content, Paint colour) : text(std::move(content)), paint(colour) {}
  std::string text;
  Paint paint = plain;
};

// Columns whose name begins with '>' are aligned to the right. An empty cell is shown as "-".
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> columns);
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  void print(Console& console, const std::string& indent = {}) const;

 private:
  struct Column {
    std::string name;
    bool right = false;
    size_t width = 0;
  };
  std::string padded(const std::string& text, const Column& column, bool last) const;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Numbers as they are shown. fixed(1.25, 1) is "1.2"; significant(0.00123, 2) is "1.2e-03".
std::string fixed(double value, int digits);
std::string significant(double value, int digits);
std::string bytes_text(uint64_t bytes);                       // "1.4 MB"
std::string seconds_text(double seconds);                     // "12.3 ms"
std::string ranges_text(const std::vector<int64_t>& rising);  // "0-5, 7"
// "1 layer", "2 layers"
std::string count_text(uint64_t count, const std::string& thing);
// Relative to the working directory where it lies below it.
std::string path_text(const std::string& path);

}  // namespace moert::tool
