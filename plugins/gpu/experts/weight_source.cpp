// A weight as it arrives, read panel by panel in the format that the device keeps.
// SPDX-License-Identifier: Apache-2.0
#include "weight_source.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <moert/sdk/small_floats.hpp>

#include "pack.hpp"

namespace moert::gpu {
namespace {

constexpr int64_t kPanelRows = 16;
constexpr uint8_t kNanPower = 0xff;

}  // namespace

WeightSource::WeightSource(const moert_piece_t& piece, const std::string& title,
                           const WeightFormat& format, int64_t rows, int64_t cols)
    : piece_(piece),
      title_(title),
      format_(format),
      rows_(rows),
      cols_(cols),
      number_bytes_(format.codec == Codec::f32    ? 4
                    : format.codec == Codec::bf16 ? 2
                                                  : 1) {
  decoder_.emplace(piece, title, rows, cols);  // checks shapes, dtypes and scales
  if (!format_.stored()) return;
  expect_stored();
  factor_ = second_scale();
}

void WeightSource::expect_stored() const {
  const moert_tensor_t& t = *piece_.tensor;
  const int64_t shape[] = {rows_, cols_};
  if (t.dtype != format_.dtype || t.rank != 2 || t.shape[0] != rows_ || t.shape[1] != cols_)
    throw PluginError(MOERT_DATA_LOSS, title_ + " is " + tensor_text(t) + ", expected " +
                                           std::string(dtype_name(format_.dtype)) + " " +
                                           shape_text(shape, 2));
  if (format_.scales == ScaleKind::none) return;
  if (t.quant == nullptr || t.quant->scale == nullptr)
    throw PluginError(MOERT_DATA_LOSS, title_ + " comes without its scales");
  if (t.quant->scale->dtype != format_.scale_dtype)
    throw PluginError(MOERT_DATA_LOSS, title_ + ": its scale is " + tensor_text(*t.quant->scale) +
                                           ", expected " +
                                           std::string(dtype_name(format_.scale_dtype)));
}

// Whether the second scale multiplies or divides is an option of the quant method, so its word is asked: what it makes
// of the first number that is not 0.
float WeightSource::second_scale() const {
  const moert_quant_view_t* view = piece_.tensor->quant;
  if (view == nullptr || view->scale2 == nullptr) return 1;
  if (format_.scale_dtype == MOERT_DTYPE_F8_E8M0)
    throw PluginError(MOERT_UNIMPLEMENTED,
                      title_ +
                          " has powers of two as scales and a second one for all of it, which "
                          "is not kept on a device");
  const float second = read_f32(*view->scale2, 0);
  const float one = 1;
  const TensorView one_scale(static_cast<const void*>(&one), MOERT_DTYPE_F32, {});
  moert_quant_view_t one_view = *view;
  one_view.scale2 = one_scale;
  moert_tensor_t without = *piece_.tensor;
  without.quant = &one_view;
  moert_piece_t plain = piece_;
  plain.tensor = &without;
  const WeightDecoder with_one(plain, title_, rows_, cols_);
  std::vector<float> both(static_cast<size_t>(cols_)), first(static_cast<size_t>(cols_));
  for (int64_t row = 0; row < rows_; ++row) {
    decoder_->decode(row, 1, both.data());
    with_one.decode(row, 1, first.data());
    for (size_t c = 0; c < both.size(); ++c) {
      if (first[c] == 0 || !std::isfinite(first[c])) continue;
      const bool divides = both[c] != first[c] * second && both[c] == first[c] / second;
      return divides ? 1 / second : second;
    }
  }
  return 1;  // zeros alone
}

void WeightSource::read_rows(int64_t row, int64_t padded_cols, unsigned char* out) const {
  const auto row_bytes = static_cast<size_t>(padded_cols * number_bytes_);
  std::memset(out, 0, row_bytes * kPanelRows);
  for (int64_t r = row; r < std::min(row + kPanelRows, rows_); ++r, out += row_bytes)
    read_row(r, out);
}

void WeightSource::read_row(int64_t row, unsigned char* out) const {
  if (!format_.stored()) {
    std::vector<float> numbers(static_cast<size_t>(cols_));
    decoder_->decode(row, 1, numbers.data());
    std::memcpy(out, numbers.data(), numbers.size() * sizeof(float));
    return;
  }
  const moert_tensor_t& t = *piece_.tensor;
  const auto* data = static_cast<const unsigned char*>(t.data);
  const int64_t first = row * t.strides[0], step = t.strides[1];
  if (format_.codec == Codec::mxfp4) {
    const bool high_first = (t.flags & MOERT_TENSOR_HIGH_NIBBLE_FIRST) != 0;
    for (int64_t c = 0; c < cols_; ++c) {
      const int64_t index = first + c * step;
      const bool high = (index % 2 != 0) != high_first;
      out[c] = static_cast<unsigned char>(data[index / 2] >> (high ? 4 : 0) & 0xf);
    }
    return;
  }
  for (int64_t c = 0; step == 1 ? c < 1 : c < cols_; ++c)
    std::memcpy(out + c * number_bytes_, data + (first + c * step) * number_bytes_,
                static_cast<size_t>((step == 1 ? cols_ : 1) * number_bytes_));
}

int64_t WeightSource::scale_index(int64_t row, int64_t block) const {
  const moert_tensor_t& scales = *piece_.tensor->quant->scale;
  int64_t index = 0;
  if (scales.rank > 0 && format_.block_rows != 0)
    index += row / format_.block_rows * scales.strides[0];
  if (scales.rank > 1) index += block * scales.strides[1];
  return index;
}

float WeightSource::scale(int64_t row, int64_t block) const {
  const moert_tensor_t& scales = *piece_.tensor->quant->scale;
  const int64_t index = scale_index(row, block);
  const float plain = format_.scale_dtype == MOERT_DTYPE_F8_E8M0
                          ? e8m0_to_f32(static_cast<const uint8_t*>(scales.data)[index])
                          : read_f32(scales, index);
  const float scale = plain * factor_;
  if (std::isnan(scale))
    throw PluginError(MOERT_DATA_LOSS, title_ + ": the scale of row " + std::to_string(row) +
                                           ", block " + std::to_string(block) + " is NaN");
  return scale;
}

uint8_t WeightSource::power(int64_t row, int64_t block) const {
  const moert_tensor_t& scales = *piece_.tensor->quant->scale;
  const uint8_t code = static_cast<const uint8_t*>(scales.data)[scale_index(row, block)];
  if (code == kNanPower)
    throw PluginError(MOERT_DATA_LOSS, title_ + ": the scale of row " + std::to_string(row) +
                                           ", group " + std::to_string(block) + " is NaN");
  return code;
}

void WeightSource::read_scales(int64_t row, int64_t blocks, LayoutId layout,
                               unsigned char* out) const {
  const bool powers = format_.scales == ScaleKind::powers;
  const int64_t rows = format_.scales == ScaleKind::per_panel ? 1 : kPanelRows;
  const int64_t size = powers ? 1 : 4;
  std::memset(out, 0, static_cast<size_t>(blocks * rows * size));
  const int64_t block_cols = format_.block_cols == 0 ? cols_ : format_.block_cols;
  const int64_t there = std::min(blocks, (cols_ + block_cols - 1) / block_cols);
  for (int64_t r = 0; r < rows && row + r < rows_; ++r)
    for (int64_t b = 0; b < there; ++b) {
      if (powers) {
        out[b * rows + power_place(layout, static_cast<int32_t>(r))] = power(row + r, b);
        continue;
      }
      const float number = scale(row + r, b);
      std::memcpy(out + (b * rows + r) * size, &number, sizeof number);
    }
}

std::vector<float> bias_numbers(const moert_piece_t& piece, const std::string& title, int64_t rows,
                                int64_t padded) {
  std::vector<float> numbers(static_cast<size_t>(padded), 0.0F);
  const moert_tensor_t* t = piece.tensor;
  if (t == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, title + " is missing");
  if (t->rank != 1 || t->shape[0] != rows)
    throw PluginError(MOERT_DATA_LOSS, title + " is " + tensor_text(*t) + ", expected shape " +
                                           shape_text(&rows, 1));
  for (int64_t i = 0; i < rows; ++i)
    numbers[static_cast<size_t>(i)] = read_f32(*t, i * t->strides[0]);
  return numbers;
}

}  // namespace moert::gpu
