// Random numbers that can be had again, element types, and the comparison with its report.
// SPDX-License-Identifier: Apache-2.0
#include "numbers.hpp"

#include <cmath>

#include "suite.hpp"

namespace moert::conformance {

Random::Random(const std::string& name) : state_(settings().seed * 0x9e3779b97f4a7c15u) {
  for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
}

uint64_t Random::bits() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::uniform() { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1.0; }

int64_t Random::below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }

Values rounded(uint32_t dtype, const std::vector<double>& numbers) {
  Values values;
  const auto size = static_cast<size_t>(dtype_bytes(dtype, 1));
  values.bytes.resize(numbers.size() * size);
  const moert_tensor_t t = *TensorView(values.bytes.data(), dtype, {1}).get();
  for (size_t i = 0; i < numbers.size(); ++i)
    write_f32(t, static_cast<int64_t>(i), static_cast<float>(numbers[i]));
  values.number = decoded(dtype, values.bytes);
  return values;
}

std::vector<double> decoded(uint32_t dtype, const Bytes& bytes) {
  const auto count = bytes.size() / static_cast<size_t>(dtype_bytes(dtype, 1));
  const moert_tensor_t t = *TensorView(static_cast<const void*>(bytes.data()), dtype, {1}).get();
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<double>(read_f32(t, static_cast<int64_t>(i)));
  return numbers;
}

double roundoff(uint32_t dtype) {
  switch (dtype) {
    case MOERT_DTYPE_F32: return 0x1p-24;
    case MOERT_DTYPE_F16: return 0x1p-11;
    case MOERT_DTYPE_BF16: return 0x1p-8;
    default: return 0x1p-53;
  }
}

double underflow(uint32_t dtype) { return dtype == MOERT_DTYPE_F16 ? 0x1p-25 : 0x1p-134; }

void expect_near(const std::vector<double>& got, const Expected& want, int64_t cols,
                 const std::vector<std::string>& row_texts) {
  if (got.size() != want.value.size())
    stop("the output has " + std::to_string(got.size()) + " numbers, expected " +
         std::to_string(want.value.size()));
  size_t worst = 0;
  double worst_ratio = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    double ratio = std::fabs(got[i] - want.value[i]) / want.tolerance[i];
    if (std::isnan(ratio)) ratio = HUGE_VAL;  // NaN and 0/0 are as bad as it gets
    if (ratio > worst_ratio) {
      worst_ratio = ratio;
      worst = i;
    }
  }
  if (got.empty() || worst_ratio <= 1) return;
  const size_t row = worst / static_cast<size_t>(cols);
  ADD_FAILURE() << "worst element: token " << row << " (" << row_texts.at(row) << "), column "
                << worst % static_cast<size_t>(cols) << ": got " << got[worst] << ", want "
                << want.value[worst] << ", off by " << worst_ratio << " times the tolerance "
                << want.tolerance[worst];
}

void expect_same_rows(const Bytes& a, const Bytes& b, size_t row_bytes, const std::string& what) {
  if (a.size() != b.size()) stop(what + ": outputs differ in size");
  for (size_t r = 0; row_bytes != 0 && r < a.size() / row_bytes; ++r) {
    if (std::memcmp(&a[r * row_bytes], &b[r * row_bytes], row_bytes) == 0) continue;
    ADD_FAILURE() << what << ": row " << r << " differs";
    return;
  }
}

}  // namespace moert::conformance
