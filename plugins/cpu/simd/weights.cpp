// The packed weights of a layer's experts.
// SPDX-License-Identifier: Apache-2.0
#include "weights.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <moert/sdk/weight.hpp>

#include "pack.hpp"
#include "pack_bytes.hpp"
#include "pack_mxfp4.hpp"

namespace moert::cpu::simd {
namespace {

constexpr uint64_t kLargePage = uint64_t{2} << 20;

Layout layout_of(const MlpShape& shape, const WeightScheme& scheme) {
  Layout layout;
  if (!Layout::make(shape, scheme.format, &layout))
    throw PluginError(MOERT_INVALID_ARGUMENT, "the weights' sizes do not fit 64 bits");
  return layout;
}

// Weights are read once per forward, all of them: with pages of 2 MiB the processor need not look up half a
// million of the small ones on the way.
Host::Array<unsigned char> reserve(const Host& host, uint64_t bytes) {
  const moert_host_t* table = host.get();
  const uint64_t align = bytes >= kLargePage ? kLargePage : 64;
  auto* p = static_cast<unsigned char*>(table->alloc(table->ctx, bytes, align));
  if (p == nullptr)
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      "no memory: " + std::to_string(bytes) + " bytes for packed weights");
  // The memory behind the last whole page is not ours. Advice: where it fails, the pages stay small.
  if (align == kLargePage) ::madvise(p, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
  return Host::Array<unsigned char>(p, Host::Free{table});
}

void expect_rows_quantised(const moert_piece_t& piece, const std::string& what, bool expected) {
  const moert_quant_view_t* view = piece.tensor != nullptr ? piece.tensor->quant : nullptr;
  if ((view != nullptr && (view->flags & MOERT_QUANT_ROWS) != 0) != expected)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      what + (expected ? " asks for no rows to be quantised, unlike its layer"
                                       : " asks for rows to be quantised, unlike its layer"));
}

// What a second scale of the whole weight makes of the others. Whether it multiplies or divides is the quant method's
// option, so its word is asked: how much of the first number is left.
float second_scale(const moert_piece_t& piece, const std::string& what, int64_t rows, int64_t cols,
                   const WeightScheme& scheme) {
  const moert_quant_view_t* view = piece.tensor->quant;
  if (view == nullptr || view->scale2 == nullptr) return 1;
  if (scheme.format.scales == Scales::powers)
    throw PluginError(MOERT_UNIMPLEMENTED,
                      what +
                          " has powers of two as scales and a second one for all of it, which "
                          "cpu.simd does not keep; name cpu.ref for this layer");
  const float second = read_f32(*view->scale2, 0);
  moert_quant_view_t one_view = *view;
  const float one = 1;
  const TensorView one_scale(static_cast<const void*>(&one), MOERT_DTYPE_F32, {});
  one_view.scale2 = one_scale;
  moert_tensor_t without = *piece.tensor;
  without.quant = &one_view;
  moert_piece_t plain = piece;
  plain.tensor = &without;
  const WeightDecoder with_both(piece, what, rows, cols);
  const WeightDecoder with_one(plain, what, rows, cols);
  std::vector<float> both(static_cast<size_t>(cols)), first(static_cast<size_t>(cols));
  for (int64_t row = 0; row < rows; ++row) {
    with_both.decode(row, 1, both.data());
    with_one.decode(row, 1, first.data());
    for (size_t c = 0; c < both.size(); ++c) {
      if (first[c] == 0 || !std::isfinite(first[c])) continue;
      const bool divides = both[c] != first[c] * second && both[c] == first[c] / second;
      return divides ? 1 / second : second;
    }
  }
  return 1;  // all zeros
}

// A few rows at a time: no second copy of the weight.
void pack_decoded(const WeightDecoder& decoder, int64_t rows, int64_t cols, int64_t first,
                  int64_t width, unsigned char* panels) {
  std::vector<float> numbers(static_cast<size_t>(width * cols));
  for (int64_t row = 0; row < rows; row += width) {
    const int64_t count = std::min(width, rows - row);
    decoder.decode(row, count, numbers.data());
    const TensorView view(static_cast<const void*>(numbers.data()), MOERT_DTYPE_F32, {count, cols});
    pack({matrix(view, "decoded rows", {MOERT_DTYPE_F32}, count, cols), Storage::f32, first, width,
          panels + row / width * panel_bytes(Storage::f32, cols)});
  }
}

// Throws unless the piece is a matrix of that dtype and shape and of its scheme, by its own quant method's word too.
void expect_weight(const moert_piece_t& piece, const std::string& what, uint32_t dtype,
                   int64_t rows, int64_t cols) {
  if (piece.quant == nullptr)
    throw PluginError(MOERT_INVALID_ARGUMENT, what + " comes without a quant method to read it");
  const moert_quant_method_t quant = intake(piece.quant);
  if (quant.check == nullptr)
    throw PluginError(MOERT_UNIMPLEMENTED, what + ": its quant method cannot check");
  moert_error_t error{};
  error.struct_size = sizeof error;
  detail::pass_on(quant.check(piece.quant_self, piece.tensor, &error), error, what);
  const moert_tensor_t& t = *piece.tensor;
  const int64_t shape[] = {rows, cols};
  if (t.dtype != dtype || t.rank != 2 || t.shape[0] != rows || t.shape[1] != cols)
    throw PluginError(MOERT_DATA_LOSS, what + " is " + tensor_text(t) + ", expected " +
                                           std::string(dtype_name(dtype)) + " " +
                                           shape_text(shape, 2));
}

}  // namespace

