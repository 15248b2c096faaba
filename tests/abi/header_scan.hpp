// Reads the ABI headers as text: structs with their members, enumerators, plain macros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moert::abi_scan {

struct Member {
  std::string name;
  std::string
      type;  // as written, in one line: "const int64_t*", "char[64]", "void (*)(void* self)"
};

struct Struct {
  std::string name;     // without _t
  std::string comment;  // the comment that ends directly above it, or empty
  std::vector<Member> members;
};

struct Macro {
  std::string name, value;
};

struct Header {
  std::string name;  // file name: "router.h"
  std::string text;
  std::vector<std::string> includes;  // as written: "<moert/abi/problem.h>"
  std::vector<Macro> macros;          // object-like, with a value, not MOERT_BUILD_*
  std::vector<std::string> enumerators;
  std::vector<Struct> structs;
};

// The subset of C that the headers are written in is small. Whatever falls outside of it throws
// std::runtime_error naming the header and the text, so nothing is skipped in silence.
Header scan(const std::filesystem::path& file);

// Every *.h of a folder, by name.
std::vector<Header> scan_folder(const std::filesystem::path& folder);

}  // namespace moert::abi_scan
