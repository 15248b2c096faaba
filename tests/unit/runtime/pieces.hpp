// Tensors of a layer on their way in, with a quant method that reads plain floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include <moert/abi/moe_runner.h>
#include <moert/sdk/quant_method.hpp>

namespace moert::runtime {

// Reads matrices of any strides; refuses what has no two dimensions.
class PlainQuant : public QuantMethod {
 public:
  static constexpr FeatureInfo kFeature = {"test.plain"};
  static Support supports(const Host&, std::string_view) { return Support::yes(); }
  PlainQuant(const Host&, std::string_view, const Options&) {}
  std::vector<moert_quant_param_t> parameters(int64_t, int64_t) const override { return {}; }
  void check(const moert_tensor_t& weight) const override {
    if (weight.rank != 2) throw PluginError(MOERT_DATA_LOSS, "no matrix");
    read_f32(weight, 0);
  }
  void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
              int64_t out_stride) const override {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < weight.shape[1]; ++c)
        out[r * out_stride + c] =
            read_f32(weight, (row + r) * weight.strides[0] + c * weight.strides[1]);
  }
};

// Numbers in memory, and how they lie there: f32 or bf16, as they are used, or with gaps and turned.
class Stored {
 public:
  enum Way { dense, spread };

  // `values` is row-major [rows, cols]; a vector has 0 columns.
  Stored(const std::vector<float>& values, int64_t rows, int64_t cols,
         uint32_t dtype = MOERT_DTYPE_F32, Way way = dense)
      : view_(static_cast<void*>(nullptr), dtype, {0}) {
    const int64_t across = cols == 0 ? 1 : cols;
    // Spread: columns follow each other, and every other element is poison.
    const int64_t down = way == dense ? across : 2, along = way == dense ? 1 : 2 * rows;
    const auto n = static_cast<size_t>((rows - 1) * down + (across - 1) * along + 1);
    const uint64_t bytes = dtype_bytes(dtype, static_cast<int64_t>(n));
    data_.assign(bytes, std::byte{0xff});
    const int64_t count = static_cast<int64_t>(n);
    const TensorView whole(data_.data(), dtype, {count});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < across; ++c)
        write_f32(*whole.get(), r * down + c * along, values[static_cast<size_t>(r * across + c)]);
    view_ = cols == 0 ? TensorView(data_.data(), dtype, {rows})
                      : TensorView(data_.data(), dtype, {rows, cols});
    view_.set_stride(0, down, bytes);
    if (cols != 0) view_.set_stride(1, along, bytes);
  }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  const moert_tensor_t* tensor() const { return view_; }
  moert_piece_t piece(uint32_t part) const {
    static PlainQuant quant{Host(&kNoHost), "f32", Options(nullptr, 0)};
    return {sizeof(moert_piece_t),
            0,
            0,
            part,
            MOERT_ROLE_WEIGHT,
            0,
            view_,
            &QuantMethod::Kind::table<PlainQuant>,
            static_cast<QuantMethod*>(&quant)};
  }

 private:
  static inline const moert_host_t kNoHost{};
  std::vector<std::byte> data_;
  TensorView view_;
};

}  // namespace moert::runtime
