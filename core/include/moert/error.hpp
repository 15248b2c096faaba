// The one exception of the runtime, for programs that embed it and for the core itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace moert {

// What went wrong, as the program's exit code.
enum class Fault : int {
  check = 1,    // everything ran, a check failed
  usage = 2,    // asked wrongly: a flag, a YAML file, a config.json
  plugin = 3,   // a plugin could not be loaded, or broke a rule of the border
  refused = 4,  // no candidate accepts the layer
  device = 5,   // a device or memory
  input = 6,    // an input file is damaged or does not hold what it must
};

// Three lines for a person: what (with the offending value), where (file:line:column, or file and
// tensor), what to do. `what()` is the three lines together.
class __attribute__((visibility("default"))) Error : public std::exception {
 public:
  Error(Fault fault, std::string problem, std::string place, std::string remedy)
      : fault_(fault),
        problem_(one_line(std::move(problem))),
        place_(one_line(std::move(place))),
        remedy_(std::move(remedy)) {
    text_ = "error: " + problem_;
    if (!place_.empty()) text_ += "\n  at " + place_;
    if (!remedy_.empty()) text_ += "\n  " + remedy_;
  }
  Fault fault() const noexcept { return fault_; }
  int exit_code() const noexcept { return static_cast<int>(fault_); }
  const std::string& problem() const noexcept { return problem_; }
  const std::string& place() const noexcept { return place_; }
  const std::string& remedy() const noexcept { return remedy_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  // Names from files may hold anything; a line break in one must not look like a line of ours.
  static std::string one_line(std::string text) {
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return text;
  }
  Fault fault_;
  std::string problem_, place_, remedy_, text_;
};

}  // namespace moert
