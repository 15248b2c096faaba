// Reads the JSON of a safetensors header event by event and checks it against the file's size.
// SPDX-License-Identifier: Apache-2.0
#include "weights/header.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include <moert/error.hpp>
#include <nlohmann/json.hpp>

#include "weights/text.hpp"

namespace moert::weights {
namespace {

constexpr const char* kFetchAgain =
    "the file is damaged or no safetensors file: fetch or write it again";

std::string place_of(const std::string& file, std::string_view tensor) {
  return file + ": tensor " + shown(tensor);
}

// Throws at the first event that the format does not allow. Offsets stay relative to the data section.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(const std::string& file, Header* header) : file_(file), header_(header) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(shown(text, 40)); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (at_ == At::shape) {
      if (shape_.size() == kMaxRank) fail("the shape has more than 8 dimensions");
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        fail("size " + std::to_string(value) + " in the shape does not fit 63 bits");
      shape_.push_back(static_cast<int64_t>(value));
    } else if (at_ == At::offsets) {
      if (n_offsets_ == 2) fail("data_offsets has more than two numbers");
      offsets_[n_offsets_++] = value;
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (at_ == At::metadata) {
      const std::string key = shown(field_);
      if (!header_->metadata.emplace(std::move(field_), std::move(value)).second)
        fail("the key '" + key + "' stands twice in __metadata__");
    } else if (at_ == At::tensor && field_ == "dtype") {
      dtype_ = dtype_from_safetensors(value);
      if (dtype_ == MOERT_DTYPE_INVALID) fail("the dtype '" + shown(value, 40) + "' is not known");
      seen_ |= kDtype;
    } else {
      unexpected("the text '" + shown(value, 40) + "'");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (at_ == At::outside) {
      at_ = At::top;
    } else if (at_ == At::top && name_ == "__metadata__") {
      if (std::exchange(metadata_seen_, true)) fail("__metadata__ stands twice");
      at_ = At::metadata;
    } else if (at_ == At::top) {
      at_ = At::tensor;
      seen_ = 0;
      dtype_ = MOERT_DTYPE_INVALID;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (at_ == At::top) {
      name_ = std::move(value);
      return true;
    }
    field_ = std::move(value);
    if (at_ != At::tensor) return true;
    const unsigned bit = bit_of(field_);
    if (bit == 0)
      fail("'" + shown(field_, 40) + "' is no field of a tensor: dtype, shape, data_offsets are");
    if ((seen_ & bit) != 0) fail("the field '" + field_ + "' stands twice");
    return true;
  }

  bool start_array(std::size_t) override {
    if (at_ == At::tensor && field_ == "shape") {
      at_ = At::shape;
      shape_.clear();
    } else if (at_ == At::tensor && field_ == "data_offsets") {
      at_ = At::offsets;
      n_offsets_ = 0;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (at_ == At::offsets && n_offsets_ != 2) fail("data_offsets has not two numbers");
    seen_ |= at_ == At::shape ? kShape : kOffsets;
    at_ = At::tensor;
    return true;
  }

  bool end_object() override {
    if (at_ == At::tensor) end_tensor();
    at_ = at_ == At::top ? At::done : At::top;
    if (at_ == At::top) name_.clear();
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    throw Error(Fault::input,
                "the header is no valid JSON at byte " + std::to_string(position + 8) + ", near '" +
                    shown(token, 40) + "'",
                file_, kFetchAgain);
  }

 private:
  enum class At { outside, top, metadata, tensor, shape, offsets, done };
  static constexpr unsigned kDtype = 1, kShape = 2, kOffsets = 4;

  static unsigned bit_of(std::string_view field) {
    if (field == "dtype") return kDtype;
    if (field == "shape") return kShape;
    return field == "data_offsets" ? kOffsets : 0;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    const bool in_tensor = at_ == At::tensor || at_ == At::shape || at_ == At::offsets;
    throw Error(Fault::input, problem, in_tensor ? place_of(file_, name_) : file_, kFetchAgain);
  }

  [[noreturn]] void unexpected(const std::string& value) const {
    switch (at_) {
      case At::outside: fail("the header is " + value + ", expected an object");
      case At::top: fail("'" + shown(name_) + "' is " + value + ", expected an object");
      case At::metadata:
        fail("'" + shown(field_) + "' in __metadata__ is " + value + ", expected a text");
      case At::shape: fail(value + " in the shape is no size");
      case At::offsets: fail(value + " in data_offsets is no number of bytes");
      default: fail("the field '" + shown(field_) + "' is " + value);
    }
  }

  void end_tensor() {
    if (seen_ != (kDtype | kShape | kOffsets)) {
      fail(std::string("the field '") +
           ((seen_ & kDtype) == 0   ? "dtype"
            : (seen_ & kShape) == 0 ? "shape"
                                    : "data_offsets") +
           "' is missing");
    }
    if (offsets_[0] > offsets_[1])
      fail("data_offsets [" + std::to_string(offsets_[0]) + ", " + std::to_string(offsets_[1]) +
           "] run backwards");
    header_->tensors.push_back(
        {std::move(name_), dtype_, shape_, offsets_[0], offsets_[1] - offsets_[0], 0});
  }

  const std::string& file_;
  Header* header_;
  At at_ = At::outside;
  std::string name_, field_;
  bool metadata_seen_ = false;
  unsigned seen_ = 0;
  uint32_t dtype_ = MOERT_DTYPE_INVALID;
  std::vector<int64_t> shape_;
  uint64_t offsets_[2] = {0, 0};
  int n_offsets_ = 0;
};

// Length of the JSON text, checked against the file.
uint64_t header_length(std::span<const std::byte> file, const std::string& name) {
  const auto fail = [&](const std::string& problem, const char* remedy = kFetchAgain) {
    throw Error(Fault::input, problem, name, remedy);
  };
  const std::string size = std::to_string(file.size());
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (file.size() >= kPointer.size() &&
      std::memcmp(file.data(), kPointer.data(), kPointer.size()) == 0)
    fail("the file is a Git LFS pointer, not the tensors", "fetch the file itself: git lfs pull");
  if (file.size() < 8) fail("the file has " + size + " bytes; 8 bytes of header length come first");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<uint64_t>(file[i]);
  if (length > kMaxHeaderBytes)
    fail("header length " + std::to_string(length) + " is above the limit of 100000000 bytes");
  if (length > file.size() - 8)
    fail("header length " + std::to_string(length) + " is more than the file's " + size + " bytes");
  return length;
}

void check_names(const std::vector<TensorInfo>& tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw Error(Fault::input, "the tensor '" + shown(*twice) + "' stands twice in the header",
                place_of(file, *twice), "remove one of them: which one is meant cannot be known");
}

// Shapes against byte ranges, ranges against each other and against the data section.
void check_ranges(std::vector<TensorInfo>* tensors, uint64_t data_bytes, const std::string& file) {
  std::sort(tensors->begin(), tensors->end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.offset != b.offset ? a.offset < b.offset
           : a.bytes != b.bytes ? a.bytes < b.bytes
                                : a.name < b.name;
  });
  uint64_t position = 0;
  for (const TensorInfo& tensor : *tensors) {
    const auto fail = [&](const std::string& problem) {
      throw Error(Fault::input, problem, place_of(file, tensor.name), kFetchAgain);
    };
    std::string problem;
    uint64_t bytes = 0;
    if (!tensor_bytes(tensor.dtype, tensor.shape, &bytes, &problem)) fail(problem);
    const auto range = [&tensor] {
      return "data_offsets [" + std::to_string(tensor.offset) + ", " +
             std::to_string(tensor.offset + tensor.bytes) + "]";
    };
    if (bytes != tensor.bytes)
      fail(range() + " hold " + std::to_string(tensor.bytes) + " bytes, but " +
           std::string(dtype_name(tensor.dtype)) + " " +
           shape_text(tensor.shape.data(), static_cast<uint32_t>(tensor.shape.size())) + " needs " +
           std::to_string(bytes));
    if (tensor.offset + tensor.bytes > data_bytes)
      fail(range() + " end outside the file's data section of " + std::to_string(data_bytes) +
           " bytes");
    if (tensor.offset < position) fail(range() + " overlap the tensor before");
    if (tensor.offset > position)
      fail(range() + " leave a gap: the tensor before ends at " + std::to_string(position));
    position += tensor.bytes;
  }
  if (position != data_bytes)
    throw Error(Fault::input,
                std::to_string(data_bytes - position) + " bytes at the end belong to no tensor",
                file, kFetchAgain);
}

}  // namespace

bool tensor_bytes(uint32_t dtype, const std::vector<int64_t>& shape, uint64_t* bytes,
                  std::string* problem) {
  const auto rank = static_cast<uint32_t>(shape.size());
  if (rank > kMaxRank) {
    *problem = "the shape has more than 8 dimensions";
    return false;
  }
  int64_t bits = dtype_bits(dtype);
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bits, size == 0 ? 1 : size, &bits)) {
      *problem = (size < 0 ? "a negative size in the shape " : "too many elements in the shape ") +
                 shape_text(shape.data(), rank);
      return false;
    }
    empty = empty || size == 0;
  }
  if (!empty && bits % 8 != 0) {
    *problem = std::string(dtype_name(dtype)) + " " + shape_text(shape.data(), rank) +
               " fills no whole number of bytes";
    return false;
  }
  *bytes = empty ? 0 : static_cast<uint64_t>(bits) / 8;
  return true;
}

Header parse_header(std::span<const std::byte> file, const std::string& file_name) {
  const uint64_t length = header_length(file, file_name);
  const char* text = reinterpret_cast<const char*>(file.data()) + 8;
  // The parser takes a NUL for the end and skips a byte order mark; the format allows neither.
  if (length == 0 || text[0] != '{' || std::memchr(text, '\0', length) != nullptr)
    throw Error(Fault::input,
                length != 0 && text[0] == '{' ? "the header holds a zero byte"
                                              : "the header does not begin with '{'",
                file_name, kFetchAgain);
  Header header;
  HeaderEvents events(file_name, &header);
  nlohmann::json::sax_parse(text, text + length, &events);
  check_names(header.tensors, file_name);
  check_ranges(&header.tensors, file.size() - 8 - length, file_name);
  for (TensorInfo& tensor : header.tensors) tensor.offset += 8 + length;
  return header;
}

}  // namespace moert::weights
