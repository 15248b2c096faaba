// Tensors in C++: making views, checking them, reading elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <initializer_list>
#include <limits>
#include <string>

#include <moert/sdk/dtypes.hpp>
#include <moert/sdk/error.hpp>

namespace moert {

inline constexpr moert_device_id_t kCpu = {MOERT_DEVICE_CPU, 0};
inline constexpr uint32_t kMaxRank = 8;

// A dense or strided view over memory that the maker owns. Copying it copies the view, not the data.
class TensorView {
 public:
  // Dense, row-major.
  TensorView(void* data, uint32_t dtype, std::initializer_list<int64_t> shape, uint32_t flags = 0)
      : TensorView(data, dtype, shape.begin(), static_cast<uint32_t>(shape.size()), flags) {}
  // Read-only.
  TensorView(const void* data, uint32_t dtype, std::initializer_list<int64_t> shape)
      : TensorView(const_cast<void*>(data), dtype, shape, MOERT_TENSOR_READ_ONLY) {}
  TensorView(void* data, uint32_t dtype, const int64_t* shape, uint32_t rank, uint32_t flags) {
    if (rank > kMaxRank) throw PluginError(MOERT_INVALID_ARGUMENT, "a tensor of rank above 8");
    view_.struct_size = sizeof view_;
    view_.flags = flags;
    view_.data = data;
    view_.dtype = dtype;
    view_.rank = rank;
    view_.device = kCpu;
    int64_t n = 1;
    for (uint32_t i = rank; i-- > 0;) {
      shape_[i] = shape[i];
      strides_[i] = n;
      n *= shape[i];
    }
    view_.bytes = dtype_bytes(dtype, n);
    point();
  }
  TensorView(const TensorView& other)
      : view_(other.view_), shape_(other.shape_), strides_(other.strides_) {
    point();
  }
  TensorView& operator=(const TensorView& other) {
    view_ = other.view_;
    shape_ = other.shape_;
    strides_ = other.strides_;
    point();
    return *this;
  }
  ~TensorView() = default;

  // In place: gives dimension `dim` another stride (in elements) and the view its extent in bytes.
  void set_stride(uint32_t dim, int64_t stride, uint64_t bytes) {
    strides_.at(dim) = stride;
    view_.bytes = bytes;
  }
  void set_quant(const moert_quant_view_t* quant) { view_.quant = quant; }
  void set_device(moert_device_id_t device) { view_.device = device; }

  const moert_tensor_t* get() const { return &view_; }
  operator const moert_tensor_t*() const { return &view_; }  // NOLINT: a view passes as its record

 private:
  void point() {
    view_.shape = shape_.data();
    view_.strides = strides_.data();
  }
  moert_tensor_t view_{};
  std::array<int64_t, kMaxRank> shape_{};
  std::array<int64_t, kMaxRank> strides_{};
};

inline std::string shape_text(const int64_t* shape, uint32_t rank) {
  std::string text = "[";
  for (uint32_t i = 0; i < rank; ++i) text += (i != 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}
// "bf16 [64, 32]"
inline std::string tensor_text(const moert_tensor_t& t) {
  return std::string(dtype_name(t.dtype)) + " " + shape_text(t.shape, t.rank);
}

inline int64_t element_count(const moert_tensor_t& t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t.rank; ++i) n *= t.shape[i];
  return n;
}

// Throws MOERT_INVALID_ARGUMENT unless `t` is there and has that dtype and shape; -1 in `shape`
// stands for any size.
inline const moert_tensor_t& expect_tensor(const moert_tensor_t* t, const char* name,
                                           uint32_t dtype, std::initializer_list<int64_t> shape) {
  if (t == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, std::string(name) + " is missing");
  bool same = t->dtype == dtype && t->rank == shape.size();
  for (uint32_t i = 0; same && i < t->rank; ++i)
    same = shape.begin()[i] == -1 || t->shape[i] == shape.begin()[i];
  if (!same) {
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      std::string(name) + " is " + tensor_text(*t) + ", expected " +
                          std::string(dtype_name(dtype)) + " " +
                          shape_text(shape.begin(), static_cast<uint32_t>(shape.size())));
  }
  return *t;
}

// Throws unless rows follow each other without gaps inside a row (stride 1 in the last dimension).
inline void expect_contiguous_rows(const moert_tensor_t& t, const char* name) {
  if (t.rank > 0 && t.shape[t.rank - 1] > 1 && t.strides[t.rank - 1] != 1)
    throw PluginError(MOERT_INVALID_ARGUMENT, std::string(name) + " must have contiguous rows");
}

// Pointer to row `r` of a matrix of elements of type T.
template <class T>
T* row_of(const moert_tensor_t& t, int64_t r) {
  return static_cast<T*>(t.data) + r * t.strides[0];
}

// Element `index` (counted in elements from data) of a plain float tensor, as f32. Exact but for f64.
inline float read_f32(const moert_tensor_t& t, int64_t index) {
  switch (t.dtype) {
    case MOERT_DTYPE_F64: return static_cast<float>(static_cast<const double*>(t.data)[index]);
    case MOERT_DTYPE_F32: return static_cast<const float*>(t.data)[index];
    case MOERT_DTYPE_BF16: return bf16_to_f32(static_cast<const uint16_t*>(t.data)[index]);
    case MOERT_DTYPE_F16: return f16_to_f32(static_cast<const uint16_t*>(t.data)[index]);
    default:
      throw PluginError(
          MOERT_INVALID_ARGUMENT,
          "elements of type " + std::string(dtype_name(t.dtype)) + " are no plain floats");
  }
}

// Writes f32 as an element of a plain float tensor, rounding to nearest even.
inline void write_f32(const moert_tensor_t& t, int64_t index, float value) {
  switch (t.dtype) {
    case MOERT_DTYPE_F64: static_cast<double*>(t.data)[index] = static_cast<double>(value); return;
    case MOERT_DTYPE_F32: static_cast<float*>(t.data)[index] = value; return;
    case MOERT_DTYPE_BF16: static_cast<uint16_t*>(t.data)[index] = f32_to_bf16(value); return;
    case MOERT_DTYPE_F16: static_cast<uint16_t*>(t.data)[index] = f32_to_f16(value); return;
    default:
      throw PluginError(
          MOERT_INVALID_ARGUMENT,
          "elements of type " + std::string(dtype_name(t.dtype)) + " are no plain floats");
  }
}

}  // namespace moert
