// Which modules a config's lists of names mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace moert::weights {

// A list of targets as spec::FormatGroup defines them, compiled. Looking a module up takes time that does
// not grow with the number of names without '*' and "re:".
class Targets {
 public:
  // Throws Error(usage) for an expression that is none.
  Targets(const std::vector<std::string>& targets, const std::string& place);
  Targets(Targets&&) noexcept;
  Targets& operator=(Targets&&) noexcept;
  ~Targets();

  // `module` is a tensor's name without its last word. Throws Error(usage) for an expression that would
  // take too long.
  bool fit(std::string_view module) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moert::weights
