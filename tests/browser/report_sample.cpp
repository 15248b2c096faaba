// Writes a report of made-up captures: report_sample KIND OUT.html. What the page looks like is checked on these.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iostream>
#include <string>

#include "report/report_page.hpp"
#include "support/sample_captures.hpp"

int main(int argc, char** argv) {
  const std::string kind = argc == 3 ? argv[1] : "";
  const std::vector<moert::report::ReportCapture> captures = moert::testing::sample_captures(kind);
  if (captures.empty()) {
    std::cerr << "usage: report_sample usual|hostile|large|small|empty OUT.html\n";
    return 2;
  }
  std::ofstream file(argv[2], std::ios::binary);
  file << moert::report::report_page(captures);
  file.close();
  if (!file) {
    std::cerr << "error: cannot write " << argv[2] << "\n";
    return 5;
  }
  return 0;
}
