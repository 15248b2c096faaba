// Quant methods with options, and what all of them owe to a static input scale.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>
#include <moert/sdk/tensor.hpp>

#include <string>
#include <utility>
#include <vector>

#include "host.hpp"

namespace moert::conformance {

struct ScaledFormat {
  const moert_quant_method_t& table;
  void* self;
  const std::string& scheme;
};

// Name and body of tests, each for a scheme.
using FormatTests = std::vector<std::pair<const char*, void (*)(const ScaledFormat&)>>;

using Options = std::vector<std::pair<const char*, const char*>>;

// Another object for the scheme. Skips the test if the feature does not take the options.
class Optioned {
 public:
  Optioned(const ScaledFormat& method, const Options& options);
  ~Optioned() { table_.destroy(self_); }
  Optioned(const Optioned&) = delete;
  Optioned& operator=(const Optioned&) = delete;
  ScaledFormat format() const { return {table_, self_, scheme_}; }

 private:
  TestHost host_;
  const moert_quant_method_t& table_;
  std::string scheme_;
  void* self_ = nullptr;
};

// Fails unless the object takes no such option.
void must_not_take(const ScaledFormat& method, const char* key, const char* value);

std::vector<moert_quant_param_t> parameters_of(const ScaledFormat& method, int64_t rows,
                                               int64_t cols);
// The tensor of that kind, or nullptr.
const moert_quant_param_t* find_param(const std::vector<moert_quant_param_t>& all, uint32_t param);

std::vector<float> decoded_rows(const ScaledFormat& method, const moert_tensor_t* weight,
                                int64_t first, int64_t rows, int64_t cols, int64_t stride);
// check and decode of the view fail with one of the codes.
void must_refuse(const ScaledFormat& method, const char* what, const moert_tensor_t* view,
                 int64_t cols, std::initializer_list<moert_code_t> codes = {MOERT_DATA_LOSS});

// A finite number stays finite: rows of the largest of f32 are encoded into `weight`, of so many rows and columns.
void expect_finite(const ScaledFormat& method, const moert_tensor_t* weight, int64_t rows,
                   int64_t cols);

// An object that quantises activations by an input scale names it and asks for it: `weight`, whose record is
// `quant`, is refused without one. `rows` and `cols` are the weight's.
void expect_input_scale(const ScaledFormat& method, const moert_tensor_t* weight,
                        moert_quant_view_t& quant, int64_t rows, int64_t cols);

}  // namespace moert::conformance
