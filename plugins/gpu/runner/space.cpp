// The space in which a layer's experts work, where it isn't that of the layer's rows: tensors and stages.
// SPDX-License-Identifier: Apache-2.0
#include "space.hpp"

#include <moert/sdk/adapter.hpp>
#include <moert/sdk/tensor.hpp>
#include <moert/sdk/weight.hpp>

#include <string>

#include "../dense/factors.hpp"
#include "../dense/numbers.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kSpaceFlags =
    MOERT_LAYER_LATENT | MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT | MOERT_LAYER_OUTPUT_BIAS;

}  // namespace

ExpertSpace::ExpertSpace(const moert_moe_layer_t& layer)
    : flags_(layer.flags & kSpaceFlags),
      ordinal_(layer.experts->device.ordinal),
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
  if (!has(wanted.needed_by)) throw PluginError(MOERT_INVALID_ARGUMENT, "the layer has no " + what);
  if (!array(piece.part).empty())
    throw PluginError(MOERT_ALREADY_EXISTS, what + " was loaded before");
  if (wanted.rows == 0)
    load_vector(piece, wanted);
  else
    load_matrix(piece, wanted);
}

// Any float type, read as f32.
void ExpertSpace::load_vector(const moert_piece_t& piece, const Tensor& wanted) {
  const Matrix source = matrix(piece.tensor, wanted.name, kFloats, 1, wanted.cols, kCpu);
  std::vector<double> numbers(static_cast<size_t>(whole_runs(wanted.cols)));
  for (int64_t c = 0; c < wanted.cols; ++c)
    numbers[static_cast<size_t>(c)] = static_cast<double>(static_cast<float>(number(source, 0, c)));
  array(piece.part) = DeviceMemory(ordinal_, numbers, std::string(wanted.name));
}

void ExpertSpace::load_matrix(const moert_piece_t& piece, const Tensor& wanted) {
  const std::string what(wanted.name);
  if (RowQuant(piece).changes())
    throw PluginError(MOERT_UNIMPLEMENTED,
                      what +
                          ": its quant method quantises rows on the host, and these are on a "
                          "device; load the weight without `activations`");
  std::vector<float> decoded(static_cast<size_t>(wanted.rows * wanted.cols));
  decode_weight(piece, what, wanted.rows, wanted.cols, decoded.data());
  const TensorView view(decoded.data(), MOERT_DTYPE_F32, {wanted.rows, wanted.cols});
  const Matrix source =
      matrix(view, wanted.name, {MOERT_DTYPE_F32}, wanted.rows, wanted.cols, kCpu);
  array(piece.part) = DeviceMemory(ordinal_, padded_rows(source), what);
}

void ExpertSpace::expect_complete() const {
  for (uint32_t part = MOERT_PART_LATENT_DOWN; part <= MOERT_PART_OUTPUT_BIAS; ++part) {
    const Tensor wanted = tensor(part);
    if (has(wanted.needed_by) && array(part).empty())
      throw PluginError(MOERT_FAILED_PRECONDITION, std::string(wanted.name) + " was never loaded");
  }
}

DenseMatrix ExpertSpace::matrix_of(uint32_t part) const {
  const Tensor shape = tensor(part);
  return {array(part).data<void>(), shape.rows, whole_runs(shape.cols), Float::f32};
}

ExpertSpace::Memory ExpertSpace::carve(Arena& arena, int64_t tokens) const {
  Memory memory;
  if (has(MOERT_LAYER_NORM_IN) && has(MOERT_LAYER_LATENT))
    memory.inner = arena.take<double>(tokens * width_);
  if (has(MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT)) memory.factors = arena.take<double>(tokens);
  return memory;
}

void ExpertSpace::enter(int warp, void* stream, const Memory& memory, const FloatRows& rows,
                        const FloatRows& expert_rows) const {
  FloatRows inner = rows;
  if (has(MOERT_LAYER_LATENT)) {
    inner = expert_rows;
    if (has(MOERT_LAYER_NORM_IN)) {  // rounded behind the norm, and not before
      inner.data = memory.inner;
      inner.row_stride = width_;
      inner.col_stride = 1;
      inner.type = Float::f64;
    }
    launch_project(warp, stream, rows, matrix_of(MOERT_PART_LATENT_DOWN), inner);
  }
  if (!has(MOERT_LAYER_NORM_IN)) return;
  launch_row_factors(warp, stream, {inner, eps_, 1, memory.factors});
  const RowNorm norm = {memory.factors, array(MOERT_PART_EXPERT_NORM).data<double>()};
  launch_norm_rows(stream, inner, norm, expert_rows);
}

void ExpertSpace::leave(int warp, void* stream, const Memory& memory, const FloatRows& given,
                        OutputArgs args) const {
  args.bias = array(MOERT_PART_OUTPUT_BIAS).data<double>();
  RowNorm norm;
  if (has(MOERT_LAYER_NORM_OUT)) {
    launch_row_factors(warp, stream, {given, eps_, 1, memory.factors});
    norm = {memory.factors, array(MOERT_PART_EXPERT_NORM).data<double>()};
  }
  if (has(MOERT_LAYER_LATENT))
    launch_project_and_combine(warp, stream, given, norm, matrix_of(MOERT_PART_LATENT_UP), args);
  else
    launch_combine(stream, given, norm, args);
}

}  // namespace moert::gpu
