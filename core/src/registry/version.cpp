// Compares versions part by part; numbers of any length.
// SPDX-License-Identifier: Apache-2.0
#include "registry/version.hpp"

#include <algorithm>

namespace moert::registry {

namespace {

int sign(int value) { return (value > 0) - (value < 0); }

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A number comes before a word.
int compare_parts(std::string_view a, std::string_view b) {
  if (is_number(a) != is_number(b)) return is_number(a) ? -1 : 1;
  if (is_number(a)) {
    a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
    b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  }
  return sign(a.compare(b));
}

// Part by part; of two lists that begin alike the longer one is greater.
int compare_lists(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const size_t end_a = std::min(a.find('.'), a.size()), end_b = std::min(b.find('.'), b.size());
    if (const int order = compare_parts(a.substr(0, end_a), b.substr(0, end_b)); order != 0)
      return order;
    a.remove_prefix(std::min(end_a + 1, a.size()));
    b.remove_prefix(std::min(end_b + 1, b.size()));
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

}  // namespace

int compare_versions(std::string_view a, std::string_view b) {
  a = a.substr(0, a.find('+'));
  b = b.substr(0, b.find('+'));
  const size_t dash_a = a.find('-'), dash_b = b.find('-');
  if (const int order = compare_lists(a.substr(0, dash_a), b.substr(0, dash_b)); order != 0)
    return order;
  const bool release_a = dash_a == std::string_view::npos,
             release_b = dash_b == std::string_view::npos;
  if (release_a || release_b) return static_cast<int>(release_a) - static_cast<int>(release_b);
  return compare_lists(a.substr(dash_a + 1), b.substr(dash_b + 1));
}

}  // namespace moert::registry
