// quant_method: what a format says about itself, decoding of any view, encoding.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/quant_method.h>

#include <cmath>
#include <limits>

#include "host.hpp"
#include "kinds.hpp"
#include "numbers.hpp"
#include "quant_int4.hpp"
#include "quant_int8.hpp"
#include "quant_packed.hpp"
#include "quant_scaled.hpp"

namespace moert::conformance {
namespace {

// An object for one scheme. Formats of plain floats are checked number by number as well.
class Rig {
 public:
  Rig(const Feature& feature, std::string name)
      : table(feature.table<moert_quant_method_t>()), scheme(std::move(name)), host(1) {
    must("create",
         [&](auto* e) { return table.create(host.table(), scheme.c_str(), nullptr, 0, &self, e); });
    dtype = dtype_from_name(scheme);
    if (dtype != MOERT_DTYPE_F32 && dtype != MOERT_DTYPE_BF16 && dtype != MOERT_DTYPE_F16)
      dtype = MOERT_DTYPE_INVALID;
  }
  ~Rig() {
    if (self != nullptr) table.destroy(self);
    EXPECT_EQ(host.live(), 0u) << "destroy left host memory behind";
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  void need_plain() const {
    if (dtype == MOERT_DTYPE_INVALID) throw Skip{"not a format of plain floats"};
  }
  moert_code_t decode(const moert_tensor_t* weight, int64_t row, int64_t rows, float* out,
                      int64_t stride, moert_error_t* e) {
    return table.decode(self, weight, row, rows, out, stride, e);
  }
  const moert_quant_method_t& table;
  std::string scheme;
  TestHost host;
  void* self = nullptr;
  uint32_t dtype = MOERT_DTYPE_INVALID;
};

// Value of a 16-bit float by the definition of its fields.
double value_of(uint32_t dtype, uint32_t bits) {
  const int fraction_bits = dtype == MOERT_DTYPE_F16 ? 10 : 7;
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits);
}

void scheme_names(Rig& rig) {
  const auto verdict = [&](const char* scheme) {
    moert_support_t support{};
    support.struct_size = sizeof support;
    must("supports",
         [&](auto* e) { return rig.table.supports(rig.host.table(), scheme, &support, e); });
    if (support.verdict == 0) {
      EXPECT_NE(support.reason[0], '\0') << "a verdict of no without a reason";
    }
    return support.verdict;
  };
  EXPECT_EQ(verdict(rig.scheme.c_str()), 1);
  for (const std::string& wrong :
       {std::string(), std::string("no_such_scheme"), rig.scheme + "x", rig.scheme.substr(1)})
    EXPECT_EQ(verdict(wrong.c_str()), 0) << "'" << wrong << "' was accepted";
  void* other = nullptr;
  ErrorRecord error;
  const moert_code_t code =
      rig.table.create(rig.host.table(), "no_such_scheme", nullptr, 0, &other, error.get());
  EXPECT_NE(code, MOERT_OK) << "an object for a scheme that nobody knows";
  if (code != MOERT_OK) error.expect_filled(code);
  const moert_kv_t option = {"no_such_option", "1"};
  must_fail("an option that nobody knows", {MOERT_INVALID_ARGUMENT}, [&](auto* e) {
    return rig.table.create(rig.host.table(), rig.scheme.c_str(), &option, 1, &other, e);
  });
}

void parameters_test(Rig& rig) {
  int64_t width = 34, height = 12;
  must("round_sizes", [&](auto* e) { return rig.table.round_sizes(rig.self, &width, &height, e); });
  const auto all = parameters_of({rig.table, rig.self, rig.scheme}, height, width);
  if (all.empty()) stop("a weight of no tensors");
  EXPECT_EQ(all[0].param, uint32_t{MOERT_PARAM_WEIGHT});
  EXPECT_EQ(all[0].required, 1u);
  for (const moert_quant_param_t& param : all) EXPECT_LE(param.rank, 4u);
  if (rig.dtype != MOERT_DTYPE_INVALID) {
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].dtype, rig.dtype);
    EXPECT_EQ(all[0].rank, 2u);
    EXPECT_EQ(all[0].shape[0], 12);
    EXPECT_EQ(all[0].shape[1], 34);
  }
  moert_quant_param_t none;
  std::memset(&none, 0x5a, sizeof none);
  uint32_t count = 0;
  must("parameters without room",
       [&](auto* e) { return rig.table.parameters(rig.self, height, width, &none, 0, &count, e); });
  EXPECT_EQ(count, all.size());
  EXPECT_EQ(none.param, 0x5a5a5a5au) << "more records were written than there was room for";
  must_fail("a negative size", {MOERT_INVALID_ARGUMENT}, [&](auto* e) {
    return rig.table.parameters(rig.self, -1, width, &none, 0, &count, e);
  });
  int64_t h = 33;
  int64_t i = 17;
  must("round_sizes", [&](auto* e) { return rig.table.round_sizes(rig.self, &h, &i, e); });
  EXPECT_GE(h, 33);
  EXPECT_GE(i, 17);
  const int64_t once_h = h;
  const int64_t once_i = i;
  must("round_sizes", [&](auto* e) { return rig.table.round_sizes(rig.self, &h, &i, e); });
  EXPECT_TRUE(h == once_h && i == once_i) << "sizes that are rounded are rounded again";
}

