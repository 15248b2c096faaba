// Words of scheme names and options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <moert/sdk/adapter.hpp>
#include <optional>
#include <string_view>

namespace moert::quant {

// The text up to the next dot, which is taken off with it.
std::string_view take_word(std::string_view* text);
// A size without sign or leading zeros, 1 to 65536; nullopt for any other text.
std::optional<int64_t> size_word(std::string_view digits);
// The dtype of scales that "f32", "bf16", "f16" or "e8m0" names, else MOERT_DTYPE_INVALID.
uint32_t scale_word(std::string_view word);

// Which of `words` the option says; number `fallback` if it is absent. Throws MOERT_INVALID_ARGUMENT
// for another word.
size_t choice(const Options& options, std::string_view key,
              std::initializer_list<std::string_view> words, size_t fallback = 0);

}  // namespace moert::quant
