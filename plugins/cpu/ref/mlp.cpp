// One or more gated MLPs: their weights as f32, and one row through one of them in f64.
// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include "matrix.hpp"

namespace moert::cpu {

MlpWeights::MlpWeights(const Host& host, const MlpShape& shape, int64_t count)
    : shape_(shape),
      count_(count),
      floats_(0),
      data_(nullptr, Host::Free{host.get()}),
      pieces_(shape, 0) {
  int64_t total = 0;
  if (!shape.count(&floats_) || !product({floats_, count}, &total))
    throw PluginError(MOERT_INVALID_ARGUMENT, "the weights' sizes do not fit 64 bits");
  data_ = host.alloc<float>(static_cast<uint64_t>(total), "decoded weights");
  pieces_ = Pieces(shape, count);
  row_quants_.resize(static_cast<size_t>(count) * kScales);
}

MlpWeights::Place MlpWeights::place(uint32_t part, uint32_t role) const {
  const int64_t h = shape_.hidden;
  const int64_t i = shape_.intermediate;
  const int64_t halves = shape_.gated ? 2 : 1;
  const int64_t half = part == MOERT_PART_UP && shape_.gated ? 1 : 0;
  if (part == MOERT_PART_GATE && !shape_.gated) return {-1, 0, 0};
  if (role == MOERT_ROLE_WEIGHT) {
    if (part == MOERT_PART_DOWN) return {halves * i * h, h, i};
    return {half * i * h, i, h};
  }
  if (!shape_.biased) return {-1, 0, 0};
  const int64_t biases = (halves + 1) * i * h;
  if (part == MOERT_PART_DOWN) return {biases + halves * i, 1, h};
  return {biases + half * i, 1, i};
}

void MlpWeights::load(const moert_piece_t& piece) {
  const std::string what = pieces_.expect(piece);
  const Place to = place(piece.part, piece.role);
  float* data = of(piece.expert) + to.first;
  if (piece.role == MOERT_ROLE_BIAS) {
    const Matrix bias =
        matrix(piece.tensor, what.c_str(), {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16}, 1,
               to.cols, MOERT_DATA_LOSS);
    for (int64_t c = 0; c < to.cols; ++c) data[c] = static_cast<float>(bias.number(0, c));
  } else {
    const RowQuant rows(piece);
    decode_weight(piece, what, to.rows, to.cols, data);
    row_quants_[static_cast<size_t>(piece.expert) * kScales + piece.part] = rows;
  }
  pieces_.take(piece);
}

uint64_t MlpWeights::bundle_bytes() const {
  for (size_t at = kScales; at < row_quants_.size(); ++at)
    if (!row_quants_[at].like(row_quants_[at % kScales]))
      throw PluginError(MOERT_UNIMPLEMENTED,
                        "experts of different formats cannot be put in each other's place");
  return static_cast<uint64_t>(floats_ + kScales) * sizeof(float);
}

void MlpWeights::read(int64_t mlp, void* bundle) const {
  auto* to = static_cast<float*>(bundle);
  std::copy_n(of(mlp), floats_, to);
  for (int part = 0; part < kScales; ++part)
    to[floats_ + part] =
        row_quants_[static_cast<size_t>(mlp * kScales + part)].input_scale().value_or(0.0f);
}

void MlpWeights::write(int64_t mlp, const void* bundle) {
  const auto* from = static_cast<const float*>(bundle);
  std::copy_n(from, floats_, of(mlp));
  for (int part = 0; part < kScales; ++part) {
    RowQuant& rows = row_quants_[static_cast<size_t>(mlp * kScales + part)];
    if (rows.input_scale()) rows.set_input_scale(from[floats_ + part]);
  }
}

const double* MlpWeights::quantized(int64_t mlp, uint32_t part, const double* row, int64_t cols,
                                    double* to) const {
  const RowQuant& quant = row_quants_[static_cast<size_t>(mlp) * kScales + part];
  if (!quant.changes()) return row;
  quant.apply(row, cols, reinterpret_cast<float*>(to + cols), to);
  return to;
}

void MlpWeights::hidden_row(int64_t mlp, const Activation& act, const double* x, double* mid,
                            double* spare) const {
  const float* weights = of(mlp);
  const int64_t h = shape_.hidden;
  const float* gate =
      weights + (shape_.gated ? place(MOERT_PART_GATE, MOERT_ROLE_WEIGHT).first : 0);
  const float* up = weights + place(MOERT_PART_UP, MOERT_ROLE_WEIGHT).first;
  const float* up_bias =
      shape_.biased ? weights + place(MOERT_PART_UP, MOERT_ROLE_BIAS).first : nullptr;
  const float* gate_bias = shape_.biased && shape_.gated
                               ? weights + place(MOERT_PART_GATE, MOERT_ROLE_BIAS).first
                               : nullptr;
  const double* up_x = quantized(mlp, MOERT_PART_UP, x, h, spare);
  const double* gate_x = shape_.gated ? quantized(mlp, MOERT_PART_GATE, x, h, spare + h) : x;
  for (int64_t i = 0; i < shape_.intermediate; ++i) {
    double u = dot(up + i * h, up_x, h);
    if (up_bias != nullptr) u += static_cast<double>(up_bias[i]);
    if (!shape_.gated) {
      mid[i] = act.plain(u);
      continue;
    }
    double g = dot(gate + i * h, gate_x, h);
    if (gate_bias != nullptr) g += static_cast<double>(gate_bias[i]);
    mid[i] = act.gated(g, u);
  }
}

}  // namespace moert::cpu