// Every number that the format has.
void every_number(Rig& rig) {
  rig.need_plain();
  if (rig.dtype == MOERT_DTYPE_F32) throw Skip{"2^32 numbers"};
  std::vector<uint16_t> bits(0x10000);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const TensorView weight(static_cast<const void*>(bits.data()), rig.dtype, {256, 256});
  std::vector<float> out(bits.size());
  must("decode", [&](auto* e) { return rig.decode(weight, 0, 256, out.data(), 256, e); });
  for (size_t i = 0; i < bits.size(); ++i) {
    const double want = value_of(rig.dtype, static_cast<uint32_t>(i));
    const auto got = static_cast<double>(out[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got)
                                 : got == want && std::signbit(got) == std::signbit(want))
        << "bits " << i << ": got " << got << ", want " << want;
  }
}

// Rows of a view with any strides, at any address, into rows that lie apart.
void views(Rig& rig) {
  rig.need_plain();
  constexpr int64_t kRows = 5;
  constexpr int64_t kCols = 7;
  Random random("views");
  std::vector<double> numbers(400);
  for (double& x : numbers) x = random.uniform();
  const Values values = rounded(rig.dtype, numbers);
  const auto size = static_cast<int64_t>(dtype_bytes(rig.dtype, 1));
  for (const auto& [down, right] :
       {std::pair<int64_t, int64_t>{7, 1}, {1, 5}, {50, 3}, {0, 1}, {9, 0}}) {
    for (const int64_t odd : {0, 1}) {
      Bytes file(values.bytes.size() + 1);
      std::memcpy(&file[static_cast<size_t>(odd)], values.bytes.data(), values.bytes.size());
      TensorView view(static_cast<const void*>(&file[static_cast<size_t>(odd)]), rig.dtype,
                      {kRows, kCols});
      const auto extent =
          static_cast<uint64_t>(((kRows - 1) * down + (kCols - 1) * right + 1) * size);
      view.set_stride(0, down, extent);
      view.set_stride(1, right, extent);
      std::vector<float> out(3 * 11, 77.0f);
      must("check", [&](auto* e) { return rig.table.check(rig.self, view, e); });
      must("decode", [&](auto* e) { return rig.decode(view, 2, 3, out.data(), 11, e); });
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 11; ++c) {
          const double want =
              c < kCols ? values.number[static_cast<size_t>((2 + r) * down + c * right)] : 77.0;
          EXPECT_EQ(static_cast<double>(out[static_cast<size_t>(r * 11 + c)]), want)
              << "strides " << down << ", " << right << ": row " << 2 + r << ", column " << c;
        }
    }
  }
}

void empty_views(Rig& rig) {
  rig.need_plain();
  float guard = 5;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 8}, {8, 0}, {0, 0}}) {
    const TensorView view(static_cast<const void*>(nullptr), rig.dtype, {rows, cols});
    must("check of nothing", [&](auto* e) { return rig.table.check(rig.self, view, e); });
    must("decode of nothing", [&](auto* e) { return rig.decode(view, 0, rows, &guard, cols, e); });
  }
  EXPECT_EQ(guard, 5.0f);
}

