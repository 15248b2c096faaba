// config.json, read strictly: bounded in size and depth, no key twice, clear words about what is not
// JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace moert::config {

inline constexpr uint64_t kMaxConfigBytes = 4u << 20;
inline constexpr size_t kMaxConfigDepth = 64;

// Throws Error(input) with file:line:column.
nlohmann::json read_config_json(const std::filesystem::path& file);
nlohmann::json parse_config_json(const std::string& text, const std::string& name);

// Python writes words for numbers that JSON does not have. They become texts, `mark` before the word, so that keys of
// no concern here do no harm, and a quantity that is one of them gets an error that shows it.
std::string quote_python_numbers(const std::string& text, std::string_view mark);

}  // namespace moert::config
