// A layer of experts of the cpu plugin: random weights from a seed, batches, forwards on any number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>
#include <moert/abi/routed_experts.h>
#include <moert/sdk/tensor.hpp>

#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "runtime/host_services.hpp"

namespace moert::cpu::testing {

struct Sizes {
  int64_t hidden, intermediate, experts, top_k;
};

struct Case {
  const char* name;
  Sizes sizes;
  uint32_t rows = MOERT_DTYPE_BF16;
  const char* scheme = "bf16";
  uint32_t out = MOERT_DTYPE_F32;
  moert_activation_t activation = {sizeof(moert_activation_t), 0, "silu", 0, 0, 0};
  uint32_t flags = 0;
  const char* act_scheme = "none";
  const char* global = "none";  // of fp8: what a second scale does
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }  // for gtest

// A candidate's table.
const void* feature_table(const std::string& kind, const std::string& feature);
// Numbers in [-scale, scale], rounded to `dtype`.
std::vector<unsigned char> random_numbers(std::mt19937_64& random, uint32_t dtype, int64_t count,
                                          double scale);

// The problem of a case; borrows the case.
moert_moe_problem_t problem_of(const Case& c);

struct Batch {
  int64_t tokens = 0;
  std::vector<unsigned char> hidden;  // of the case's dtype
  std::vector<int32_t> ids;
  std::vector<float> weights;

  Batch row(const Case& c, int64_t token) const;
};

enum class Routing { random, one_expert, with_gaps };
Batch make_batch(const Case& c, int64_t tokens, Routing routing);

// What a candidate says to a problem: its reason, or "" where it accepts.
std::string reason_of(const char* candidate, const moert_moe_problem_t& problem);
// Whether MOERT_CPU_ISA asks for what this machine lacks.
bool level_is_absent();

inline constexpr char kMxfp4[] = "mxfp4.g32.e8m0";
inline constexpr char kFp8Blocks[] = "fp8_e4m3fn.block128x128.f32";

enum class Weights { random, ones };
// Is handed every piece that a layer is loaded with.
using Sink = std::function<void(const moert_piece_t&)>;

class Layer {
 public:
  // Loads and finishes. Throws std::runtime_error with the plugin's words.
  Layer(const char* candidate, const Case& c, int32_t threads, Weights weights = Weights::random,
        Sink sink = {});
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer();

  // Rows of the output, dense. `gap` numbers lie between two numbers of a row, in hidden and out.
  std::vector<unsigned char> forward(const Batch& batch, int64_t gap = 0) const;
  std::vector<double> numbers(const Batch& batch) const;

 private:
  void put(const moert_piece_t& piece) const;
  void load(std::mt19937_64& random, Weights weights, int64_t expert, uint32_t part,
            uint32_t role) const;
  void load_mxfp4(std::mt19937_64& random, moert_piece_t piece, int64_t rows, int64_t cols) const;
  void load_bytes(std::mt19937_64& random, moert_piece_t piece, int64_t rows, int64_t cols) const;
  void load_coded(moert_piece_t piece, TensorView& weight, const TensorView& scale) const;

  const Case case_;
  const Sink sink_;
  runtime::HostServices host_;
  const moert_routed_experts_t& table_;
  void* self_ = nullptr;
  // Of a layer of mxfp4, fp8 or int8.
  const moert_quant_method_t* quant_ = nullptr;
  void* quant_self_ = nullptr;
};

}  // namespace moert::cpu::testing