void refuses(Rig& rig) {
  rig.need_plain();
  const Bytes bytes(4096, 0);
  const void* data = bytes.data();
  const std::initializer_list<moert_code_t> damaged = {MOERT_DATA_LOSS};
  const auto check = [&](const char* what, const moert_tensor_t* t,
                         std::initializer_list<moert_code_t> codes) {
    must_fail(what, codes, [&](auto* e) { return rig.table.check(rig.self, t, e); });
    float out[64];
    must_fail(what, codes, [&](auto* e) { return rig.decode(t, 0, 1, out, 64, e); });
  };
  const TensorView good(data, rig.dtype, {4, 8});
  check("another dtype", TensorView(data, MOERT_DTYPE_U8, {4, 8}), damaged);
  check("a vector", TensorView(data, rig.dtype, {32}), damaged);
  check("three dimensions", TensorView(data, rig.dtype, {1, 4, 8}), damaged);
  TensorView far(data, rig.dtype, {4, 8});
  far.set_stride(0, int64_t{1} << 61, good.get()->bytes);
  check("strides beyond the bytes", far, damaged);
  TensorView backwards(data, rig.dtype, {4, 8});
  backwards.set_stride(0, -8, good.get()->bytes);
  check("a negative stride", backwards, damaged);
  moert_tensor_t small = *good.get();
  small.bytes -= 1;
  check("one byte too few", &small, damaged);
  moert_tensor_t flagged = *good.get();
  flagged.flags |= 1u << 31;
  check("a tensor flag that nobody knows", &flagged, {MOERT_UNIMPLEMENTED});
  moert_quant_view_t quant{};
  quant.struct_size = sizeof quant;
  quant.scheme = "no_such_scheme";
  TensorView other = good;
  other.set_quant(&quant);
  check("another scheme", other, damaged);
  quant.scheme = rig.scheme.c_str();
  quant.layout = "org.example:private";
  check("a private layout", other, damaged);
  quant.layout = "canonical";
  must("a quant record that says nothing new",
       [&](auto* e) { return rig.table.check(rig.self, other, e); });
  const TensorView scale(data, MOERT_DTYPE_F32, {4});
  for (const moert_tensor_t** companion :
       {&quant.scale, &quant.scale2, &quant.zero_point, &quant.group_index, &quant.input_scale}) {
    *companion = scale;
    check("a companion that the format does not have", other, damaged);
    *companion = nullptr;
  }
}

void wrong_rows(Rig& rig) {
  rig.need_plain();
  const Bytes bytes(4096, 0);
  const TensorView good(static_cast<const void*>(bytes.data()), rig.dtype, {4, 8});
  std::vector<float> out(64, 77.0f);
  const std::pair<int64_t, int64_t> ranges[] = {{-1, 1}, {0, 5},         {4, 1},        {3, 2},
                                                {0, -1}, {INT64_MAX, 1}, {1, INT64_MAX}};
  for (const auto& [row, rows] : ranges)
    must_fail("rows outside the weight", {MOERT_INVALID_ARGUMENT, MOERT_OUT_OF_RANGE},
              [&, first = row, count = rows](auto* e) {
                return rig.decode(good, first, count, out.data(), 8, e);
              });
  must_fail("rows of the destination that overlap", {MOERT_INVALID_ARGUMENT},
            [&](auto* e) { return rig.decode(good, 0, 2, out.data(), 7, e); });
  must_fail("no weight", {MOERT_INVALID_ARGUMENT},
            [&](auto* e) { return rig.decode(nullptr, 0, 1, out.data(), 8, e); });
  for (const float x : out) EXPECT_EQ(x, 77.0f) << "the destination was written all the same";
}

