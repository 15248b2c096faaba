// Checkpoints in the formats of quantised releases. Codes and scales are drawn, and what they stand for is
// computed here from the definitions, in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "plain_layer.hpp"
#include "support/safetensors_edit.hpp"

namespace moert::bugs {

// e4m3: four bits of exponent, three of fraction.
inline double e4m3_number(int code, int bias = 7) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double value = exponent == 0 ? std::ldexp(fraction, -2 - bias)
                                     : std::ldexp(8 + fraction, exponent - 3 - bias);
  return (code & 0x80) != 0 ? -value : value;
}
inline double e8m0_number(int code) { return std::ldexp(1.0, code - 127); }
inline double e2m1_number(int code) {
  constexpr double kNumbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kNumbers[code & 7] : kNumbers[code & 7];
}
// The e4m3 number next to a magnitude, the one with an even code of two; at most 448.
inline float nearest_e4m3(float value) {
  int best = 0;
  const auto distance = [&](int code) {
    return std::abs(static_cast<double>(std::abs(value)) - e4m3_number(code));
  };
  for (int code = 1; code < 0x7f; ++code)
    if (distance(code) < distance(best) || (distance(code) == distance(best) && code % 2 == 0))
      best = code;
  return static_cast<float>(std::copysign(e4m3_number(best), static_cast<double>(value)));
}

// Of the numbers of four bits, the same.
inline float nearest_e2m1(float value) {
  const auto magnitude = static_cast<double>(std::abs(value));
  int best = 0;
  for (int code = 1; code < 8; ++code) {
    const double here = std::abs(magnitude - e2m1_number(code));
    const double there = std::abs(magnitude - e2m1_number(best));
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return static_cast<float>(std::copysign(e2m1_number(best), static_cast<double>(value)));
}

// What is left of a row before it is multiplied.
using RowRule = std::function<void(std::vector<float>&)>;
inline void as_it_is(std::vector<float>& /*row*/) {}
inline RowRule by_scale(float scale) {
  return [scale](std::vector<float>& row) {
    for (float& x : row) x = nearest_e4m3(x / scale) * scale;
  };
}
// NVFP4: a scale in e4m3 for each 16 columns, under one for all.
inline RowRule by_nvfp4(float scale) {
  return [scale](std::vector<float>& row) {
    for (size_t begin = 0; begin < row.size(); begin += 16) {
      const size_t end = std::min(begin + 16, row.size());
      float amax = 0;
      for (size_t c = begin; c < end; ++c) amax = std::max(amax, std::abs(row[c]));
      const float block = nearest_e4m3(amax / 6 / scale), step = block * scale;
      for (size_t c = begin; c < end; ++c)
        row[c] = step == 0 ? 0 : nearest_e2m1(row[c] / step) * block * scale;
    }
  };
}
// DeepSeek: a scale for each so many columns as a block of the weight has, or a power of two above it.
inline RowRule by_groups_of(size_t cols, bool power_of_two) {
  return [=](std::vector<float>& row) {
    for (size_t begin = 0; begin < row.size(); begin += cols) {
      const size_t end = std::min(begin + cols, row.size());
      float amax = 1e-4f;
      for (size_t c = begin; c < end; ++c) amax = std::max(amax, std::abs(row[c]));
      float scale = amax / 448;
      if (power_of_two) scale = std::exp2(std::ceil(std::log2(scale)));
      for (size_t c = begin; c < end; ++c) row[c] = nearest_e4m3(row[c] / scale) * scale;
    }
  };
}

inline RowRule by_groups_of_128(bool power_of_two) { return by_groups_of(128, power_of_two); }

struct Weight {
  int64_t rows = 0, cols = 0;
  std::vector<double> values;

  std::vector<double> times(std::vector<float> x, const RowRule& rule) const {
    rule(x);
    std::vector<double> y(static_cast<size_t>(rows), 0.0);
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t c = 0; c < x.size(); ++c)
        y[r] += values[r * x.size() + c] * static_cast<double>(x[c]);
    return y;
  }
};

struct QuantisedExpert {
  Weight gate, up, down;  // no gate: empty
};

inline std::vector<double> output_of(const QuantisedExpert& expert, const std::vector<float>& row,
                                     const RowRule& rule, const PlainActivation& act = silu) {
  const std::vector<double> up = expert.up.times(row, rule);
  const std::vector<double> gate = expert.gate.rows != 0 ? expert.gate.times(row, rule) : up;
  std::vector<float> inner(up.size());
  for (size_t i = 0; i < up.size(); ++i) inner[i] = static_cast<float>(act(gate[i], up[i]));
  return expert.down.times(inner, rule);
}

