// INT4 weights.
// SPDX-License-Identifier: Apache-2.0
#include "int4.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "view.hpp"
#include "words.hpp"

namespace moert::quant {
namespace {

constexpr int kNoWords = -1;
constexpr int64_t kMostWords = int64_t{1} << 59;  // that codes can be counted
constexpr uint32_t kMiddle = 8;
constexpr Int4::Layout kLayouts[] = {
    {"int4_packed", false, 1, 0, NibbleOrder::plain, true, 0},
    {"int4_gptq", true, 0, 1, NibbleOrder::plain, true, 2},
    {"int4_awq", true, 1, 1, NibbleOrder::awq, false, 1},
};

[[noreturn]] void damaged(const std::string& message) {
  throw PluginError(MOERT_DATA_LOSS, message);
}

int32_t index_at(const moert_tensor_t& index, int64_t col) {
  int32_t group = 0;
  std::memcpy(&group, static_cast<const unsigned char*>(index.data) + col * index.strides[0] * 4,
              sizeof group);
  return group;
}

void round_up(int64_t& size, int64_t multiple) {
  if (size < 0 || size > (int64_t{1} << 62))
    throw PluginError(MOERT_INVALID_ARGUMENT, "a width of " + std::to_string(size));
  size = Blocks::along(size, multiple) * multiple;
}

// Columns must be whole words and whole groups.
int64_t multiple_of(int64_t group) {
  return std::lcm(PackedWords::kCodes, std::max<int64_t>(group, 1));
}

}  // namespace

std::optional<Int4::Scheme> Int4::parse(std::string_view name) {
  const std::string_view first = take_word(&name);
  std::string_view groups = take_word(&name);
  Scheme scheme{nullptr, 0, scale_word(name)};
  for (const Layout& layout : kLayouts)
    if (layout.name == first) scheme.layout = &layout;
  if (scheme.layout == nullptr || scheme.scale_dtype == MOERT_DTYPE_INVALID ||
      scheme.scale_dtype == MOERT_DTYPE_F8_E8M0)
    return std::nullopt;
  if (groups == "channel") return scheme;
  if (groups.substr(0, 1) != "g") return std::nullopt;
  groups.remove_prefix(1);
  const std::optional<int64_t> size = size_word(groups);
  if (!size) return std::nullopt;
  scheme.group = *size;
  return scheme;
}

Support Int4::supports(const Host& /*host*/, std::string_view scheme) {
  if (parse(scheme)) return Support::yes();
  return Support::no("scheme '" + std::string(scheme) +
                     "' is not int4_<packed|gptq|awq>.<g<size>|channel>.<f32|bf16|f16>");
}

Int4::Int4(const Host& host, std::string_view scheme, const Options& options)
    : name_(scheme), scheme_() {
  const std::optional<Scheme> parsed = parse(scheme);
  if (!parsed) throw PluginError(MOERT_UNIMPLEMENTED, supports(host, scheme).reason);
  scheme_ = *parsed;
  options.allow({"zeros"});
  zeros_ = static_cast<Zeros>(
      choice(options, "zeros", {"none", "stored", "plus_one"}, scheme_.layout->zeros));
}

Int4::Shape Int4::stored(int64_t rows, int64_t along, int dimension) const {
  Shape shape = scheme_.layout->in_first ? Shape{{along, rows}} : Shape{{rows, along}};
  if (dimension != kNoWords) shape.at[dimension] = PackedWords::words(shape.at[dimension]);
  return shape;
}

std::vector<moert_quant_param_t> Int4::parameters(int64_t rows, int64_t cols) const {
  const Layout& layout = *scheme_.layout;
  const int64_t multiple = multiple_of(scheme_.group);
  const bool whole_rows = layout.in_first && layout.weight_dimension == 1;  // words of outputs
  if (rows < 0 || cols < 0 || cols % multiple != 0 ||
      (whole_rows && rows % PackedWords::kCodes != 0))
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "a weight of " + std::to_string(rows) + " x " + std::to_string(cols) +
                          " elements, expected columns in multiples of " +
                          std::to_string(multiple) + (whole_rows ? " and rows of 8" : ""));
  std::vector<moert_quant_param_t> all;
  const auto add = [&all](uint32_t param, uint32_t dtype, const Shape& shape) {
    all.push_back({param, 1, dtype, 2, {shape.at[0], shape.at[1], 0, 0}});
  };
  add(MOERT_PARAM_WEIGHT, MOERT_DTYPE_I32, stored(rows, cols, layout.weight_dimension));
  add(MOERT_PARAM_SCALE, scheme_.scale_dtype, stored(rows, groups(cols), kNoWords));
  if (zeros_ != Zeros::none)
    add(MOERT_PARAM_ZERO_POINT, MOERT_DTYPE_I32, stored(rows, groups(cols), layout.zero_dimension));
  if (layout.has_index)
    all.push_back({MOERT_PARAM_GROUP_INDEX, 0, MOERT_DTYPE_I32, 1, {cols, 0, 0, 0}});
  return all;
}

