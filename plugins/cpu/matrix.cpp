// Matrices across the border: checked once, then read as f64 and written with one rounding.
// SPDX-License-Identifier: Apache-2.0
#include "matrix.hpp"

#include <cmath>
#include <cstring>

namespace moert::cpu {
namespace {

constexpr uint32_t kMustUnderstand = 0xffff0000u;
constexpr int64_t kLargestSize = int64_t{1} << 62;

template <class T>
T load(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(unsigned char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// f64 to f32 such that a second rounding to a narrower type gives what one rounding would: an
// inexact result gets an odd last bit, so it never looks like a tie.
float round_to_odd(double value) {
  auto near = static_cast<float>(value);
  if (!(static_cast<double>(near) != value) || !std::isfinite(value)) return near;
  if (std::fabs(static_cast<double>(near)) > std::fabs(value)) near = std::nextafterf(near, 0.0f);
  return detail::bits_as<float>(detail::bits_as<uint32_t>(near) | 1u);
}

// Numbers that lie `step` bytes apart. Where that is their size the compiler knows it, and takes several at once.
template <class T, class Widen>
void widen(const unsigned char* from, int64_t step, int64_t count, double* to, Widen wide) {
  if (step == static_cast<int64_t>(sizeof(T)))
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<double>(wide(load<T>(from + i * static_cast<int64_t>(sizeof(T)))));
  else
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(wide(load<T>(from + i * step)));
}

std::string wanted(std::initializer_list<uint32_t> dtypes, int64_t rows, int64_t cols) {
  std::string text;
  for (uint32_t dtype : dtypes)
    text += (text.empty() ? "" : " or ") + std::string(dtype_name(dtype));
  const auto size = [](int64_t n) { return n < 0 ? std::string("any") : std::to_string(n); };
  return text + " [" + size(rows) + ", " + size(cols) + "]";
}

bool fits(const moert_tensor_t& t, const Matrix& m, int64_t row_stride, int64_t col_stride) {
  if (m.rows() == 0 || m.cols() == 0) return true;
  int64_t down = 0;
  int64_t right = 0;
  int64_t bytes = 0;
  if (t.data == nullptr || !product({m.rows() - 1, row_stride}, &down) ||
      !product({m.cols() - 1, col_stride}, &right) || down > kLargestSize - 1 - right ||
      !product({down + right + 1, static_cast<int64_t>(dtype_bytes(t.dtype, 1))}, &bytes))
    return false;
  return static_cast<uint64_t>(bytes) <= t.bytes;
}

bool one_of(uint32_t dtype, std::initializer_list<uint32_t> dtypes) {
  for (uint32_t candidate : dtypes)
    if (candidate == dtype) return true;
  return false;
}

// Rank 1 or 2, no negative number, and as many rows and columns as asked for.
bool has_shape(const moert_tensor_t& t, int64_t rows, int64_t cols) {
  if (t.rank != 1 && t.rank != 2) return false;
  for (uint32_t d = 0; d < t.rank; ++d)
    if (t.shape[d] < 0 || t.strides[d] < 0) return false;
  const int64_t found = t.rank == 2 ? t.shape[0] : 1;
  return (rows < 0 || found == rows) && (cols < 0 || t.shape[t.rank - 1] == cols);
}

}  // namespace

double Matrix::number(int64_t row, int64_t col) const {
  const unsigned char* from = at(row, col);
  switch (dtype_) {
    case MOERT_DTYPE_F64: return load<double>(from);
    case MOERT_DTYPE_F32: return static_cast<double>(load<float>(from));
    case MOERT_DTYPE_BF16: return static_cast<double>(bf16_to_f32(load<uint16_t>(from)));
    default: return static_cast<double>(f16_to_f32(load<uint16_t>(from)));
  }
}

void Matrix::numbers(int64_t row, int64_t first, int64_t count, double* to) const {
  const unsigned char* from = at(row, first);
  const int64_t step = col_stride_ * size_;
  const auto same = [](auto x) { return x; };
  switch (dtype_) {
    case MOERT_DTYPE_F64: return widen<double>(from, step, count, to, same);
    case MOERT_DTYPE_F32: return widen<float>(from, step, count, to, same);
    case MOERT_DTYPE_BF16: return widen<uint16_t>(from, step, count, to, bf16_to_f32);
    default: return widen<uint16_t>(from, step, count, to, f16_to_f32);
  }
}

int32_t Matrix::integer(int64_t row, int64_t col) const { return load<int32_t>(at(row, col)); }

void Matrix::set(int64_t row, int64_t col, double value) const {
  unsigned char* to = at(row, col);
  switch (dtype_) {
    case MOERT_DTYPE_F64: return store(to, value);
    case MOERT_DTYPE_F32: return store(to, static_cast<float>(value));
    case MOERT_DTYPE_BF16: return store(to, f32_to_bf16(round_to_odd(value)));
    default: return store(to, f32_to_f16(round_to_odd(value)));
  }
}

void Matrix::set_integer(int64_t row, int64_t col, int32_t value) const {
  store(at(row, col), value);
}

Matrix matrix(const moert_tensor_t* tensor, const char* name,
              std::initializer_list<uint32_t> dtypes, int64_t rows, int64_t cols,
              moert_code_t mismatch) {
  const std::string text(name);
  if (tensor == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, text + " is missing");
  const moert_tensor_t t = intake(tensor);
  must_understand(t.flags & kMustUnderstand, 0, name);
  if (t.device.kind != MOERT_DEVICE_CPU)
    throw PluginError(MOERT_INVALID_ARGUMENT, text + " is not in host memory");
  if (t.rank > kMaxRank || (t.rank > 0 && (t.shape == nullptr || t.strides == nullptr)))
    throw PluginError(mismatch, text + " has rank " + std::to_string(t.rank) + ", expected 2");
  if (!one_of(t.dtype, dtypes) || !has_shape(t, rows, cols))
    throw PluginError(mismatch,
                      text + " is " + tensor_text(t) + ", expected " + wanted(dtypes, rows, cols));
  Matrix m;
  m.data_ = static_cast<unsigned char*>(t.data);
  m.rows_ = t.rank == 2 ? t.shape[0] : 1;
  m.cols_ = t.shape[t.rank - 1];
  m.row_stride_ = t.rank == 2 ? t.strides[0] : 0;
  m.col_stride_ = t.strides[t.rank - 1];
  m.size_ = static_cast<int64_t>(dtype_bytes(t.dtype, 1));
  m.dtype_ = t.dtype;
  if (!fits(t, m, m.row_stride_, m.col_stride_))
    throw PluginError(mismatch, text + " is " + tensor_text(t) + " with strides " +
                                    shape_text(t.strides, t.rank) + ", more than its " +
                                    std::to_string(t.bytes) + " bytes");
  return m;
}

bool product(std::initializer_list<int64_t> factors, int64_t* out) {
  int64_t result = 1;
  for (int64_t factor : factors)
    if (factor < 0 || __builtin_mul_overflow(result, factor, &result) || result > kLargestSize)
      return false;
  *out = result;
  return true;
}

bool is_float(uint32_t dtype) { return one_of(dtype, kFloats); }

}  // namespace moert::cpu
