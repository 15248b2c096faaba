// What every format asks of a weight's view before it touches an element.
// SPDX-License-Identifier: Apache-2.0
#include "view.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace moert::quant {
namespace {

constexpr uint32_t kMustUnderstand = 0xffff0000u;
constexpr uint32_t kNibbleOrder = MOERT_TENSOR_HIGH_NIBBLE_FIRST;

[[noreturn]] void damaged(const std::string& message) {
  throw PluginError(MOERT_DATA_LOSS, message);
}

// Bytes from the first element to the end of the last one; false if they do not fit 63 bits.
bool extent(const moert_tensor_t& t, int64_t* bytes) {
  int64_t elements = 1;
  for (uint32_t d = 0; d < t.rank; ++d) {
    int64_t along = 0;
    if (__builtin_mul_overflow(t.shape[d] - 1, t.strides[d], &along) ||
        __builtin_add_overflow(elements, along, &elements))
      return false;
  }
  if (elements > std::numeric_limits<int64_t>::max() / 64) return false;
  *bytes = static_cast<int64_t>(dtype_bytes(t.dtype, elements));
  return true;
}

bool is_empty(const moert_tensor_t& t) {
  return std::any_of(t.shape, t.shape + t.rank, [](int64_t size) { return size == 0; });
}

void expect_companion(const moert_tensor_t* tensor, const char* name, const std::string& scheme) {
  if (tensor != nullptr)
    damaged("the weight came with a " + std::string(name) + " (" + tensor_text(*tensor) +
            "), but '" + scheme + "' has none");
}

}  // namespace

void expect_array(const moert_tensor_t& t, const char* name, uint32_t dtype) {
  const std::string text(name);
  const bool packed = dtype == MOERT_DTYPE_F4_E2M1;
  const uint32_t unknown = t.flags & kMustUnderstand & ~(packed ? kNibbleOrder : 0u);
  if (unknown != 0)
    throw PluginError(MOERT_UNIMPLEMENTED, text + ": tensor flag bits " + std::to_string(unknown) +
                                               " are not known here");
  if (t.device.kind != MOERT_DEVICE_CPU)
    throw PluginError(MOERT_INVALID_ARGUMENT, text + " is not in host memory");
  if (t.rank > kMaxRank || (t.rank > 0 && (t.shape == nullptr || t.strides == nullptr)))
    damaged(text + " has rank " + std::to_string(t.rank) + " or no shape");
  if (t.dtype != dtype)
    damaged(text + " is " + tensor_text(t) + ", expected " + std::string(dtype_name(dtype)));
  for (uint32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] < 0 || t.strides[d] < 0)
      damaged(text + " has size " + std::to_string(t.shape[d]) + " and stride " +
              std::to_string(t.strides[d]) + " in dimension " + std::to_string(d) +
              ", expected no negative numbers");
  }
  if (is_empty(t)) return;
  int64_t bytes = 0;
  if (t.data == nullptr || !extent(t, &bytes) || static_cast<uint64_t>(bytes) > t.bytes)
    damaged(text + " is " + tensor_text(t) + " with strides " + shape_text(t.strides, t.rank) +
            ", which is more than its " + std::to_string(t.bytes) + " bytes");
}

void expect_matrix(const moert_tensor_t& t, const char* name, uint32_t dtype) {
  if (t.rank != 2)
    damaged(std::string(name) + " has rank " + std::to_string(t.rank) +
            ", expected a matrix [rows, cols]");
  expect_array(t, name, dtype);
}

void expect_scheme(const moert_quant_view_t& quant, std::string_view scheme, unsigned companions) {
  const std::string mine(scheme);
  if (quant.scheme != nullptr && quant.scheme != scheme)
    damaged("the weight's scheme is '" + std::string(quant.scheme) + "', this object reads '" +
            mine + "'");
  if (quant.layout != nullptr && std::string_view(quant.layout) != "canonical")
    damaged("the weight's layout is '" + std::string(quant.layout) + "', '" + mine +
            "' has only 'canonical'");
  if ((companions & kScale) == 0) expect_companion(quant.scale, "scale", mine);
  if ((companions & kScale2) == 0) expect_companion(quant.scale2, "second scale", mine);
  if ((companions & kZeroPoint) == 0) expect_companion(quant.zero_point, "zero point", mine);
  if ((companions & kGroupIndex) == 0) expect_companion(quant.group_index, "group index", mine);
  if ((companions & kInputScale) == 0) expect_companion(quant.input_scale, "input scale", mine);
}

void expect_plain(const moert_tensor_t& t, std::string_view scheme) {
  if (t.quant != nullptr) expect_scheme(*t.quant, scheme, 0);
}

float finite_at(const moert_tensor_t& source, int64_t row, int64_t col) {
  float value = 0;
  std::memcpy(&value, element(source, row, col, sizeof value), sizeof value);
  if (!std::isfinite(value))
    damaged("the source at [" + std::to_string(row) + ", " + std::to_string(col) + "] is " +
            std::to_string(value) + ", which no code holds beside a scale");
  return value;
}

float amax_of(const moert_tensor_t& source, int64_t row, int64_t first_col, int64_t cols) {
  float amax = 0;
  for (int64_t c = first_col; c < first_col + cols; ++c)
    amax = std::max(amax, std::fabs(finite_at(source, row, c)));
  return amax;
}

void expect_rows(const Size& weight, int64_t row, int64_t rows, const float* out,
                 int64_t out_stride) {
  if (row < 0 || rows < 0 || row > weight.rows || rows > weight.rows - row)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "rows " + std::to_string(row) + " and the " + std::to_string(rows) +
                          " from there do not lie in the weight's " + std::to_string(weight.rows));
  if (rows == 0 || weight.cols == 0) return;
  if (out == nullptr || (rows > 1 && out_stride < weight.cols))
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "the destination's rows are " + std::to_string(out_stride) +
                          " elements apart, expected at least " + std::to_string(weight.cols));
}

void expect_source(const moert_tensor_t& source, const Size& weight) {
  expect_matrix(source, "the source", MOERT_DTYPE_F32);
  if (source.shape[0] == weight.rows && source.shape[1] == weight.cols) return;
  const int64_t shape[] = {weight.rows, weight.cols};
  throw PluginError(MOERT_INVALID_ARGUMENT, "the source is " + tensor_text(source) +
                                                ", the weight " + shape_text(shape, 2));
}

}  // namespace moert::quant
