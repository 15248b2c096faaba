// SPDX-License-Identifier: Apache-2.0
#include "bench_shapes.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <moert/error.hpp>

#include "util/nearest.hpp"

namespace moert::tool {

namespace {

constexpr int64_t kWidest = 65536, kMostExperts = 4096;

// From the models' own configs. The slice is a quarter of the 14336 columns of Mixtral 8x7B: what one of four
// ranks holds.
const std::vector<BenchShape>& named_shapes() {
  static const std::vector<BenchShape> shapes = {
      {"olmoe", 2048, 1024, 64, 8},
      {"qwen3-30b-a3b", 2048, 768, 128, 8},
      {"gpt-oss-20b", 2880, 2880, 32, 4, "swigluoai", 1.702, 1, 7, true},
      {"gpt-oss-120b", 2880, 2880, 128, 4, "swigluoai", 1.702, 1, 7, true},
      {"deepseek-v2-lite", 2048, 1408, 64, 6},
      {"mixtral-slice", 4096, 3584, 8, 2},
  };
  return shapes;
}

[[noreturn]] void fail(const std::string& problem) {
  throw Error(Fault::usage, problem, "--shape",
              "give HxIxExk, as in 2048x1024x64x8: H and I up to " + std::to_string(kWidest) +
                  ", up to " + std::to_string(kMostExperts) + " experts, k of them at most; or " +
                  joined(bench_shape_names()));
}

int64_t size_of(const std::string& text, const std::string& word) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size())
    fail("'" + text + "' in '" + word + "' is no number");
  if (size < 1) fail("'" + word + "' has a size below 1");
  return size;
}

BenchShape sized(const std::string& word) {
  std::vector<int64_t> sizes;
  std::istringstream stream(word);
  for (std::string part; std::getline(stream, part, 'x');) sizes.push_back(size_of(part, word));
  if (sizes.size() != 4 || word.back() == 'x')
    fail("'" + word + "' has not the four sizes of a shape");
  BenchShape shape{word, sizes[0], sizes[1], sizes[2], sizes[3]};
  if (shape.top_k > shape.experts) fail("'" + word + "' has fewer experts than a token takes");
  if (std::max(shape.hidden, shape.intermediate) > kWidest || shape.experts > kMostExperts)
    fail("'" + word + "' is larger than what can be measured");
  return shape;
}

}  // namespace

std::vector<std::string> bench_shape_names() {
  std::vector<std::string> names;
  for (const BenchShape& shape : named_shapes()) names.push_back(shape.name);
  return names;
}

BenchShape bench_shape(const std::string& word) {
  for (const BenchShape& shape : named_shapes())
    if (shape.name == word) return shape;
  if (!word.empty() && word.front() >= '0' && word.front() <= '9') return sized(word);
  const std::vector<std::string> names = bench_shape_names();
  throw Error(Fault::usage, "unknown shape '" + word + "'", "--shape",
              suggestion(word, names) + " (known are " + joined(names) + ", and HxIxExk)");
}

}  // namespace moert::tool
