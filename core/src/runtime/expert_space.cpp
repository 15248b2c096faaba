// SPDX-License-Identifier: Apache-2.0
#include "runtime/expert_space.hpp"

#include <algorithm>
#include <cmath>

#include <moert/sdk/adapter.hpp>
#include <moert/sdk/tensor.hpp>
#include <moert/sdk/weight.hpp>

#include "runtime/call.hpp"

namespace moert::runtime {

namespace {

constexpr uint32_t kSpaceFlags =
    MOERT_LAYER_LATENT | MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT | MOERT_LAYER_OUTPUT_BIAS;

std::vector<float> plain(const moert_tensor_t& tensor, int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  const int64_t stride = tensor.strides[tensor.rank - 1];
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i)] = read_f32(tensor, i * stride);
  return values;
}

}  // namespace

ExpertSpace::ExpertSpace(const Host& host, const moert_moe_layer_t& layer)
    : host_(host),
      flags_(layer.flags & kSpaceFlags),
      hidden_(layer.hidden_size != 0 ? layer.hidden_size : layer.experts->hidden_size),
      width_(layer.experts->hidden_size),
      eps_(layer.norm_eps) {}

ExpertSpace::Tensor ExpertSpace::tensor(uint32_t part) const {
  switch (part) {
    case MOERT_PART_LATENT_DOWN: return {"latent down", MOERT_LAYER_LATENT, width_, hidden_};
    case MOERT_PART_LATENT_UP: return {"latent up", MOERT_LAYER_LATENT, hidden_, width_};
    case MOERT_PART_EXPERT_NORM:
      return {"expert norm", MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT, 0, width_};
    case MOERT_PART_OUTPUT_BIAS: return {"output bias", MOERT_LAYER_OUTPUT_BIAS, 0, hidden_};
    default:
      throw PluginError(MOERT_INVALID_ARGUMENT,
                        "part " + std::to_string(part) + " is no tensor of a layer");
  }
}

void ExpertSpace::load(const moert_piece_t& piece) {
  must_understand(piece.flags, 0, "piece");
  const Tensor wanted = tensor(piece.part);
  const std::string what(wanted.name);
  if (piece.role != MOERT_ROLE_WEIGHT)
    throw PluginError(MOERT_INVALID_ARGUMENT, what + " has one role, the weight");
  if ((flags_ & wanted.needed_by) == 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "the layer has no " + what);
  std::vector<float>* const to[] = {&down_, &up_, &norm_, &bias_};
  std::vector<float>& values = *to[piece.part - MOERT_PART_LATENT_DOWN];
  if (!values.empty()) throw PluginError(MOERT_ALREADY_EXISTS, what + " was loaded before");
  if (wanted.rows == 0) {
    expect_tensor(piece.tensor, wanted.name, piece.tensor != nullptr ? piece.tensor->dtype : 0,
                  {wanted.cols});
    values = plain(*piece.tensor, wanted.cols);
  } else {
    const RowQuant rows(piece);
    std::vector<float> matrix(static_cast<size_t>(wanted.rows * wanted.cols));
    decode_weight(piece, what, wanted.rows, wanted.cols, matrix.data());
    (piece.part == MOERT_PART_LATENT_DOWN ? down_rows_ : up_rows_) = rows;
    values = std::move(matrix);
  }
}

void ExpertSpace::expect_complete() const {
  const std::vector<float>* const have[] = {&down_, &up_, &norm_, &bias_};
  for (uint32_t part = MOERT_PART_LATENT_DOWN; part <= MOERT_PART_OUTPUT_BIAS; ++part) {
    const Tensor wanted = tensor(part);
    if ((flags_ & wanted.needed_by) != 0 && have[part - MOERT_PART_LATENT_DOWN]->empty())
      throw PluginError(MOERT_FAILED_PRECONDITION, std::string(wanted.name) + " was never loaded");
  }
}

void ExpertSpace::multiply(const std::vector<float>& matrix, const double* x, int64_t rows,
                           int64_t cols, double* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = matrix.data() + r * cols;
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += static_cast<double>(row[c]) * x[c];
    y[r] = sum;
  }
}

void ExpertSpace::normalize(double* row) const {
  double squares = 0;
  for (int64_t i = 0; i < width_; ++i) squares += row[i] * row[i];
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width_) + eps_);
  for (int64_t i = 0; i < width_; ++i)
    row[i] *= factor * static_cast<double>(norm_[static_cast<size_t>(i)]);
}

void ExpertSpace::enter(const moert_tensor_t& rows, const moert_tensor_t& expert_rows,
                        double* scratch_of_all) const {
  host_.parallel_for(rows.shape[0], 1, [&](int64_t begin, int64_t end, int32_t worker) {
    double* x = scratch_of_all + worker * scratch();
    double* z = (flags_ & MOERT_LAYER_LATENT) != 0 ? x + hidden_ : x;
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t c = 0; c < hidden_; ++c)
        x[c] = static_cast<double>(read_f32(rows, t * rows.strides[0] + c * rows.strides[1]));
      if (z != x) {
        if (down_rows_.changes())
          down_rows_.apply(x, hidden_, reinterpret_cast<float*>(x + hidden_ + width_), x);
        multiply(down_, x, width_, hidden_, z);
      }
      if ((flags_ & MOERT_LAYER_NORM_IN) != 0) normalize(z);
      for (int64_t c = 0; c < width_; ++c)
        write_f32(expert_rows, t * expert_rows.strides[0] + c, static_cast<float>(z[c]));
    }
  });
}

void ExpertSpace::leave(const float* given, double scale, double* scratch, double* row) const {
  double* inner = (flags_ & MOERT_LAYER_LATENT) != 0 ? scratch : row;
  for (int64_t i = 0; i < width_; ++i) inner[i] = static_cast<double>(given[i]);
  if ((flags_ & MOERT_LAYER_NORM_OUT) != 0) normalize(inner);
  if ((flags_ & MOERT_LAYER_LATENT) != 0) {
    if (up_rows_.changes())
      up_rows_.apply(inner, width_, reinterpret_cast<float*>(scratch + hidden_ + width_), inner);
    multiply(up_, inner, hidden_, width_, row);
  }
  for (int64_t h = 0; h < hidden_; ++h) {
    row[h] *= scale;
    if (!bias_.empty()) row[h] += static_cast<double>(bias_[static_cast<size_t>(h)]);
  }
}

}  // namespace moert::runtime
