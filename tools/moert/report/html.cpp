// SPDX-License-Identifier: Apache-2.0
#include "report/html.hpp"

#include <cstdint>

namespace moert::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr uint32_t kNoCharacter = 0xFFFFFFFF;

struct Character {
  uint32_t code;
  size_t bytes;
};

// The character at the begin of `text`; kNoCharacter and one byte where there is none.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 && lead < 0xF5   ? 4
                       : lead >= 0xE0 && lead < 0xF0 ? 3
                       : lead >= 0xC2 && lead < 0xE0 ? 2
                                                     : 0;
  if (bytes == 0 || text.size() < bytes) return {kNoCharacter, 1};
  uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {kNoCharacter, 1};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? Character{kNoCharacter, 1}
                                                  : Character{code, bytes};
}

bool shown(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool line = code == 0x2028 || code == 0x2029;
  const bool direction = code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                         (code >= 0x2066 && code <= 0x2069);
  const bool none =
      (code >= 0xFDD0 && code <= 0xFDEF) || (code & 0xFFFE) == 0xFFFE;  // kNoCharacter too
  return !control && !line && !direction && !none;
}

void escape_ascii(char c, std::string& markup) {
  switch (c) {
    case '&': markup += "&amp;"; break;
    case '<': markup += "&lt;"; break;
    case '>': markup += "&gt;"; break;
    case '"': markup += "&quot;"; break;
    case '\'': markup += "&#39;"; break;
    case '\t':
    case '\n':
    case '\r': markup += ' '; break;
    default:
      markup += shown(static_cast<unsigned char>(c)) ? std::string_view(&c, 1) : kReplacement;
  }
}

}  // namespace

std::string escape(std::string_view text) {
  std::string markup;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.code < 0x80)
      escape_ascii(text.front(), markup);
    else
      markup += shown(character.code) ? text.substr(0, character.bytes) : kReplacement;
    text.remove_prefix(character.bytes);
  }
  return markup;
}

// End tags of rows and cells are left out, as HTML allows: a table of all counts is a third smaller.
Table::Table(std::string_view caption, const std::vector<Column>& columns,
             std::string_view css_class)
    : caption_(caption), markup_("<table") {
  if (!css_class.empty()) markup_ += " class=\"" + std::string(css_class) + "\"";
  markup_ += "><caption>" + caption_ + "</caption><thead><tr>";
  for (const Column& column : columns) {
    text_.push_back(column.text);
    markup_ += column.text ? "<th scope=\"col\" class=\"text\"" : "<th scope=\"col\"";
    if (!column.note.empty()) markup_ += " title=\"" + std::string(column.note) + "\"";
    markup_ += ">" + std::string(column.name);
  }
  markup_ += "</thead><tbody>";
}

void Table::row(const std::vector<std::string>& cells, const std::string& attributes) {
  markup_ += "\n<tr" + attributes;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool text = i < text_.size() && text_[i];
    markup_ += i == 0 ? "><th scope=\"row\"" : "<td";
    markup_ += text ? " class=\"text\">" : ">";
    markup_ += cells[i];
  }
  ++rows_;
}

std::string Table::take() { return scrolling(caption_, std::move(markup_) + "</tbody></table>"); }

std::string details(const std::string& summary, const std::string& body) {
  return "<details><summary>" + summary + "</summary>" + body + "</details>\n";
}

std::string part(const std::string& heading, const std::string& lead, const std::string& body) {
  return "<section class=\"part\"><h3>" + heading + "</h3><p class=\"lead\">" + lead + "</p>\n" +
         body + "</section>\n";
}

std::string scrolling(const std::string& label, const std::string& body) {
  return "<div class=\"scroll\" role=\"region\" aria-label=\"" + label + "\" tabindex=\"0\">" +
         body + "</div>\n";
}

}  // namespace moert::report