void Int4::round_sizes(int64_t& hidden, int64_t& intermediate) const {
  round_up(hidden, multiple_of(scheme_.group));
  round_up(intermediate, multiple_of(scheme_.group));
}

Size Int4::size_of(const moert_tensor_t& weight) const {
  expect_matrix(weight, "the weight", MOERT_DTYPE_I32);
  const Layout& layout = *scheme_.layout;
  int64_t codes[] = {weight.shape[0], weight.shape[1]};
  int64_t& words = codes[layout.weight_dimension];
  if (words > kMostWords) damaged("the weight is " + tensor_text(weight) + ", too many to count");
  words *= PackedWords::kCodes;
  const Size size{codes[layout.in_first ? 1 : 0], codes[layout.in_first ? 0 : 1]};
  if (scheme_.group != 0 && size.cols % scheme_.group != 0)
    damaged("the weight is " + tensor_text(weight) + ", rows of " + std::to_string(size.cols) +
            " codes, expected whole groups of " + std::to_string(scheme_.group));
  return size;
}

const moert_tensor_t* Int4::zero_point(const moert_quant_view_t& quant, const Size& size) const {
  const moert_tensor_t* zero = quant.zero_point;
  if (zeros_ == Zeros::none) {
    if (zero == nullptr) return nullptr;
    damaged("the weight came with a zero point (" + tensor_text(*zero) +
            "), expected none with the option zeros: none");
  }
  const Shape shape = stored(size.rows, groups(size.cols), scheme_.layout->zero_dimension);
  const std::string expected = "i32 " + shape_text(shape.at, 2);
  if (zero == nullptr) damaged("the weight came without its zero point, expected " + expected);
  expect_matrix(*zero, "the zero point", MOERT_DTYPE_I32);
  if (zero->shape[0] != shape.at[0] || zero->shape[1] != shape.at[1])
    damaged("the zero point is " + tensor_text(*zero) + ", expected " + expected);
  return zero;
}

void Int4::expect_index(const moert_tensor_t& index, const Size& size) const {
  expect_array(index, "the group index", MOERT_DTYPE_I32);
  if (index.rank != 1 || index.shape[0] != size.cols)
    damaged("the group index is " + tensor_text(index) + ", expected i32 [" +
            std::to_string(size.cols) + "]");
  for (int64_t c = 0; c < size.cols; ++c)
    if (const int32_t group = index_at(index, c); group < 0 || group >= groups(size.cols))
      damaged("the group index of column " + std::to_string(c) + " is " + std::to_string(group) +
              ", expected 0 to " + std::to_string(groups(size.cols) - 1));
}

