// Reads the weight map of an index event by event.
// SPDX-License-Identifier: Apache-2.0
#include "weights/index.hpp"

#include <algorithm>
#include <map>
#include <string>

#include <moert/error.hpp>
#include <nlohmann/json.hpp>

#include "weights/text.hpp"

namespace moert::weights {
namespace {

constexpr const char* kRemedy = "fetch the index again, or write it anew from the shards";
constexpr int kMaxDepth = 32;

// A name in the index must not lead out of the folder.
bool is_plain(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  return name.size() > kEnding.size() && name.ends_with(kEnding) && name.front() != '.' &&
         name.find_first_of("/\\") == std::string_view::npos &&
         std::none_of(name.begin(), name.end(), [](char c) { return c >= 0 && c < 0x20; });
}

// Keeps "weight_map"; other keys ("metadata") say nothing that the shards do not say better.
class IndexEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexEvents(const std::string& place) : place_(place) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a truth value"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool string(string_t& value) override {
    if (!(in_map_ && depth_ == 2)) return other("a text");
    if (!is_plain(value))
      fail("'" + shown(value) + "' is no plain name of a .safetensors file in the folder",
           place_ + ": tensor " + shown(name_));
    const auto number = static_cast<uint32_t>(files_.size());
    const auto file = files_.emplace(std::move(value), number).first;
    tensors_.emplace_back(std::move(name_), file->second);
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (seen_) fail("the key 'weight_map' stands twice", place_);
      seen_ = in_map_ = true;
    } else if (depth_ > 0) {
      other("an object");
    }
    return deeper();
  }
  bool start_array(std::size_t) override {
    other("an array");
    return deeper();
  }
  bool key(string_t& value) override {
    if (depth_ == 1) key_ = value;
    if (in_map_ && depth_ == 2) name_ = std::move(value);
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    fail("the index is no valid JSON at byte " + std::to_string(position) + ", near '" +
             shown(token, 40) + "'",
         place_);
  }

  ShardIndex result() {
    if (!seen_) fail("the index has no 'weight_map'", place_);
    if (tensors_.empty()) fail("the index lists no tensor", place_);
    ShardIndex index;
    std::vector<uint32_t> rank(files_.size());
    for (const auto& [file, number] : files_) {
      rank[number] = static_cast<uint32_t>(index.files.size());
      index.files.push_back(file);
    }
    for (auto& tensor : tensors_) tensor.second = rank[tensor.second];
    std::sort(tensors_.begin(), tensors_.end());
    const auto twin =
        std::adjacent_find(tensors_.begin(), tensors_.end(),
                           [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twin != tensors_.end())
      fail("the tensor '" + shown(twin->first) + "' stands twice in the index",
           place_ + ": tensor " + shown(twin->first));
    index.tensors = std::move(tensors_);
    return index;
  }

 private:
  [[noreturn]] static void fail(const std::string& problem, const std::string& place) {
    throw Error(Fault::input, problem, place, kRemedy);
  }
  // A value that is not a tensor's file: fine outside the weight map.
  bool other(const char* what) const {
    if (in_map_)
      fail("'" + shown(name_) + "' is " + what + ", expected a file name",
           place_ + ": tensor " + shown(name_));
    if (depth_ == 0) fail(std::string("the index is ") + what + ", expected an object", place_);
    if (depth_ == 1 && key_ == "weight_map")
      fail(std::string("'weight_map' is ") + what + ", expected an object", place_);
    return true;
  }
  bool deeper() {
    if (++depth_ > kMaxDepth) fail("the index is nested more than 32 deep", place_);
    return true;
  }

  const std::string& place_;
  int depth_ = 0;
  bool in_map_ = false, seen_ = false;
  std::string key_, name_;
  std::map<std::string, uint32_t> files_;
  std::vector<std::pair<std::string, uint32_t>> tensors_;
};

}  // namespace

ShardIndex parse_index(std::string_view text, const std::string& place) {
  if (text.find('\0') != std::string_view::npos)
    throw Error(Fault::input, "the index holds a zero byte", place, kRemedy);
  IndexEvents events(place);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  return events.result();
}

}  // namespace moert::weights
