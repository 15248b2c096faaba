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

// Passes on what a quant method reported, with the tensor that it was about.
void expect_ok(moert_code_t code, const moert_error_t& error, const std::string& what) {
  if (code != MOERT_OK) throw PluginError(code, what + ": " + error.message, error.native_code);
}

void decode_weight(const moert_piece_t& piece, const moert_tensor_t& tensor,
                   const std::string& what, int64_t rows, int64_t cols, float* to) {
  if (piece.quant == nullptr)
    throw PluginError(MOERT_INVALID_ARGUMENT, what + " comes without a quant method to read it");
  const moert_quant_method_t quant = intake(piece.quant);
  if (quant.check == nullptr || quant.decode == nullptr)
    throw PluginError(MOERT_UNIMPLEMENTED, what + ": its quant method cannot check or decode");
  moert_error_t error{};
  error.struct_size = sizeof error;
  expect_ok(quant.check(piece.quant_self, &tensor, &error), error, what);
  if (tensor.rank != 2 || tensor.shape[0] != rows || tensor.shape[1] != cols) {
    const int64_t shape[] = {rows, cols};
    throw PluginError(MOERT_DATA_LOSS, what + " is " + tensor_text(tensor) + ", expected shape " +
                                           shape_text(shape, 2));
  }
  expect_ok(quant.decode(piece.quant_self, &tensor, 0, rows, to, cols, &error), error, what);
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
    decode_weight(piece, intake(piece.tensor), what, to.rows, to.cols, data);
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

void MlpWeights::hidden_row(const float* weights, const Activation& act, const double* x,
                            double* mid) const {
  const float* gate =
      weights + (shape_.gated ? place(MOERT_PART_GATE, MOERT_ROLE_WEIGHT).first : 0);
  const float* up = weights + place(MOERT_PART_UP, MOERT_ROLE_WEIGHT).first;
  const float* up_bias =
      shape_.biased ? weights + place(MOERT_PART_UP, MOERT_ROLE_BIAS).first : nullptr;
  const float* gate_bias = shape_.biased && shape_.gated
                               ? weights + place(MOERT_PART_GATE, MOERT_ROLE_BIAS).first
                               : nullptr;
  for (int64_t i = 0; i < shape_.intermediate; ++i) {
    double u = dot(up + i * shape_.hidden, x, shape_.hidden);
    if (up_bias != nullptr) u += static_cast<double>(up_bias[i]);
    if (!shape_.gated) {
      mid[i] = act.plain(u);
      continue;
    }
    double g = dot(gate + i * shape_.hidden, x, shape_.hidden);
    if (gate_bias != nullptr) g += static_cast<double>(gate_bias[i]);
    mid[i] = act.gated(g, u);
  }
}

}  // namespace moert::cpu
