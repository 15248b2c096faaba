// SPDX-License-Identifier: Apache-2.0
#include "weights/targets.hpp"

#include <stdexcept>
#include <unordered_set>

#include <boost/regex.hpp>
#include <moert/error.hpp>

#include "weights/rules.hpp"
#include "weights/text.hpp"

namespace moert::weights {
namespace {

constexpr std::string_view kExpression = "re:";
constexpr size_t kLongestModule = 1024;  // longer names are nobody's module

[[noreturn]] void refuse(const std::string& expression, const std::string& place,
                         const std::string& why) {
  throw Error(Fault::usage, "the expression '" + shown(expression, 120) + "' " + why, place,
              "correct it in the list of modules");
}

// The modules above and the module itself: "a", "a.b", "a.b.c".
template <class Fit>
bool any_beginning(std::string_view module, Fit&& fit) {
  for (size_t end = module.find('.');; end = module.find('.', end + 1)) {
    if (fit(module.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
  }
}

}  // namespace

struct Targets::Impl {
  std::string place;
  std::unordered_set<std::string> names;
  std::vector<std::string> globs;
  std::vector<boost::regex> expressions;

  bool has_run_of(std::string_view module) const {
    for (size_t begin = 0;;) {
      const std::string_view rest = module.substr(begin);
      if (any_beginning(rest,
                        [this](std::string_view run) { return names.contains(std::string(run)); }))
        return true;
      const size_t dot = module.find('.', begin);
      if (dot == std::string_view::npos) return false;
      begin = dot + 1;
    }
  }
  bool fits_expression(std::string_view module) const {
    for (const boost::regex& expression : expressions) {
      try {
        // From the beginning, as those who write such lists match them.
        if (boost::regex_search(module.begin(), module.end(), expression,
                                boost::match_default | boost::match_continuous))
          return true;
      } catch (const std::runtime_error&) {
        refuse(expression.str(), place, "takes too long on '" + shown(module, 120) + "'");
      }
    }
    return false;
  }
};

Targets::Targets(const std::vector<std::string>& targets, const std::string& place)
    : impl_(std::make_unique<Impl>()) {
  impl_->place = place;
  for (const std::string& target : targets) {
    if (target.starts_with(kExpression)) {
      const std::string text = target.substr(kExpression.size());
      try {
        impl_->expressions.emplace_back(text, boost::regex::perl);
      } catch (const boost::regex_error& error) {
        refuse(text, place, std::string("is not one: ") + error.what());
      }
    } else if (target.find('*') != std::string::npos) {
      impl_->globs.push_back(target);
    } else {
      const size_t end = target.find_last_not_of('.');
      if (end != std::string::npos) impl_->names.insert(target.substr(0, end + 1));
    }
  }
}

Targets::Targets(Targets&&) noexcept = default;
Targets& Targets::operator=(Targets&&) noexcept = default;
Targets::~Targets() = default;

bool Targets::fit(std::string_view module) const {
  if (module.size() > kLongestModule) return false;
  if (!impl_->names.empty() && impl_->has_run_of(module)) return true;
  if (impl_->globs.empty() && impl_->expressions.empty()) return false;
  return any_beginning(module, [this](std::string_view run) {
    for (const std::string& glob : impl_->globs)
      if (glob_fits(glob, run)) return true;
    return impl_->fits_expression(run);
  });
}

}  // namespace moert::weights
