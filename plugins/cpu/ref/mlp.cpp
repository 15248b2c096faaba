// One or more gated MLPs: their weights as f32, and one row through one of them in f64.
// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include "matrix.hpp"

namespace moert::cpu {
namespace {

constexpr const char* kParts[] = {"gate", "up", "down"};
constexpr const char* kRoles[] = {"weight", "bias"};

std::string title(int64_t expert, uint32_t part, uint32_t role) {
  return "expert " + std::to_string(expert) + ", " + kParts[part] + " " + kRoles[role];
}

}  // namespace

bool MlpShape::count(int64_t* floats) const {
  int64_t matrices = 0;
  if (!product({gated ? 3 : 2, hidden, intermediate}, &matrices)) return false;
  const int64_t biases = biased ? (gated ? 2 : 1) * intermediate + hidden : 0;
  *floats = matrices + biases;
  return product({*floats, static_cast<int64_t>(sizeof(float))}, &matrices);
}

MlpWeights::MlpWeights(const Host& host, const MlpShape& shape, int64_t count)
    : shape_(shape), count_(count), floats_(0), data_(nullptr, Host::Free{host.get()}) {
  int64_t total = 0;
  if (!shape.count(&floats_) || !product({floats_, count}, &total))
    throw PluginError(MOERT_INVALID_ARGUMENT, "the weights' sizes do not fit 64 bits");
  data_ = host.alloc<float>(static_cast<uint64_t>(total), "decoded weights");
  loaded_.assign(static_cast<size_t>(count) * kTensors, 0);
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
  must_understand(piece.flags, 0, "piece");
  if (piece.role == MOERT_ROLE_LORA_A || piece.role == MOERT_ROLE_LORA_B)
    throw PluginError(MOERT_UNIMPLEMENTED, "adapters (LoRA) cannot be loaded here");
  if (piece.part > MOERT_PART_DOWN || piece.role > MOERT_ROLE_BIAS)
    throw PluginError(MOERT_INVALID_ARGUMENT, "part " + std::to_string(piece.part) + ", role " +
                                                  std::to_string(piece.role) + " is no tensor");
  if (piece.expert < 0 || piece.expert >= count_)
    throw PluginError(MOERT_INVALID_ARGUMENT, "expert " + std::to_string(piece.expert) +
                                                  " is not in [0, " + std::to_string(count_) + ")");
  const std::string what = title(piece.expert, piece.part, piece.role);
  const Place to = place(piece.part, piece.role);
  if (to.first < 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, what + ": experts of this layer have no such tensor");
  uint8_t& loaded =
      loaded_[static_cast<size_t>(piece.expert) * kTensors + piece.role * 3 + piece.part];
  if (loaded != 0) throw PluginError(MOERT_ALREADY_EXISTS, what + " was loaded before");
  if (piece.tensor == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, what + " is missing");
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
  loaded = 1;
}

void MlpWeights::expect_complete() const {
  for (int64_t mlp = 0; mlp < count_; ++mlp)
    for (uint32_t role = 0; role < 2; ++role)
      for (uint32_t part = 0; part < 3; ++part)
        if (place(part, role).first >= 0 &&
            loaded_[static_cast<size_t>(mlp) * kTensors + role * 3 + part] == 0)
          throw PluginError(MOERT_FAILED_PRECONDITION,
                            title(mlp, part, role) + " was never loaded");
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
