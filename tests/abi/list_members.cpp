// list_members FOLDER FILE: writes what layout.c prints, from the headers in FOLDER, to FILE.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <fstream>
#include <iostream>

#include "header_scan.hpp"

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += (c == '"' || c == '\\') ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}

void write(const std::vector<moert::abi_scan::Header>& headers, std::ostream& out) {
  out << "#ifdef LAYOUT_INCLUDES\n";
  for (const auto& header : headers) out << "#include <moert/abi/" << header.name << ">\n";
  out << "#else\n";
  for (const auto& header : headers) {
    out << "HEADER(" << quoted(header.name) << ")\n";
    for (const auto& macro : header.macros)
      out << "MACRO(" << quoted(macro.name) << ", " << quoted(macro.value) << ")\n";
    for (const auto& name : header.enumerators) out << "CONSTANT(" << name << ")\n";
    for (const auto& record : header.structs) {
      out << "STRUCT(" << record.name << ")\n";
      for (const auto& member : record.members)
        out << "MEMBER(" << record.name << ", " << member.name << ", " << quoted(member.type)
            << ")\n";
      out << "END(" << record.name << ")\n";
    }
  }
  out << "#endif\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: list_members FOLDER FILE\n";
    return 2;
  }
  try {
    std::ofstream out(argv[2]);
    write(moert::abi_scan::scan_folder(argv[1]), out);
    return out.flush() ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
