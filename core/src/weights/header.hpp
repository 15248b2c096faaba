// The header of a safetensors file in memory: parsed and checked, nothing of it trusted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weights/safetensors.hpp"

namespace moert::weights {

// The format's own limit for the length of the JSON text.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct Header {
  std::vector<TensorInfo> tensors;  // in order of offset; they tile the data section
  std::map<std::string, std::string> metadata;
};

// `file` is the whole file, `file_name` its name in messages. Throws Error(input); reads the header
// only. Memory is at most a small multiple of the header's length.
Header parse_header(std::span<const std::byte> file, const std::string& file_name);

// Number of elements, and of bytes, of a dense tensor. False if a size is negative, the rank is above
// kMaxRank, a product overflows (sizes of 0 count as 1 there, since strides are products too), or the
// elements fill no whole number of bytes; `problem` then says which.
bool tensor_bytes(uint32_t dtype, const std::vector<int64_t>& shape, uint64_t* bytes,
                  std::string* problem);

}  // namespace moert::weights