Int4::Opened Int4::open(const moert_tensor_t& weight, Scales::State state) const {
  const Layout& layout = *scheme_.layout;
  const Size size = size_of(weight);
  const moert_quant_view_t none{};
  const moert_quant_view_t& quant = weight.quant != nullptr ? *weight.quant : none;
  expect_scheme(quant, name_, kScale | kZeroPoint | (layout.has_index ? kGroupIndex : 0));
  const moert_tensor_t* zero = zero_point(quant, size);
  const Blocks blocks = layout.in_first ? Blocks{scheme_.group, 1} : Blocks{1, scheme_.group};
  const Shape whole = stored(size.rows, size.cols, kNoWords);
  const Scales scales(quant.scale, blocks, scheme_.scale_dtype, whole.at[0], whole.at[1], state);
  if (quant.group_index != nullptr) expect_index(*quant.group_index, size);
  std::optional<PackedWords> zeros;
  if (zero != nullptr) zeros.emplace(*zero, layout.zero_dimension, layout.order);
  return {size,  groups(size.cols), {weight, layout.weight_dimension, layout.order}, scales,
          zeros, quant.group_index};
}

int64_t Int4::group_of(const Opened& opened, int64_t col) const {
  if (opened.index != nullptr) return index_at(*opened.index, col);
  return scheme_.group == 0 ? 0 : col / scheme_.group;
}

float Int4::zero_of(const Opened& opened, int64_t row, int64_t group) const {
  if (!opened.zeros) return kMiddle;
  const uint32_t code =
      scheme_.layout->in_first ? opened.zeros->get(group, row) : opened.zeros->get(row, group);
  return static_cast<float>(zeros_ == Zeros::plus_one ? code + 1 : code);
}

void Int4::check(const moert_tensor_t& weight) const { open(weight); }

void Int4::decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
                  int64_t out_stride) const {
  const Opened opened = open(weight);
  expect_rows(opened.size, row, rows, out, out_stride);
  const bool in_first = scheme_.layout->in_first;
  for (int64_t r = row; r < row + rows; ++r)
    for (int64_t c = 0; c < opened.size.cols; ++c) {
      const int64_t group = group_of(opened, c);
      const uint32_t code = in_first ? opened.codes.get(c, r) : opened.codes.get(r, c);
      const float scale =
          in_first ? opened.scales.of_block(group, r) : opened.scales.of_block(r, group);
      out[(r - row) * out_stride + c] =
          (static_cast<float>(code) - zero_of(opened, r, group)) * scale;
    }
}

void Int4::encode(const moert_tensor_t& source, const moert_tensor_t& weight) const {
  if (weight.quant != nullptr && weight.quant->group_index != nullptr)
    throw PluginError(MOERT_UNIMPLEMENTED, name_ + " with a group index cannot be written");
  const Opened opened = open(weight, Scales::to_be_written);
  expect_source(source, opened.size);
  for (int64_t row = 0; row < opened.size.rows; ++row)
    for (int64_t group = 0; group < opened.groups; ++group)
      encode_group(source, opened, row, group);
  if (!opened.zeros) return;
  // To the end of the last word, whatever it held before.
  const bool in_first = scheme_.layout->in_first;
  const uint32_t zero = zeros_ == Zeros::plus_one ? kMiddle - 1 : kMiddle;
  const Shape words = stored(opened.size.rows, opened.groups, scheme_.layout->zero_dimension);
  const int64_t rows = words.at[in_first ? 1 : 0] * PackedWords::kCodes;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t group = 0; group < opened.groups; ++group)
      opened.zeros->set(in_first ? group : row, in_first ? row : group, zero);
}

void Int4::encode_group(const moert_tensor_t& source, const Opened& opened, int64_t row,
                        int64_t group) const {
  const bool in_first = scheme_.layout->in_first;
  const int64_t width = scheme_.group == 0 ? opened.size.cols : scheme_.group;
  const int64_t first = group * width;
  double least = 0;
  for (int64_t c = first; c < first + width; ++c) {
    const double value = finite_at(source, row, c);
    least = std::max(least, value > 0 ? value / 7 : value / -8);
  }
  const float scale = scale_near(least, scheme_.scale_dtype, kMiddle);
  opened.scales.set(in_first ? group : row, in_first ? row : group, scale);
  for (int64_t c = first; c < first + width; ++c) {
    const double code = std::nearbyint(finite_at(source, row, c) / double{scale}) + kMiddle;
    opened.codes.set(in_first ? c : row, in_first ? row : c,
                     static_cast<uint32_t>(std::clamp(code, 0.0, 15.0)));
  }
}

}  // namespace moert::quant
