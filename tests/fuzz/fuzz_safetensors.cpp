// libFuzzer: any bytes as a safetensors file and as an index. They parse, or are an Error(input).
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include <moert/error.hpp>

#include "weights/header.hpp"
#include "weights/index.hpp"

namespace {

// What a reader may rely on once a header has been accepted.
void check(const moert::weights::Header& header, size_t size) {
  uint64_t before = 8;
  for (const moert::weights::TensorInfo& tensor : header.tensors) {
    if (tensor.offset < before || tensor.offset > size || tensor.bytes > size - tensor.offset)
      std::abort();
    before = tensor.offset + tensor.bytes;
  }
  if (!header.tensors.empty() && before != size) std::abort();
}

template <class Body>
void expect_input_error_or_none(Body&& body) {
  try {
    body();
  } catch (const moert::Error& error) {
    if (error.fault() != moert::Fault::input) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  expect_input_error_or_none(
      [&] { check(moert::weights::parse_header(bytes, "input.safetensors"), size); });
  // The length first is hard to guess: the same bytes once more, as the JSON text alone.
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(size >> (8 * i));
  file.append(reinterpret_cast<const char*>(data), size);
  const std::span<const std::byte> whole(reinterpret_cast<const std::byte*>(file.data()),
                                         file.size());
  expect_input_error_or_none(
      [&] { check(moert::weights::parse_header(whole, "input.safetensors"), file.size()); });
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_input_error_or_none([&] { moert::weights::parse_index(text, "index.json"); });
  return 0;
}
