// Tests that are made when the program starts, one per feature, subject and case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <moert/abi/status.h>

#include <array>
#include <functional>
#include <string>

#include "plugin.hpp"

namespace moert::conformance {

struct Settings {
  uint64_t seed = 1;
  std::string command;  // how this run was started, without filter: for lines to paste
};
Settings& settings();

// Ends a test: Stop after a failure that leaves nothing to go on with, Skip where a feature declined.
struct Stop {};
struct Skip {
  std::string why;
};
[[noreturn]] void stop(const std::string& message);

// Registers test "<kind word>/<feature>.<subject>/<case>". `body` may throw Stop or Skip.
void add(const Feature& feature, const std::string& subject, const std::string& case_name,
         std::function<void()> body);

// Reads "name: reason" lines; '*' in a name stands for any text, '#' begins a comment. Throws
// std::runtime_error for a line without a reason.
void read_unsupported(const std::string& path);
// After the run: entries that matched no test, or of which every test passed. Empty if all is well.
// Only meaningful if nothing was filtered out.
std::string stale_unsupported();

// An error record with guard bytes behind it.
class ErrorRecord {
 public:
  ErrorRecord();
  moert_error_t* get() { return &both_.error; }
  const char* text() const { return both_.error.message; }
  // The record is what the headers promise for a call that returned `code`.
  void expect_filled(moert_code_t code) const;

 private:
  struct {
    moert_error_t error;
    std::array<unsigned char, 64> guard;
  } both_;
};

// call(moert_error_t*) must return MOERT_OK; stops the test otherwise.
void must(const char* what, const std::function<moert_code_t(moert_error_t*)>& call);
// call(moert_error_t*) must fail with one of `codes`, fill its record, and not mind a NULL record.
void must_fail(const char* what, std::initializer_list<moert_code_t> codes,
               const std::function<moert_code_t(moert_error_t*)>& call);

}  // namespace moert::conformance
