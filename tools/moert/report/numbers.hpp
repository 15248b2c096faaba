// Numbers as the report shows them: thousands separated, three significant digits, a dash for no number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert::report {

std::string integer_text(int64_t value);  // "1,234,567"
std::string number_text(
    double value);  // "0.0123", "1.20", "12.3", "1,235"; digits before the point all stay
std::string percent_text(double fraction);                     // 0.123 is "12.3%"
std::string times_text(double ratio);                          // "2.47×"
std::string counted(int64_t count, const std::string& thing);  // "1 row", "2,000 rows"
std::string ranges_text(const std::vector<int64_t>& rising);   // "0–5, 7"
std::string coordinate(double value);                          // of a picture: at most one decimal

}  // namespace moert::report
