// A weight on its way in: decoding it, and quantising the rows that it multiplies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <moert/abi/quant_method.h>
#include <moert/sdk/adapter.hpp>
#include <moert/sdk/tensor.hpp>

namespace moert {

namespace detail {

inline void pass_on(moert_code_t code, const moert_error_t& error, const std::string& what) {
  if (code != MOERT_OK) throw PluginError(code, what + ": " + error.message, error.native_code);
}

// Throws MOERT_DATA_LOSS unless the tensor has the shape in which the format keeps a weight of [rows, cols].
inline void expect_weight_shape(const moert_piece_t& piece, const moert_quant_method_t& quant,
                                const std::string& what, int64_t rows, int64_t cols,
                                moert_error_t* error) {
  const moert_tensor_t& tensor = *piece.tensor;
  moert_quant_param_t params[8]{};
  uint32_t count = 0;
  if (quant.parameters != nullptr)
    pass_on(quant.parameters(piece.quant_self, rows, cols, params, 8, &count, error), *error, what);
  moert_quant_param_t wanted = {MOERT_PARAM_WEIGHT, 1, 0, 2, {rows, cols, 0, 0}};
  for (uint32_t i = 0; i < count && i < 8; ++i)
    if (params[i].param == MOERT_PARAM_WEIGHT) wanted = params[i];
  bool same = tensor.rank == wanted.rank;
  for (uint32_t d = 0; same && d < wanted.rank && d < 4; ++d)
    same = tensor.shape[d] == wanted.shape[d];
  if (!same)
    throw PluginError(MOERT_DATA_LOSS, what + " is " + tensor_text(tensor) + ", expected shape " +
                                           shape_text(wanted.shape, wanted.rank));
}

}  // namespace detail

// A weight of [rows, cols] whose quant method turns it into f32. Borrows the piece and `what`. Errors are what the
// quant method reports, with `what` before it.
class WeightDecoder {
 public:
  // Checks the weight. Throws MOERT_DATA_LOSS for another shape.
  WeightDecoder(const moert_piece_t& piece, const std::string& what, int64_t rows, int64_t cols)
      : piece_(piece), what_(what), cols_(cols) {
    if (piece.tensor == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, what + " is missing");
    if (piece.quant == nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT, what + " comes without a quant method to read it");
    quant_ = intake(piece.quant);
    if (quant_.check == nullptr || quant_.decode == nullptr)
      throw PluginError(MOERT_UNIMPLEMENTED, what + ": its quant method cannot check or decode");
    moert_error_t error{};
    error.struct_size = sizeof error;
    detail::pass_on(quant_.check(piece.quant_self, piece.tensor, &error), error, what);
    detail::expect_weight_shape(piece, quant_, what, rows, cols, &error);
  }
  // Rows [row, row + count), row-major and dense.
  void decode(int64_t row, int64_t count, float* out) const {
    moert_error_t error{};
    error.struct_size = sizeof error;
    detail::pass_on(quant_.decode(piece_.quant_self, piece_.tensor, row, count, out, cols_, &error),
                    error, what_);
  }

 private:
  const moert_piece_t& piece_;
  const std::string& what_;
  moert_quant_method_t quant_{};
  int64_t cols_;
};

// Decodes a weight of [rows, cols] to f32, row-major. Throws as WeightDecoder does.
inline void decode_weight(const moert_piece_t& piece, const std::string& what, int64_t rows,
                          int64_t cols, float* out) {
  WeightDecoder(piece, what, rows, cols).decode(0, rows, out);
}

// Kept from the piece that brought the weight; the piece's quant method outlives it. Copies share it.
// Any thread.
class RowQuant {
 public:
  RowQuant() = default;
  // Throws MOERT_UNIMPLEMENTED where rows must be quantised and the quant method cannot.
  explicit RowQuant(const moert_piece_t& piece) {
    const moert_quant_view_t* view = piece.tensor != nullptr ? piece.tensor->quant : nullptr;
    if (view == nullptr || (view->flags & MOERT_QUANT_ROWS) == 0) return;
    if (piece.quant == nullptr || intake(piece.quant).quantize_activations == nullptr)
      throw PluginError(MOERT_UNIMPLEMENTED, "the weight's quant method does not quantise rows");
    quantize_ = intake(piece.quant).quantize_activations;
    self_ = piece.quant_self;
    if (view->input_scale != nullptr) input_scale_ = read_f32(*view->input_scale, 0);
  }

  bool changes() const { return quantize_ != nullptr; }
  // By the same method, but for the scale.
  bool like(const RowQuant& other) const {
    return quantize_ == other.quantize_ && self_ == other.self_ &&
           input_scale_.has_value() == other.input_scale_.has_value();
  }
  // The static scale of this weight's rows, which moves with the weight.
  std::optional<float> input_scale() const { return input_scale_; }
  void set_input_scale(std::optional<float> scale) { input_scale_ = scale; }

  // `to` becomes what remains of the row `from`, rounded to f32 and then quantised. `scratch` holds `cols`
  // numbers; `to` may be `from`.
  void apply(const double* from, int64_t cols, float* scratch, double* to) const {
    for (int64_t c = 0; c < cols; ++c) scratch[c] = static_cast<float>(from[c]);
    apply(scratch, cols);
    for (int64_t c = 0; c < cols; ++c) to[c] = static_cast<double>(scratch[c]);
  }
  // The same in place.
  void apply(float* row, int64_t cols) const {
    const TensorView scale(static_cast<const void*>(input_scale_ ? &*input_scale_ : nullptr),
                           MOERT_DTYPE_F32, {});
    moert_error_t error{};
    error.struct_size = sizeof error;
    const moert_code_t code =
        quantize_(self_, row, 1, cols, input_scale_ ? scale.get() : nullptr, &error);
    if (code != MOERT_OK) throw PluginError(code, error.message, error.native_code);
  }

 private:
  decltype(moert_quant_method_t::quantize_activations) quantize_ = nullptr;
  void* self_ = nullptr;
  std::optional<float> input_scale_;
};

}  // namespace moert
