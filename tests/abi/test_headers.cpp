// The rules that the ABI headers give themselves: names, growth, and what they may include.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "header_scan.hpp"

namespace {

namespace fs = std::filesystem;
using moert::abi_scan::Header;

const fs::path kInclude = fs::path(MOERT_SOURCE_DIR) / "core/include/moert";

// Headers that describe no kind of layer or service. Every other one must define a kind.
const std::set<std::string> kCommon = {"capture_segment.h", "entry.h",  "host.h",
                                       "problem.h",         "status.h", "tensor.h"};

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::vector<std::string> header_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kInclude / "abi"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class AbiHeader : public testing::TestWithParam<std::string> {
 protected:
  const Header header_ = moert::abi_scan::scan(kInclude / "abi" / GetParam());
  const std::string stem_ = fs::path(GetParam()).stem().string();
};

// routed_experts.h <-> moert_routed_experts_t <-> "moert.routed_experts/1"
TEST_P(AbiHeader, KindFollowsFromTheFileName) {
  std::vector<moert::abi_scan::Macro> kinds;
  for (const auto& macro : header_.macros)
    if (macro.name.rfind("MOERT_KIND_", 0) == 0) kinds.push_back(macro);
  if (kCommon.count(GetParam()) != 0) {
    EXPECT_TRUE(kinds.empty()) << "a header of common things defines " << kinds.front().name;
    return;
  }
  ASSERT_EQ(kinds.size(), 1u) << "a header describes one kind";
  EXPECT_EQ(kinds[0].name, "MOERT_KIND_" + upper(stem_));
  EXPECT_EQ(kinds[0].value, "\"moert." + stem_ + "/1\"");
  const auto table =
      std::find_if(header_.structs.begin(), header_.structs.end(),
                   [&](const auto& record) { return record.name == "moert_" + stem_; });
  ASSERT_NE(table, header_.structs.end()) << "no table moert_" << stem_ << "_t";
  EXPECT_TRUE(std::any_of(table->members.begin(), table->members.end(), [](const auto& member) {
    return member.type.find("(*)") != std::string::npos;
  })) << "the table has no functions";
}

// Every kind has a C++ side under the same name that is bound to it.
TEST_P(AbiHeader, SdkHeaderServesTheKind) {
  if (kCommon.count(GetParam()) != 0) return;
  const fs::path file = kInclude / "sdk" / (stem_ + ".hpp");
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_NE(text.str().find("id = MOERT_KIND_" + upper(stem_)), std::string::npos) << file;
}

// What grows begins with struct_size; what never grows says so.
TEST_P(AbiHeader, StructsCanGrowOrAreFrozen) {
  for (const auto& record : header_.structs) {
    if (record.name == "moert_note_desc") {  // its own size comes first under the note's word
      EXPECT_EQ(record.members[0].name, "desc_size");
      continue;
    }
    std::string comment = record.comment;
    std::transform(comment.begin(), comment.end(), comment.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (comment.find("frozen") != std::string::npos) continue;
    EXPECT_EQ(record.members[0].name, "struct_size") << record.name;
    EXPECT_EQ(record.members[0].type, "uint32_t") << record.name;
  }
}

// A growable struct inside another one, or in an array, could not grow: they travel by pointer.
TEST_P(AbiHeader, GrowableStructsTravelByPointer) {
  const std::set<std::string> by_value = {"moert_code_t", "moert_device_id_t"};
  for (const auto& record : header_.structs)
    for (const auto& member : record.members) {
      if (member.type.rfind("moert_", 0) != 0 || member.type.find('*') != std::string::npos)
        continue;
      EXPECT_EQ(by_value.count(member.type), 1u)
          << record.name << "." << member.name << " is a " << member.type << " by value";
    }
}

// Types of fixed size only: no C enum, bool, long or size_t crosses the border.
TEST_P(AbiHeader, MembersHaveTypesOfFixedSize) {
  const std::set<std::string> plain = {"uint8_t",  "int32_t", "uint32_t", "int64_t",
                                       "uint64_t", "double",  "char"};
  for (const auto& record : header_.structs)
    for (const auto& member : record.members) {
      const std::string type = member.type.substr(0, member.type.find('['));
      if (type.find('*') != std::string::npos || type.rfind("moert_", 0) == 0) continue;
      EXPECT_EQ(plain.count(type), 1u) << record.name << "." << member.name << " is a " << type;
    }
}

TEST_P(AbiHeader, IncludesOnlyTheBorder) {
  for (const auto& include : header_.includes)
    EXPECT_TRUE(include == "<stdint.h>" || include.rfind("<moert/abi/", 0) == 0) << include;
}

TEST_P(AbiHeader, SaysItIsADraft) {
  const size_t body = header_.text.find("#ifndef");
  ASSERT_NE(body, std::string::npos);
  const std::string head = header_.text.substr(0, body);
  EXPECT_NE(head.find("DRAFT"), std::string::npos) << "the ABI is not frozen yet";
  EXPECT_NE(head.find("SPDX-License-Identifier: Apache-2.0"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Headers, AbiHeader, testing::ValuesIn(header_names()),
                         [](const auto& test) { return fs::path(test.param).stem().string(); });

struct Bad {
  const char* name;
  const char* text;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

// The scanner's strictness is what the snapshot's completeness rests on.
class ScannerRefuses : public testing::TestWithParam<Bad> {};

TEST_P(ScannerRefuses, WhatItDoesNotKnow) {
  const fs::path file =
      fs::path(testing::TempDir()) / (std::string("moert_scan_") + GetParam().name + ".h");
  std::ofstream(file) << "extern \"C\" {\n" << GetParam().text << "\n}\n";
  EXPECT_THROW(moert::abi_scan::scan(file), std::runtime_error);
  fs::remove(file);
}

INSTANTIATE_TEST_SUITE_P(
    All, ScannerRefuses,
    testing::Values(Bad{"other_name", "typedef struct moert_a { int32_t b; } moert_b_t;"},
                    Bad{"bit_field", "typedef struct moert_a { uint32_t b : 3; } moert_a_t;"},
                    Bad{"union_member",
                        "typedef struct moert_a { union { int32_t b; } c; } moert_a_t;"},
                    Bad{"matrix", "typedef struct moert_a { char b[2][3]; } moert_a_t;"},
                    Bad{"empty", "typedef struct moert_a { } moert_a_t;"},
                    Bad{"function", "int moert_call(void);"},
                    Bad{"foreign_enumerator", "enum { OTHER = 1 };"},
                    Bad{"open_comment", "/* never closed"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
