// Random numbers that can be had again, element types, and the comparison with its report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "buffer.hpp"

namespace moert::conformance {

// The seed of the run and a text give the stream: a case's numbers depend on its name alone.
class Random {
 public:
  explicit Random(const std::string& name);
  uint64_t bits();
  // In [-1, 1).
  double uniform();
  int64_t below(int64_t n);

 private:
  uint64_t state_;
};

// Numbers that are exact in `dtype`, with their bytes.
struct Values {
  std::vector<double> number;
  Bytes bytes;
};
Values rounded(uint32_t dtype, const std::vector<double>& numbers);
std::vector<double> decoded(uint32_t dtype, const Bytes& bytes);
// Unit roundoff: half the distance from 1 to the next number.
double roundoff(uint32_t dtype);
// Half the smallest positive number.
double underflow(uint32_t dtype);

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const unsigned char*>(values.data());
  return Bytes(first, first + values.size() * sizeof(T));
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// What a row should be, and how far each number may be from it.
struct Expected {
  std::vector<double> value, tolerance;
};
// Fails with the worst element: row, column, got, want. `row_text(row)` adds what led to it.
void expect_near(const std::vector<double>& got, const Expected& want, int64_t cols,
                 const std::vector<std::string>& row_texts);
// Fails with the first row of `a` that is not bit for bit the row of `b`.
void expect_same_rows(const Bytes& a, const Bytes& b, size_t row_bytes, const std::string& what);

}  // namespace moert::conformance
