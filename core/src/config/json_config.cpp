// Builds JSON values from the reader's events, so that depth and repeated keys are seen.
// SPDX-License-Identifier: Apache-2.0
#include "config/json_config.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <moert/error.hpp>

#include "util/file.hpp"
#include "util/text.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::json;

struct Finding {
  std::string problem, remedy;
};

// Answers false at the first fault, which stops the reader.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  const Finding& fault() const { return fault_; }
  size_t fault_byte() const { return fault_byte_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back().first.contains(name)) {
      fault_ = {"the key '" + name + "' stands twice in one object", "keep one of them"};
      return false;
    }
    open_.back().second = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    fault_byte_ = position;
    if (error.id == kNumberOverflow) {
      fault_ = {"the number " + shortened(token, 60) + " is outside the range of a double",
                "write a smaller one"};
      return false;
    }
    fault_ = {"this is no JSON: unexpected '" + shortened(token, 60) + "'",
              "correct the file, or fetch it again"};
    return false;
  }

 private:
  bool open(Json value) {
    if (open_.size() >= kMaxConfigDepth) {
      fault_ = {"objects and arrays are nested deeper than " + std::to_string(kMaxConfigDepth),
                "no config of a model is as deep as that"};
      return false;
    }
    open_.emplace_back(std::move(value), std::string());
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().first);
    open_.pop_back();
    return add(std::move(value));
  }
  bool add(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().first.is_array())
      open_.back().first.push_back(std::move(value));
    else
      open_.back().first[open_.back().second] = std::move(value);
    return true;
  }

  Json root_;
  std::vector<std::pair<Json, std::string>> open_;  // and the key that awaits its value
  Finding fault_;
  size_t fault_byte_ = 0;
};

std::string place_of(const std::string& text, size_t byte, const std::string& name) {
  if (byte == 0) return name;
  const std::string_view before = std::string_view(text).substr(0, std::min(byte - 1, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return name + ":" + std::to_string(line) + ":" + std::to_string(before.size() - start + 1);
}

std::string_view python_number_at(std::string_view text, size_t at) {
  for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
    if (text.substr(at, word.size()) == word) return word;
  return {};
}

}  // namespace

std::string quote_python_numbers(const std::string& text, std::string_view mark) {
  std::string result;
  result.reserve(text.size());
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    const std::string_view word = quoted ? std::string_view() : python_number_at(text, i);
    if (!word.empty()) {
      result.append("\"").append(mark).append(word).append("\"");
      i += word.size() - 1;
      continue;
    }
    result += text[i];
    if (quoted && text[i] == '\\' && i + 1 < text.size()) result += text[++i];
  }
  return result;
}

nlohmann::json parse_config_json(const std::string& original, const std::string& name) {
  const std::string text = quote_python_numbers(original, {});
  Builder builder;
  if (Json::sax_parse(text, &builder)) return builder.take();
  const Finding& fault = builder.fault();
  throw Error(Fault::input, fault.problem, place_of(text, builder.fault_byte(), name),
              fault.remedy);
}

nlohmann::json read_config_json(const std::filesystem::path& file) {
  Json config = parse_config_json(read_text_file(file, kMaxConfigBytes), file.string());
  if (!config.is_object())
    throw Error(Fault::input,
                "the file holds " + std::string(config.type_name()) + ", expected an object",
                file.string(), "config.json describes a model by keys and values");
  return config;
}

}  // namespace moert::config
