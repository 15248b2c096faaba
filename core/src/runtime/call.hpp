// Calling across the border: an error record on the stack, and codes turned into moert::Error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <moert/abi/status.h>
#include <moert/error.hpp>

namespace moert::runtime {

// One record for any number of calls: `call.check(table->finish(self, call.out()), "cpu.ref", "finish")`.
class Call {
 public:
  moert_error_t* out() {
    error_.struct_size = sizeof error_;
    error_.code = MOERT_OK;
    error_.native_code = 0;
    error_.where[0] = '\0';
    error_.message[0] = '\0';
    return &error_;
  }
  // Throws unless `code` is MOERT_OK. `candidate` and `action` say who did what; `place` is the file
  // and tensor, or the layer, in question.
  void check(moert_code_t code, const std::string& candidate, const char* action,
             const std::string& place = {}) const {
    if (code != MOERT_OK) fail(code, candidate, action, place);
  }
  // Without building strings on the good path.
  void check(moert_code_t code, const char* candidate, const char* action) const {
    if (code != MOERT_OK) fail(code, candidate, action, {});
  }
  // The record's text, terminated even if the callee forgot to.
  std::string message() const;

 private:
  [[noreturn]] void fail(moert_code_t code, const std::string& candidate, const char* action,
                         const std::string& place) const;
  moert_error_t error_;
};

const char* code_name(moert_code_t code);
// Which exit code a plugin's code leads to.
Fault fault_of(moert_code_t code);

}  // namespace moert::runtime