// How a release stores scales of FP8; 0: of the whole dimension.
struct Fp8Blocks {
  int64_t rows = 0, cols = 0;
  std::string name = "weight_scale_inv";
  uint32_t dtype = MOERT_DTYPE_F32;
  std::vector<int64_t> shape = {-1};  // else as many as there are blocks, [down, right]
};

// A checkpoint folder under construction.
class Release {
 public:
  explicit Release(const Tiny& base, uint32_t seed = 1) : config(base.config), random_(seed) {
    for (const auto& [name, tensor] : base.tensors) edit.add_f32(name, tensor.shape, tensor.values);
  }
  Json config;
  testing::SafetensorsEdit edit;

  int64_t number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  void put(const std::string& name, uint32_t dtype, std::vector<int64_t> shape,
           const std::vector<uint8_t>& bytes) {
    edit.add(name, std::move(shape), dtype);
    ASSERT_EQ(edit.tensors.back().data.size(), bytes.size()) << name;
    std::memcpy(edit.tensors.back().data.data(), bytes.data(), bytes.size());
  }
  void put_number(const std::string& name, std::vector<int64_t> shape, float value) {
    edit.add_f32(name, std::move(shape), {value});
  }
  // Exact in f32, bf16 and f16, or a power of two: codes times it are weights of about 1.
  double put_scales(const std::string& name, uint32_t dtype, std::vector<int64_t> shape,
                    std::vector<double>* values) {
    std::vector<uint8_t> bytes;
    for (double& value : *values) {
      const auto byte = static_cast<int>(number(116, 119));
      value = dtype == MOERT_DTYPE_F8_E8M0 ? e8m0_number(byte)
                                           : static_cast<double>(number(65, 255)) * 0x1p-16;
      const auto single = static_cast<float>(value);
      uint32_t bits = 0;
      std::memcpy(&bits, &single, sizeof bits);
      if (dtype == MOERT_DTYPE_F8_E8M0) bits = static_cast<uint32_t>(byte);
      if (dtype == MOERT_DTYPE_BF16) bits >>= 16;
      if (dtype == MOERT_DTYPE_F16) bits = f32_to_f16(single);
      for (uint64_t b = 0; b < dtype_bytes(dtype, 1); ++b)
        bytes.push_back(static_cast<uint8_t>(bits >> (8 * b)));
    }
    put(name, dtype, std::move(shape), bytes);
    return values->front();
  }