PackedWeights::PackedWeights(const Host& host, const MlpShape& shape, const WeightScheme& scheme,
                             RowsAre rows, int64_t experts)
    : scheme_(scheme),
      layout_(layout_of(shape, scheme)),
      experts_(experts),
      data_(reserve(host, static_cast<uint64_t>(layout_.bytes) * static_cast<uint64_t>(experts))),
      pieces_(shape, experts),
      rows_are_(rows),
      row_quants_(static_cast<size_t>(experts) * kParts) {
  // Columns of biases beyond I and H are added to sums that nobody reads, but they are read.
  if (shape.biased)
    for (int64_t e = 0; e < experts; ++e)
      std::memset(of(e) + layout_.bias_first, 0,
                  static_cast<size_t>(layout_.bytes - layout_.bias_first));
}

void PackedWeights::expect_complete() const {
  pieces_.expect_complete();
  for (size_t i = 0; rows_are_ == RowsAre::quantised && i < row_quants_.size(); ++i) {
    const bool absent = i % kParts == MOERT_PART_GATE && !layout_.shape.gated;
    if (!absent && (!row_quants_[i].like(row_quants_[MOERT_PART_DOWN]) ||
                    row_quants_[i].input_scale().has_value()))
      throw PluginError(MOERT_UNIMPLEMENTED,
                        "rows are quantised by several methods or scales, unlike the layer says");
  }
}

void PackedWeights::load(const moert_piece_t& piece) {
  const std::string what = pieces_.expect(piece);
  if (piece.role == MOERT_ROLE_BIAS)
    load_bias(piece, what);
  else
    load_weight(piece, what);
  pieces_.take(piece);
}

void PackedWeights::load_bias(const moert_piece_t& piece, const std::string& what) {
  const bool down = piece.part == MOERT_PART_DOWN;
  const bool second = piece.part == MOERT_PART_UP && layout_.shape.gated;
  const int64_t count = down ? layout_.shape.hidden : layout_.shape.intermediate;
  const int64_t width = down ? kPanel : layout_.width;
  const Matrix bias =
      matrix(piece.tensor, what.c_str(), {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16}, 1,
             count, MOERT_DATA_LOSS);
  unsigned char* to = of(piece.expert) + (down ? layout_.down_bias(0) : layout_.up_bias(0));
  for (int64_t n = 0; n < count; ++n) {
    const auto value = static_cast<float>(bias.number(0, n));
    const int64_t at = n / width * kPanel + (second ? width : 0) + n % width;
    std::memcpy(to + at * 4, &value, sizeof value);
  }
}

void PackedWeights::load_weight(const moert_piece_t& piece, const std::string& what) {
  const MlpShape& shape = layout_.shape;
  const bool down = piece.part == MOERT_PART_DOWN;
  const bool second = piece.part == MOERT_PART_UP && shape.gated;
  const int64_t width = down ? kPanel : layout_.width;
  if (rows_are_ != RowsAre::by_weight)
    expect_rows_quantised(piece, what, rows_are_ == RowsAre::quantised);
  const RowQuant rows(piece);
  put(piece, what,
      {down ? shape.hidden : shape.intermediate, down ? shape.intermediate : shape.hidden,
       second ? width : 0, width,
       of(piece.expert) + (down ? layout_.down_panel(0) : layout_.up_panel(0))});
  row_quants_[static_cast<size_t>(piece.expert) * kParts + piece.part] = rows;
}

void PackedWeights::put(const moert_piece_t& piece, const std::string& what,
                        const Place& to) const {
  if (scheme_.dtype == 0) {
    const WeightDecoder decoder(piece, what, to.rows, to.cols);
    return pack_decoded(decoder, to.rows, to.cols, to.first, to.width, to.panels);
  }
  expect_weight(piece, what, scheme_.dtype, to.rows, to.cols);
  switch (scheme_.format.storage) {
    case Storage::mxfp4: return pack_mxfp4({piece.tensor, to.first, to.width, to.panels}, what);
    case Storage::fp8:
    case Storage::int8:
      return pack_bytes({piece.tensor, &scheme_, to.first, to.width, to.panels,
                         second_scale(piece, what, to.rows, to.cols, scheme_)},
                        what);
    default: break;
  }
  pack({matrix(piece.tensor, what.c_str(), {scheme_.dtype}, to.rows, to.cols, MOERT_DATA_LOSS),
        scheme_.format.storage, to.first, to.width, to.panels});
}

void PackedWeights::read(int64_t expert, void* bundle) const {
  std::memcpy(bundle, of(expert), static_cast<size_t>(layout_.bytes));
}

void PackedWeights::write(int64_t expert, const void* bundle) {
  std::memcpy(of(expert), bundle, static_cast<size_t>(layout_.bytes));
}

}  // namespace moert::cpu::simd
