// Routing in the shapes that other programs use, read and written byte for byte.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/capture_file.hpp"

namespace moert::capture {

// One sequence each, token-major. Facts and sources: docs/capture-format.md.
enum class Foreign { vllm, sglang, tensorrt_llm, megatron, prime_rl };
enum class Encoding { raw, base64 };

struct ForeignFormat {
  Foreign format;
  std::string_view
      name;        // on the command line: "vllm", "sglang", "tensorrt-llm", "megatron", "prime-rl"
  Encoding usual;  // when none is asked for
  std::string_view describes;  // one line for help and docs
};
const std::vector<ForeignFormat>& foreign_formats();
const ForeignFormat& foreign_format(
    std::string_view name);  // throws Error(usage) with a suggestion

struct ForeignOptions {
  Foreign format = Foreign::vllm;
  std::optional<Encoding> encoding;
  int64_t sequence = 0;        // the one that is written; the number that read rows get
  int64_t first_position = 0;  // of the first row that is read; positions below it are not written
};

// The bytes of one sequence. Throws Error(usage): no such sequence, absent rows in a format that has no way
// to say so, ids that its type does not hold, the number of hidden layers not known where dense layers are
// part of the shape.
std::string write_foreign(const CaptureFile& file, const ForeignOptions& options);

// Writes a capture file from foreign bytes. `info` is that of the model; its weights and margins are
// ignored, source and slot_order ("unknown") are set here. Throws Error(input), with `place` as the name of the
// bytes: sizes that do not fit the model, ids out of range or repeated, a dense layer that is not zero.
void read_foreign(std::string_view bytes, const std::string& place, const ForeignOptions& options,
                  CaptureInfo info, const std::filesystem::path& out);

}  // namespace moert::capture
