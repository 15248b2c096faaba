// The header of NumPy's .npy files, version 1.0, for arrays of integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert::capture {

struct NpyHeader {
  std::string descr;  // "|u1", "<u2", ...
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Everything before the data, as numpy.save writes it for an array in C order.
std::string npy_header(const NpyHeader& header);

// False if `file` does not begin with such a header; `problem` then says why. `data`: where the array begins.
bool read_npy_header(std::string_view file, NpyHeader* header, size_t* data, std::string* problem);

}  // namespace moert::capture