  // `module`.weight and its scales.
  Weight fp8(const std::string& module, int64_t rows, int64_t cols, const Fp8Blocks& how = {}) {
    const int64_t high = how.rows == 0 ? rows : how.rows, wide = how.cols == 0 ? cols : how.cols;
    const int64_t down = (rows + high - 1) / high, right = (cols + wide - 1) / wide;
    std::vector<double> scales(static_cast<size_t>(down * right));
    const bool usual = how.shape == std::vector<int64_t>{-1};
    put_scales(module + "." + how.name, how.dtype,
               usual ? std::vector<int64_t>{down, right} : how.shape, &scales);
    Weight weight{rows, cols, {}};
    std::vector<uint8_t> codes;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        // Not NaN, and few of the largest.
        const int code = static_cast<int>(number(0, 0x6f) + 0x80 * number(0, 1));
        codes.push_back(static_cast<uint8_t>(code));
        weight.values.push_back(e4m3_number(code) *
                                scales[static_cast<size_t>(r / high * right + c / wide)]);
      }
    put(module + ".weight", MOERT_DTYPE_F8_E4M3FN, {rows, cols}, codes);
    return weight;
  }
  // `weight` and `scale`: MXFP4, or NVFP4 with a scale for all that is put by the caller.
  Weight fp4(const std::string& weight_name, const std::string& scale_name, int64_t rows,
             int64_t cols, uint32_t scale_dtype, double global = 1,
             uint32_t weight_dtype = MOERT_DTYPE_U8) {
    const bool nv = scale_dtype == MOERT_DTYPE_F8_E4M3FN;
    const int64_t group = nv ? 16 : 32;
    std::vector<uint8_t> scales, bytes;
    for (int64_t i = 0; i < rows * (cols / group); ++i)
      scales.push_back(static_cast<uint8_t>(nv ? number(0x30, 0x47) : number(122, 125)));
    Weight weight{rows, cols, {}};
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto code = static_cast<uint8_t>(number(0, 15));
      const uint8_t scale = scales[static_cast<size_t>(i / group)];
      weight.values.push_back(e2m1_number(code) * (nv ? e4m3_number(scale) : e8m0_number(scale)) *
                              global);
      if (i % 2 == 0)
        bytes.push_back(code);
      else
        bytes.back() = static_cast<uint8_t>(bytes.back() | code << 4);
    }
    put(weight_name, weight_dtype, {rows, cols / 2}, bytes);
    put(scale_name, scale_dtype, {rows, cols / group}, scales);
    return weight;
  }
  // Of bf16 numbers.
  Weight bf16(const std::string& name, int64_t rows, int64_t cols) {
    Weight weight{rows, cols, {}};
    std::vector<uint8_t> bytes;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto value = static_cast<float>(number(-128, 128)) / 256;
      const uint16_t bits = f32_to_bf16(value);
      bytes.insert(bytes.end(), {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)});
      weight.values.push_back(static_cast<double>(value));
    }
    put(name, MOERT_DTYPE_BF16, {rows, cols}, bytes);
    return weight;
  }

  fs::path save() const {
    fs::path folder = fresh_folder();
    write_text_file(folder / "config.json", config.dump(1));
    // Wide numbers first, as the usual writer has them: all are aligned.
    testing::SafetensorsEdit sorted = edit;
    std::stable_sort(sorted.tensors.begin(), sorted.tensors.end(),
                     [](const testing::EditTensor& a, const testing::EditTensor& b) {
                       return dtype_bits(a.dtype) > dtype_bits(b.dtype);
                     });
    sorted.write(folder / "model.safetensors");
    return folder;
  }

 private:
  std::mt19937 random_;
};

// One tensor after the other, under a new name.
inline void join(Release& release, const std::vector<std::string>& names, const std::string& as,
                 std::vector<int64_t> shape) {
  testing::EditTensor all{as, release.edit.at(names[0]).dtype, std::move(shape), {}};
  for (const std::string& name : names) {
    const std::vector<std::byte>& data = release.edit.at(name).data;
    all.data.insert(all.data.end(), data.begin(), data.end());
    release.edit.drop(name);
  }
  release.edit.tensors.push_back(std::move(all));
}

// Qwen3-MoE with its gates, and the beginning of its experts' names.
inline Tiny qwen3(const Sizes& s) {
  Tiny tiny;
  tiny.config = {{"model_type", "qwen3_moe"},
                 {"hidden_size", s.hidden},
                 {"intermediate_size", 7},
                 {"moe_intermediate_size", s.intermediate},
                 {"num_hidden_layers", s.layers},
                 {"num_experts", s.experts},
                 {"num_experts_per_tok", s.top_k},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", Json::array()},
                 {"norm_topk_prob", true},
                 {"hidden_act", "silu"},
                 {"torch_dtype", "bfloat16"}};
  for (int64_t layer = 0; layer < s.layers; ++layer)
    tiny.random("model.layers." + std::to_string(layer) + ".mlp.gate.weight", {s.experts, s.hidden},
                0.1f);
  return tiny;
}
inline std::string qwen3_expert(int64_t layer, int64_t expert) {
  return "model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(expert) + ".";
}

// Of a layer of qwen3(): gate_proj, up_proj and down_proj of every expert.
using PutWeight = std::function<Weight(const std::string& module, int64_t rows, int64_t cols)>;
inline std::vector<QuantisedExpert> put_experts(const Sizes& s, int64_t layer,
                                                const PutWeight& put) {
  std::vector<QuantisedExpert> experts;
  for (int64_t e = 0; e < s.experts; ++e) {
    const std::string name = qwen3_expert(layer, e);
    QuantisedExpert expert;
    expert.gate = put(name + "gate_proj", s.intermediate, s.hidden);
    expert.up = put(name + "up_proj", s.intermediate, s.hidden);
    expert.down = put(name + "down_proj", s.hidden, s.intermediate);
    experts.push_back(std::move(expert));
  }
  return experts;
}

inline Json fp8_config(int64_t rows, int64_t cols) {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {rows, cols}}};
}

inline std::vector<float> as_f32(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace moert::bugs
