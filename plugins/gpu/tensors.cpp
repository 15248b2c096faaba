// Matrices across the border, checked once.
// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <algorithm>

#include "backend.hpp"
#include "runtime.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kMustUnderstand = 0xffff0000u;
constexpr int64_t kLargestSize = int64_t{1} << 62;
constexpr uint64_t kWorkspaceAlignment = 256;

bool same(moert_device_id_t a, moert_device_id_t b) {
  return a.kind == b.kind && a.ordinal == b.ordinal;
}

std::string wanted(std::initializer_list<uint32_t> dtypes, int64_t rows, int64_t cols) {
  std::string text;
  for (const uint32_t dtype : dtypes)
    text += (text.empty() ? "" : " or ") + std::string(dtype_name(dtype));
  const auto size = [](int64_t n) { return n < 0 ? std::string("any") : std::to_string(n); };
  return text + " [" + size(rows) + ", " + size(cols) + "]";
}

bool has_shape(const moert_tensor_t& t, int64_t rows, int64_t cols) {
  if (t.rank != 1 && t.rank != 2) return false;
  for (uint32_t d = 0; d < t.rank; ++d)
    if (t.shape[d] < 0 || t.strides[d] < 0) return false;
  const int64_t found = t.rank == 2 ? t.shape[0] : 1;
  return (rows < 0 || found == rows) && (cols < 0 || t.shape[t.rank - 1] == cols);
}

bool fits(const moert_tensor_t& t, const Matrix& m) {
  if (m.rows == 0 || m.cols == 0) return true;
  int64_t down = 0, right = 0, bytes = 0;
  if (t.data == nullptr || !product({m.rows - 1, m.row_stride}, &down) ||
      !product({m.cols - 1, m.col_stride}, &right) || down > kLargestSize - 1 - right ||
      !product({down + right + 1, static_cast<int64_t>(dtype_bytes(t.dtype, 1))}, &bytes))
    return false;
  return static_cast<uint64_t>(bytes) <= t.bytes;
}

}  // namespace

StridedRows Matrix::numbers() const {
  const Number number = dtype == MOERT_DTYPE_BF16  ? Number::bf16
                        : dtype == MOERT_DTYPE_F16 ? Number::f16
                                                   : Number::f32;
  return {data, row_stride, cols > 1 ? col_stride : 1, number};
}

Matrix matrix(const moert_tensor_t* tensor, const char* name,
              std::initializer_list<uint32_t> dtypes, int64_t rows, int64_t cols,
              moert_device_id_t device, moert_code_t mismatch) {
  const std::string text(name);
  if (tensor == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, text + " is missing");
  const moert_tensor_t t = intake(tensor);
  must_understand(t.flags & kMustUnderstand, 0, name);
  if (!same(t.device, device))
    throw PluginError(MOERT_INVALID_ARGUMENT, text + " is on " + device_text(t.device) +
                                                  ", expected on " + device_text(device));
  if (t.rank > kMaxRank || (t.rank > 0 && (t.shape == nullptr || t.strides == nullptr)))
    throw PluginError(mismatch, text + " has rank " + std::to_string(t.rank) + ", expected 2");
  if (std::find(dtypes.begin(), dtypes.end(), t.dtype) == dtypes.end() || !has_shape(t, rows, cols))
    throw PluginError(mismatch,
                      text + " is " + tensor_text(t) + ", expected " + wanted(dtypes, rows, cols));
  const Matrix m = {t.data,
                    t.rank == 2 ? t.shape[0] : 1,
                    t.shape[t.rank - 1],
                    t.rank == 2 ? t.strides[0] : 0,
                    t.strides[t.rank - 1],
                    t.dtype};
  if (!fits(t, m))
    throw PluginError(mismatch, text + " is " + tensor_text(t) + " with strides " +
                                    shape_text(t.strides, t.rank) + ", more than its " +
                                    std::to_string(t.bytes) + " bytes");
  if (device.kind != MOERT_DEVICE_CPU &&
      reinterpret_cast<uintptr_t>(t.data) % dtype_bytes(t.dtype, 1) != 0)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      text + " does not begin at a multiple of its elements' size");
  return m;
}

std::string device_refusal(moert_device_id_t device) {
  if (device.kind != kDeviceKind)
    return "the layer is on " + device_text(device) + ", not on a device of " MOERT_GPU_WORD;
  try {
    remembered_facts(device.ordinal);
    return {};
  } catch (const PluginError& error) {
    return error.what();
  }
}

void* native_stream(const moert_stream_t* stream, moert_device_id_t device) {
  if (stream == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "the stream is missing");
  const moert_stream_t full = intake(stream);
  if (!same(full.device, device))
    throw PluginError(MOERT_INVALID_ARGUMENT, "the stream belongs to " + device_text(full.device) +
                                                  ", expected " + device_text(device));
  return full.native;
}

void expect_workspace(const void* workspace, uint64_t bytes, uint64_t needed) {
  if (needed == 0) return;
  if (workspace == nullptr || bytes < needed)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "a workspace of " + std::to_string(workspace == nullptr ? 0 : bytes) +
                          " bytes, " + std::to_string(needed) + " are needed");
  if (reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment != 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "the workspace is not aligned to 256 bytes");
}

bool product(std::initializer_list<int64_t> factors, int64_t* out) {
  int64_t result = 1;
  for (const int64_t factor : factors)
    if (factor < 0 || __builtin_mul_overflow(result, factor, &result) || result > kLargestSize)
      return false;
  *out = result;
  return true;
}

std::string device_text(moert_device_id_t device) {
  std::string kind;
  for (int byte = 0; byte < 4; ++byte) {
    const auto letter = static_cast<char>(device.kind >> 8 * byte & 0xffu);
    if (letter > ' ' && letter < 127) kind += letter;
  }
  return kind + ":" + std::to_string(device.ordinal);
}

}  // namespace moert::gpu
