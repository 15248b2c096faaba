// Faults of quant methods: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "faulty.hpp"

namespace moert::faulty {

const moert_quant_method_t* quant;
moert_quant_method_t own_quant;

namespace {

moert_code_t reads_densely(void* self, const moert_tensor_t* weight, int64_t first, int64_t rows,
                           float* out, int64_t stride, moert_error_t* e) {
  moert_tensor_t copy = weight == nullptr ? moert_tensor_t{} : *weight;
  const int64_t strides[] = {copy.rank == 2 ? copy.shape[1] : 0, 1};
  if (copy.rank != 2 || copy.strides[0] < 0 || copy.strides[0] > 100)
    return quant->decode(self, weight, first, rows, out, stride, e);
  copy.strides = strides;
  return quant->decode(self, &copy, first, rows, out, stride, e);
}

moert_code_t ignores_companions(void* self, const moert_tensor_t* weight, moert_error_t* e) {
  moert_tensor_t copy = *weight;
  copy.quant = nullptr;
  return quant->check(self, &copy, e);
}

}  // namespace

bool spoil_quant(std::string_view fault) {
  if (fault == "reads_densely")
    own_quant.decode = reads_densely;
  else if (fault == "ignores_companions")
    own_quant.check = ignores_companions;
  else
    return false;
  return true;
}

}  // namespace moert::faulty
