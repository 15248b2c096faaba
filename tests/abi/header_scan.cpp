// Reads the ABI headers as text. Strict: a construct that is not known here is an error.
// SPDX-License-Identifier: Apache-2.0
#include "header_scan.hpp"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace moert::abi_scan {
namespace {

[[noreturn]] void fail(const std::string& header, const std::string& why, const std::string& text) {
  throw std::runtime_error(header + ": " + why + ": " + text.substr(0, 120));
}

// One blank for every run of white space, none at the ends.
std::string squeezed(const std::string& text) {
  const std::string out = std::regex_replace(text, std::regex("\\s+"), " ");
  return std::regex_replace(out, std::regex("^ | $"), "");
}

// The text without comments; `comments` gets the end position and text of each (positions are those
// of the result).
std::string without_comments(const std::string& text,
                             std::vector<std::pair<size_t, std::string>>& comments) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "/*") != 0) {
      out += text[i++];
      continue;
    }
    const size_t end = text.find("*/", i);
    if (end == std::string::npos) throw std::runtime_error("a comment without an end");
    comments.emplace_back(out.size(), text.substr(i, end + 2 - i));
    i = end + 2;
  }
  return out;
}

// Takes preprocessor lines out, with their continuations, and keeps what matters of them. Lengths stay
// the same, so that positions do.
void take_preprocessor(std::string& text, Header& header) {
  static const std::regex define("#define (MOERT_\\w+) +(\\S.*?) *");
  static const std::regex include("#include (\\S+) *");
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (text[begin] == '#') {
      std::smatch match;
      const std::string line = text.substr(begin, end - begin);
      while (end > begin && end < text.size() && text[end - 1] == '\\') {
        end = text.find('\n', end + 1);
        if (end == std::string::npos) end = text.size();
      }
      if (std::regex_match(line, match, include)) header.includes.push_back(match[1]);
      if (std::regex_match(line, match, define) && line.back() != '\\' &&
          match[1].str().rfind("MOERT_BUILD_", 0) != 0)
        header.macros.push_back({match[1], match[2]});
      std::fill(text.begin() + static_cast<long>(begin), text.begin() + static_cast<long>(end),
                ' ');
    }
    begin = end + 1;
  }
}

// Parts between separators that stand outside of all brackets; white space squeezed, empty ones left out.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text + separator) {
    depth += (c == '(' || c == '{' || c == '[') ? 1 : (c == ')' || c == '}' || c == ']') ? -1 : 0;
    if (c == separator && depth == 0) {
      part = squeezed(part);
      if (!part.empty()) parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (depth != 0) throw std::runtime_error("brackets do not match in: " + text.substr(0, 80));
  return parts;
}

void add_members(Struct& to, const std::string& declaration, const std::string& header) {
  static const std::regex function("([\\w* ]+?) ?\\(\\*(\\w+)\\)(\\(.*\\))");
  static const std::regex plain("([\\w* ]+[ *])(\\w+)(\\[\\w+\\])?");
  static const std::regex further("(\\w+)(\\[\\w+\\])?");
  std::smatch match;
  if (std::regex_match(declaration, match, function)) {
    to.members.push_back({match[2], match[1].str() + " (*)" + match[3].str()});
    return;
  }
  std::string type;
  for (const std::string& part : split(declaration, ',')) {
    const bool first = type.empty();
    if (!std::regex_match(part, match, first ? plain : further))
      fail(header, "a member of " + to.name + " is not understood", part);
    if (first) type = squeezed(match[1].str());
    to.members.push_back({match[first ? 2 : 1], type + match[first ? 3 : 2].str()});
  }
}

Struct read_struct(const std::string& declaration, const std::string& header) {
  static const std::regex form("typedef struct (\\w+) \\{(.*)\\} (\\w+)");
  std::smatch match;
  if (!std::regex_match(declaration, match, form) || match[3].str() != match[1].str() + "_t")
    fail(header, "expected 'typedef struct NAME {...} NAME_t'", declaration);
  Struct out;
  out.name = match[1];
  for (const std::string& member : split(match[2].str(), ';')) add_members(out, member, header);
  if (out.members.empty()) fail(header, "a struct without members", out.name);
  return out;
}

void read_enum(const std::string& declaration, Header& header) {
  const size_t open = declaration.find('{'), close = declaration.rfind('}');
  for (const std::string& part : split(declaration.substr(open + 1, close - open - 1), ',')) {
    const std::string name = part.substr(0, part.find(' '));
    if (name.rfind("MOERT_", 0) != 0) fail(header.name, "an enumerator without MOERT_", part);
    header.enumerators.push_back(name);
  }
}

void read_declaration(const std::string& text, const std::string& comment, Header& header) {
  static const std::regex forward("struct \\w+");
  static const std::regex simple("typedef [^{]+");
  if (text.rfind("typedef struct ", 0) == 0 && text.find('{') != std::string::npos) {
    header.structs.push_back(read_struct(text, header.name));
    header.structs.back().comment = comment;
  } else if (text.rfind("enum {", 0) == 0) {
    read_enum(text, header);
  } else if (!std::regex_match(text, forward) && !std::regex_match(text, simple)) {
    fail(header.name, "a declaration is not understood", text);
  }
}

}  // namespace

Header scan(const std::filesystem::path& file) {
  Header header;
  header.name = file.filename().string();
  std::ostringstream whole;
  whole << std::ifstream(file).rdbuf();
  header.text = whole.str();

  std::vector<std::pair<size_t, std::string>> comments;
  std::string text = without_comments(header.text, comments);
  take_preprocessor(text, header);
  // extern "C" { ... } under __cplusplus: the opening line and the brace that closes it.
  const std::string open = "extern \"C\" {";
  const size_t at = text.find(open), last = text.rfind('}');
  if (at == std::string::npos || last == std::string::npos)
    fail(header.name, "no extern \"C\" block", header.text);
  text.replace(at, open.size(), open.size(), ' ');
  text[last] = ' ';

  for (size_t begin = 0, i = 0, depth = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
    if (text[i] != ';' || depth != 0) continue;
    const size_t start = text.find_first_not_of(" \n", begin);
    std::string comment;
    for (const auto& [end, words] : comments)
      if (end >= begin && end <= start) comment = words;
    read_declaration(squeezed(text.substr(start, i - start)), comment, header);
    begin = i + 1;
  }
  return header;
}

std::vector<Header> scan_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".h") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Header> headers;
  for (const auto& file : files) headers.push_back(scan(file));
  return headers;
}

}  // namespace moert::abi_scan
