// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include <moert/sdk/tensor.hpp>

namespace moert::capture {

std::string refusal(const moert_capture_spec_t& s) {
  if (s.device.kind != MOERT_DEVICE_CPU) return "decisions are not in host memory";
  return capture_refusal(s);
}

moert_capture_spec_t accepted(const moert_capture_spec_t& spec) {
  if (const std::string reason = refusal(spec); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return spec;
}

void expect_rows(const moert_tensor_t* t, const char* name, uint32_t dtype, int64_t rows,
                 int64_t cols) {
  if (cols > 0)
    expect_tensor(t, name, dtype, {-1, cols});
  else
    expect_tensor(t, name, dtype, {-1});
  must_understand(t->flags & 0xffff0000u, 0, name);
  const auto wrong = [&](const std::string& why) {
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      std::string(name) + " is " + tensor_text(*t) + ", " + why);
  };
  if (t->device.kind != MOERT_DEVICE_CPU) wrong("but not in host memory");
  if (t->shape[0] < rows) wrong("but the step has " + std::to_string(rows) + " tokens");
  if (rows == 0) return;
  const int64_t across = cols > 0 ? t->strides[1] : 0;
  int64_t down = 0, along = 0, count = 0;
  if (t->data == nullptr || t->strides[0] < 0 || across < 0 ||
      __builtin_mul_overflow(rows - 1, t->strides[0], &down) ||
      __builtin_mul_overflow(cols > 0 ? cols - 1 : 0, across, &along) ||
      __builtin_add_overflow(down, along, &count) || count >= INT64_MAX / 8 ||
      dtype_bytes(dtype, count + 1) > t->bytes)
    wrong("more than its " + std::to_string(t->bytes) + " bytes");
}

void refuse_ids(int64_t row, const int32_t* ids, int64_t k, int64_t num_experts) {
  int64_t j = 0;
  while (j < k - 1 && ids[j] >= 0 && ids[j] < num_experts) ++j;
  throw PluginError(MOERT_INVALID_ARGUMENT,
                    "ids[" + std::to_string(row) + ", " + std::to_string(j) + "] is " +
                        std::to_string(ids[j]) + ", expected an expert below " +
                        std::to_string(num_experts));
}

}  // namespace moert::capture