// Nearest, ties to even, saturating: judged by the neighbours among the format's own numbers.
void encoding(Rig& rig) {
  rig.need_plain();
  if (rig.table.encode == nullptr) throw Skip{"cannot be written"};
  std::vector<float> source = {0.0f,       -0.0f,      1.0f,
                               65503.9f,   65519.9f,   65520.0f,
                               1e30f,      -3.4e38f,   std::numeric_limits<float>::max(),
                               1e-45f,     -1e-7f,     0x1p-25f,
                               0x1.8p-24f, 0x1.002p0f, 0x1.006p0f,
                               0x1.01p0f,  0x1.03p0f,  -0x1.01p0f};
  Random random("encoding");
  while (source.size() < 4096)
    source.push_back(
        static_cast<float>(std::ldexp(random.uniform(), static_cast<int>(random.below(60)) - 30)));
  const auto count = static_cast<int64_t>(source.size());
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {count / 64, 64});
  Place place(nullptr);
  Tensor weight(place, rig.dtype, {count / 64, 64});
  must("encode", [&](auto* e) { return rig.table.encode(rig.self, from, weight.get(), e); });
  weight.buffer().expect_guards("the weight");
  const Bytes bytes = weight.read();
  const std::vector<double> got = decoded(rig.dtype, bytes);
  for (size_t i = 0; i < source.size(); ++i) {
    const auto want = static_cast<double>(source[i]);
    if (rig.dtype == MOERT_DTYPE_F32) {
      EXPECT_EQ(got[i], want);
      continue;
    }
    const uint32_t bits = values_of<uint16_t>(bytes)[i];
    ASSERT_TRUE(std::isfinite(got[i])) << want << " became " << got[i];
    EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << want;
    const double largest = value_of(rig.dtype, rig.dtype == MOERT_DTYPE_F16 ? 0x7bffu : 0x7f7fu);
    if (std::fabs(want) >= largest) {
      EXPECT_EQ(std::fabs(got[i]), largest) << want << " is beyond the largest number";
      continue;
    }
    const double above = value_of(rig.dtype, bits + 1);
    const double below =
        (bits & 0x7fffu) == 0 ? -value_of(rig.dtype, bits + 1) : value_of(rig.dtype, bits - 1);
    const double error = std::fabs(got[i] - want);
    for (const double neighbour : {above, below}) {
      if (!std::isfinite(neighbour)) continue;
      const double other = std::fabs(neighbour - want);
      EXPECT_TRUE(error < other || (error == other && bits % 2 == 0))
          << want << " became " << got[i] << ", but " << neighbour << " is nearer or even";
    }
  }
}

void odd_numbers_survive(Rig& rig) {
  rig.need_plain();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> source = {inf, -inf, std::numeric_limits<float>::quiet_NaN()};
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {1, 3});
  Place place(nullptr);
  Tensor weight(place, rig.dtype, {1, 3});
  must("encode", [&](auto* e) { return rig.table.encode(rig.self, from, weight.get(), e); });
  const std::vector<double> got = decoded(rig.dtype, weight.read());
  EXPECT_EQ(got[0], HUGE_VAL);
  EXPECT_EQ(got[1], -HUGE_VAL);
  EXPECT_TRUE(std::isnan(got[2]));
}

}  // namespace

void add_quant_tests(const Feature& feature) {
  const std::pair<const char*, void (*)(Rig&)> of_all[] = {{"SchemeNames", scheme_names},
                                                           {"Parameters", parameters_test}};
  const std::pair<const char*, void (*)(Rig&)> of_plain[] = {
      {"EveryNumber", every_number},
      {"Views", views},
      {"EmptyViews", empty_views},
      {"Refuses", refuses},
      {"WrongRows", wrong_rows},
      {"Encoding", encoding},
      {"OddNumbersSurvive", odd_numbers_survive}};
  std::string schemes = feature.cap("schemes");
  add(feature, "NamesItsSchemes", "", [schemes] {
    EXPECT_NE(schemes, "") << "the capability 'schemes' is missing: nobody could find the format";
  });
  for (size_t comma = 0; !schemes.empty(); schemes.erase(0, comma)) {
    schemes.erase(0, schemes.find_first_not_of(", "));
    comma = std::min(schemes.find(','), schemes.size());
    const std::string scheme = schemes.substr(0, comma);
    const auto add_test = [&](const char* name, auto run) {
      add(feature, name, scheme, [feature, scheme, run] {
        Rig rig(feature, scheme);
        run(rig);
      });
    };
    for (const auto& [name, run] : of_all) add_test(name, run);
    const FormatTests* of_format = is_scaled(scheme)   ? &scaled_tests()
                                   : is_packed(scheme) ? &packed_tests(scheme)
                                   : is_int8(scheme)   ? &int8_tests()
                                   : is_int4(scheme)   ? &int4_tests()
                                                       : nullptr;
    if (of_format != nullptr) {
      for (const auto& [name, run] : *of_format)
        add_test(name, [test = run](Rig& rig) { test({rig.table, rig.self, rig.scheme}); });
    } else {
      for (const auto& [name, run] : of_plain) add_test(name, run);
    }
  }
}

}  // namespace moert::conformance
