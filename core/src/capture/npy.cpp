// SPDX-License-Identifier: Apache-2.0
#include "capture/npy.hpp"

#include <charconv>

#include "weights/text.hpp"

namespace moert::capture {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kPrefix = 10;  // magic, version, two bytes of length
constexpr size_t kAlign = 64;
constexpr size_t kRowDigits =
    21;  // room that NumPy leaves for the first size, so that files can grow

// Reads a literal of Python: a dict of texts, truth values and tuples of numbers.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool take(char wanted) {
    skip();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view wanted) {
    skip();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  bool text(std::string* value) {
    if (!take('\'')) return false;
    const size_t end = rest_.find('\'');
    if (end == rest_.npos) return false;
    *value = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool sizes(std::vector<int64_t>* values) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc() || value < 0) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      values->push_back(value);
      if (!take(',') && (rest_.empty() || rest_.front() != ')')) return false;
    }
    return true;
  }
  bool at_end() {
    skip();
    return rest_.empty();
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

bool parse(std::string_view text, NpyHeader* header) {
  Literal literal(text);
  int seen = 0;
  if (!literal.take('{')) return false;
  while (!literal.take('}')) {
    std::string key;
    if (!literal.text(&key) || !literal.take(':')) return false;
    if (key == "descr" && literal.text(&header->descr)) {
      seen |= 1;
    } else if (key == "fortran_order" && (literal.word("True") || literal.word("False"))) {
      header->fortran_order = text.find("True") != text.npos;
      seen |= 2;
    } else if (key == "shape" && header->shape.empty() && literal.sizes(&header->shape)) {
      seen |= 4;
    } else {
      return false;
    }
    literal.take(',');
  }
  return seen == 7 && literal.at_end();
}

}  // namespace

std::string npy_header(const NpyHeader& header) {
  std::string sizes;
  for (const int64_t size : header.shape) sizes += std::to_string(size) + ", ";
  if (!sizes.empty()) sizes.resize(sizes.size() - (header.shape.size() == 1 ? 1 : 2));
  std::string text = "{'descr': '" + header.descr +
                     "', 'fortran_order': " + (header.fortran_order ? "True" : "False") +
                     ", 'shape': (" + sizes + "), }";
  if (!header.shape.empty()) {
    const int64_t rows = header.fortran_order ? header.shape.back() : header.shape.front();
    text.append(kRowDigits - std::to_string(rows).size(), ' ');
  }
  const size_t used = kPrefix + text.size() + 1;
  text.append(kAlign - used % kAlign, ' ');  // a whole unit where nothing would be needed
  text += '\n';
  std::string prefix(kMagic);
  prefix +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return prefix + text;
}

bool read_npy_header(std::string_view file, NpyHeader* header, size_t* data, std::string* problem) {
  if (!file.starts_with(kMagic) || file.size() < kPrefix) {
    *problem = "it does not begin with the header of a .npy file";
    return false;
  }
  const auto byte = [file](size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(file[at]));
  };
  if (byte(6) != 1 || byte(7) != 0) {
    *problem = "it is a .npy file of version " + std::to_string(byte(6)) + "." +
               std::to_string(byte(7)) + ", only 1.0 is read";
    return false;
  }
  const size_t length = byte(8) | byte(9) << 8;
  if (length > file.size() - kPrefix) {
    *problem = "the .npy header is cut off";
    return false;
  }
  const std::string_view text = file.substr(kPrefix, length);
  *header = {};
  if (!parse(text, header)) {
    *problem = "the .npy header is not understood: " + weights::shown(text, 100);
    return false;
  }
  *data = kPrefix + length;
  return true;
}

}  // namespace moert::capture
