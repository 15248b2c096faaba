// SPDX-License-Identifier: Apache-2.0
#include "synthetic_weights.hpp"

#include <algorithm>
#include <map>
#include <random>

#include <moert/error.hpp>
#include <moert/sdk/small_floats.hpp>

#include "runtime/call.hpp"
#include "runtime/quant_record.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

constexpr const char* kOfWhat = "made-up weights";

const std::map<std::string, std::string>& aliases() {
  static const std::map<std::string, std::string> words = {
      {"fp8", "fp8.block128x128"}, {"int8", "int8.channel"}, {"int4", "int4.g32"}};
  return words;
}

std::vector<std::string> scheme_words() {
  std::vector<std::string> words = runtime::target_scheme_words();
  words.emplace_back("f16");
  for (const auto& [alias, word] : aliases()) words.push_back(alias);
  return words;
}

spec::Scheme scheme_of(const std::string& word) {
  const std::vector<std::string> words = scheme_words();
  const auto alias = aliases().find(word);
  if (alias != aliases().end()) return runtime::target_scheme(alias->second, "--scheme").scheme;
  if (word == "f16") return {word, {}};
  if (std::find(words.begin(), words.end(), word) != words.end() || word.starts_with("fp8."))
    return runtime::target_scheme(word, "--scheme").scheme;
  return {word, {}};
}

runtime::KindChoice choose(const runtime::Session& session, const spec::Scheme& scheme) {
  return runtime::choose_quant(session, {"quant", 0, scheme, kOfWhat, "", 1}, {});
}

std::vector<float> random_numbers(int64_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  constexpr float kWidth = 0.1f;
  for (float& number : numbers)
    number = (static_cast<float>(random() >> 8u) / static_cast<float>(1u << 23u) - 0.5f) * kWidth;
  return numbers;
}

runtime::TargetScheme target_of(const BenchScheme& scheme) {
  runtime::TargetScheme target;
  target.word = scheme.word;
  target.scheme = scheme.scheme;
  return target;
}

}  // namespace

BenchScheme bench_scheme(const runtime::Session& session, const std::string& word) {
  const BenchScheme made{word, scheme_of(word)};
  const runtime::KindChoice choice = choose(session, made.scheme);
  if (choice.decision.chosen != nullptr) return made;
  const std::vector<std::string> words = scheme_words();
  throw Error(Fault::usage, "unknown scheme '" + word + "'", "--scheme",
              suggestion(word, words) + " (known are " + joined(words) +
                  ", and what quant methods call theirs)\nthe quant methods and their reasons:\n" +
                  registry::decision_table(choice.decision));
}

std::string bench_scheme_aliases() {
  std::vector<std::string> texts;
  for (const auto& [alias, word] : aliases())
    texts.push_back(std::string(alias).append(" (").append(word).append(")"));
  return joined(texts);
}

std::string SyntheticExpert::misfit(const runtime::Session& session, const BenchScheme& scheme,
                                    const BenchShape& shape) {
  const runtime::Quant quant = runtime::make_quant(session, choose(session, scheme.scheme));
  int64_t hidden = shape.hidden, intermediate = shape.intermediate;
  runtime::Call call;
  call.check(quant->round_sizes(quant.self(), &hidden, &intermediate, call.out()), quant.name(),
             "round_sizes", scheme.word);
  if (hidden == shape.hidden && intermediate == shape.intermediate) return {};
  return scheme.scheme.name + " does not divide " + std::to_string(shape.hidden) + " x " +
         std::to_string(shape.intermediate) + "; the next sizes that it does are " +
         std::to_string(hidden) + " x " + std::to_string(intermediate);
}

SyntheticExpert::SyntheticExpert(const runtime::Session& session, const BenchScheme& scheme,
                                 const BenchShape& shape)
    : scheme_(scheme),
      biased_(shape.biased),
      quant_(runtime::make_quant(session, choose(session, scheme.scheme))) {
  runtime::WeightCodec codec(session, {});
  up_ = make(codec, shape.intermediate, shape.hidden, 5);
  down_ = make(codec, shape.hidden, shape.intermediate, 6);
}

SyntheticExpert::Matrix SyntheticExpert::make(runtime::WeightCodec& codec, int64_t rows,
                                              int64_t cols, unsigned seed) const {
  const runtime::TargetScheme target = target_of(scheme_);
  Matrix matrix;
  matrix.parts = codec.parts(target, rows, cols, kOfWhat);
  matrix.bytes =
      codec.encode(target, random_numbers(rows * cols, seed), rows, cols, false, kOfWhat);
  if (biased_)
    for (const float value : random_numbers(rows, seed + 100))
      matrix.bias.push_back(f32_to_bf16(value));
  return matrix;
}

uint64_t SyntheticExpert::stored_bytes(const runtime::Session& session, const BenchScheme& scheme,
                                       const BenchShape& shape) {
  runtime::WeightCodec codec(session, {});
  const auto matrix = [&](int64_t rows, int64_t cols) {
    uint64_t bytes = shape.biased ? dtype_bytes(MOERT_DTYPE_BF16, rows) : 0;
    for (const runtime::StoredPart& part : codec.parts(target_of(scheme), rows, cols, kOfWhat)) {
      int64_t count = 1;
      for (const int64_t size : part.shape) count *= size;
      bytes += dtype_bytes(part.dtype, count);
    }
    return bytes;
  };
  return 2 * matrix(shape.intermediate, shape.hidden) + matrix(shape.hidden, shape.intermediate);
}

void SyntheticExpert::load(const runtime::Part<moert_routed_experts_t>& experts,
                           int64_t expert) const {
  hand_over(experts, expert, MOERT_PART_GATE, up_);
  hand_over(experts, expert, MOERT_PART_UP, up_);
  hand_over(experts, expert, MOERT_PART_DOWN, down_);
}

void SyntheticExpert::hand_over(const runtime::Part<moert_routed_experts_t>& experts,
                                int64_t expert, uint32_t part, const Matrix& matrix) const {
  moert_quant_view_t record{};
  record.struct_size = sizeof record;
  record.scheme = scheme_.scheme.name.c_str();
  record.layout = "canonical";
  std::vector<TensorView> views;
  views.reserve(matrix.parts.size());
  for (size_t i = 0; i < matrix.parts.size(); ++i) {
    const std::vector<int64_t>& shape = matrix.parts[i].shape;
    views.emplace_back(const_cast<std::byte*>(matrix.bytes[i].data()), matrix.parts[i].dtype,
                       shape.data(), static_cast<uint32_t>(shape.size()), MOERT_TENSOR_READ_ONLY);
    if (i > 0) runtime::companion_of(record, matrix.parts[i].param) = views[i].get();
  }
  views.front().set_quant(&record);
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  piece.expert = expert;
  piece.part = part;
  piece.tensor = views.front().get();
  piece.quant = quant_.table();
  piece.quant_self = quant_.self();
  runtime::Call call;
  call.check(experts->load(experts.self(), &piece, call.out()), experts.name(), "load",
             scheme_.word);
  if (!biased_) return;
  const TensorView bias(static_cast<const void*>(matrix.bias.data()), MOERT_DTYPE_BF16,
                        {static_cast<int64_t>(matrix.bias.size())});
  piece.role = MOERT_ROLE_BIAS;
  piece.tensor = bias.get();
  piece.quant = nullptr;
  piece.quant_self = nullptr;
  call.check(experts->load(experts.self(), &piece, call.out()), experts.name(), "load a bias",
             scheme_.word);
}

}  // namespace moert::tool
