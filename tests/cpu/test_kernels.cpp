// The multiplications of every level one by one: what they read, what mxfp4's codes and scales mean, and that a row
// does not see its neighbours. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "../../plugins/cpu/simd/isa.hpp"
#include "cpu/products.hpp"

namespace moert::cpu::testing {
namespace {

using namespace simd;

// The kernels of a level, or null where they cannot run.
const Kernels* runnable(Isa isa) {
  if (isa > isa_of(cpu_facts())) return nullptr;
#if defined(__x86_64__)
  switch (isa) {
#if defined(MOERT_CPU_AMX)
    case Isa::amx_bf16: return ask_for_tiles().empty() ? &kAmxBf16Kernels : nullptr;
#else
    case Isa::amx_bf16: return nullptr;
#endif
    case Isa::avx512_bf16: return &kAvx512Bf16Kernels;
    case Isa::avx512: return &kAvx512Kernels;
    case Isa::avx2: return &kAvx2Kernels;
    case Isa::portable: break;
  }
#endif
  return &kPortableKernels;
}

struct Format {
  const char* name;
  PanelFormat panel;
};
constexpr Format kFormats[] = {{"bf16", {Storage::bf16, 0, Scales::none}},
                               {"f16", {Storage::f16, 0, Scales::none}},
                               {"f32", {Storage::f32, 0, Scales::none}},
                               {"mxfp4", {Storage::mxfp4, 0, Scales::none}},
                               {"fp8_halves", {Storage::fp8, 32, Scales::halves}},
                               {"fp8_powers", {Storage::fp8, 32, Scales::powers}},
                               {"fp8_groups", {Storage::fp8, 64, Scales::columns}},
                               {"fp8_columns", {Storage::fp8, 0, Scales::columns}},
                               {"int8_columns", {Storage::int8, 0, Scales::columns}},
                               {"int8_groups", {Storage::int8, 32, Scales::halves}}};
struct Kernel {
  Isa isa;
  bool bf16_rows;
  Format format;
};

// Those that a level must have: rows of f32 with everything, rows of bf16 where there is a dot product for them.
std::vector<Kernel> all_kernels() {
  std::vector<Kernel> all;
  for (int isa = 0; isa < kIsas; ++isa)
    for (const Format& format : kFormats) {
      all.push_back({static_cast<Isa>(isa), false, format});
      const Storage storage = format.panel.storage;
      if (static_cast<Isa>(isa) >= Isa::avx512_bf16 && storage != Storage::f16 &&
          storage != Storage::f32)
        all.push_back({static_cast<Isa>(isa), true, format});
    }
  return all;
}
std::vector<Kernel> coded_kernels() {
  std::vector<Kernel> all = all_kernels();
  std::erase_if(all,
                [](const Kernel& kernel) { return kernel.format.panel.storage != Storage::mxfp4; });
  return all;
}

std::vector<Kernel> byte_kernels() {
  std::vector<Kernel> all = all_kernels();
  std::erase_if(all, [](const Kernel& kernel) { return !is_bytes(kernel.format.panel.storage); });
  return all;
}

std::string name_of(const Kernel& kernel) {
  return std::string(isa_name(kernel.isa)) + (kernel.bf16_rows ? "_bf16_x_" : "_f32_x_") +
         kernel.format.name;
}
void PrintTo(const Kernel& kernel, std::ostream* out) { *out << name_of(kernel); }

class SimdKernels : public ::testing::TestWithParam<Kernel> {
 protected:
  void SetUp() override {
    const Kernels* kernels = runnable(GetParam().isa);
    if (kernels == nullptr) GTEST_SKIP() << "this machine does not have the level";
    const auto& table = GetParam().bf16_rows ? kernels->bf16_rows : kernels->f32_rows;
    multiply_ = table[static_cast<int>(format().storage)];
    ASSERT_NE(multiply_, nullptr);
  }
  const PanelFormat& format() const { return GetParam().format.panel; }
  bool coded() const { return format().storage == Storage::mxfp4; }
  int64_t row_size() const { return GetParam().bf16_rows ? 2 : 4; }
  // A row that ends where its memory ends.
  Guarded row(const std::vector<float>& numbers) const {
    Guarded memory(static_cast<int64_t>(numbers.size()) * row_size());
    for (size_t d = 0; d < numbers.size(); ++d) {
      const uint16_t half = bf16_bits(numbers[d]);
      if (GetParam().bf16_rows)
        std::memcpy(memory.data() + d * 2, &half, 2);
      else
        std::memcpy(memory.data() + d * 4, &numbers[d], 4);
    }
    return memory;
  }
  void multiply(Product product) const {
    product.format = format();
    multiply_(product);
  }

 private:
  void (*multiply_)(const Product&) = nullptr;
};

// Rows in memory of their own and what they hold.
struct RandomRows {
  RandomRows(int64_t count, int64_t depth,
             const std::function<Guarded(const std::vector<float>&)>& row) {
    std::mt19937_64 random(static_cast<uint64_t>(depth));
    for (int64_t r = 0; r < count; ++r) {
      numbers.emplace_back();
      for (int64_t d = 0; d < depth; ++d) numbers.back().push_back(random_number(random));
      memory.push_back(row(numbers.back()));
      pointers.push_back(memory.back().data());
    }
  }
  std::vector<std::vector<float>> numbers;
  std::vector<Guarded> memory;
  std::vector<const void*> pointers;
};

constexpr int64_t kMostRows = 13;

void expect_near_product(const float* sums, const std::vector<float>& row, const Panel& panel) {
  for (int64_t c = 0; c < kPanel; ++c) {
    double want = 0;
    double size = 0;
    for (int64_t d = 0; d < panel.depth; ++d) {
      const double term = static_cast<double>(row[static_cast<size_t>(d)]) * panel.number(d, c);
      want += term;
      size += std::fabs(term);
    }
    EXPECT_NEAR(static_cast<double>(sums[c]), want, size * 0x1p-20) << "column " << c;
  }
}

// Rows, panel and sums end where their memory ends, whatever is left over of a pair, a block or a tile; each row is
// as it is alone.
TEST_P(SimdKernels, ReadNothingBehindTheirOperands) {
  for (const int64_t depth : {1, 2, 31, 33, 64, 67, 129}) {
    const int64_t whole = coded() ? (depth + 31) / 32 * 32 : depth;
    const Panel panel = Panel::random(format(), whole, 3);
    const RandomRows rows(kMostRows, whole, [this](const auto& numbers) { return row(numbers); });
    std::vector<float> alone(static_cast<size_t>(kMostRows * kPanel));
    for (int64_t count = 1; count <= kMostRows; ++count) {
      SCOPED_TRACE("depth " + std::to_string(whole) + ", rows " + std::to_string(count));
      const Guarded sums(count * kPanel * 4);
      std::memset(sums.data(), 0xff, sums.bytes());
      auto* out = reinterpret_cast<float*>(sums.data());
      multiply({rows.pointers.data(), count, panel.bytes.data(), 0, whole, out, false, {}});
      float* last = &alone[static_cast<size_t>((count - 1) * kPanel)];
      multiply({&rows.pointers[static_cast<size_t>(count - 1)],
                1,
                panel.bytes.data(),
                0,
                whole,
                last,
                false,
                {}});
      EXPECT_TRUE(same(out, alone.data(), count * kPanel));
      expect_near_product(last, rows.numbers[static_cast<size_t>(count - 1)], panel);
    }
  }
}

// In several calls, the last of which ends with the rows.
TEST_P(SimdKernels, MayBeCalledForPartsOfTheDepth) {
  if (is_bytes(format().storage) && format().group == 0) GTEST_SKIP() << "is one group";
  const int64_t depth = coded() ? 160 : 143;
  const Panel panel = Panel::random(format(), depth, 5);
  const RandomRows rows(7, depth, [this](const auto& numbers) { return row(numbers); });
  std::vector<float> whole(7 * kPanel);
  multiply({rows.pointers.data(), 7, panel.bytes.data(), 0, depth, whole.data(), false, {}});
  std::vector<float> parts(7 * kPanel, NAN);
  for (int64_t first = 0; first < depth; first += 64)
    multiply({rows.pointers.data(),
              7,
              panel.bytes.data(),
              first,
              std::min<int64_t>(64, depth - first),
              parts.data(),
              first > 0,
              {}});
  EXPECT_TRUE(same(parts.data(), whole.data(), 7 * kPanel));
}

// Every byte that is a number, in every place of a pair, exactly.
class SimdBytes : public SimdKernels {};

TEST_P(SimdBytes, AreKnown) {
  constexpr int64_t kDepth = 32;
  for (int half = 0; half < 8; ++half) {
    Panel panel(format(), kDepth);
    for (int64_t i = 0; i < kDepth * kPanel; ++i) {
      if (i < kPanel) panel.put_byte_scale(0, i, -3);
      const auto code = static_cast<uint8_t>(i + i / kPanel + 32 * half);
      const bool nan = format().storage == Storage::fp8 && (code & 127) == 127;
      panel.put_byte(i / kPanel, i % kPanel, nan ? uint8_t{1} : code);
    }
    for (int64_t d = 0; d < kDepth; ++d) {
      std::vector<float> one(kDepth, 0.0f);
      one[static_cast<size_t>(d)] = 1;
      const Guarded memory = row(one);
      const std::vector<const void*> rows(12, memory.data());
      std::vector<float> sums(12 * kPanel);
      for (const int64_t count : {1, 12}) {
        multiply({rows.data(), count, panel.bytes.data(), 0, kDepth, sums.data(), false, {}});
        for (int64_t i = 0; i < count * kPanel; ++i)
          ASSERT_EQ(sums[static_cast<size_t>(i)], static_cast<float>(panel.number(d, i % kPanel)))
              << "depth " << d << ", column " << i % kPanel << ", " << count << " rows";
      }
    }
  }
}

TEST_P(SimdBytes, NanStaysNan) {
  if (format().storage != Storage::fp8) GTEST_SKIP() << "integers have none";
  for (const uint8_t code : {0x7f, 0xff}) {
    Panel panel(format(), 2);
    for (int64_t c = 0; c < kPanel; ++c) panel.put_byte_scale(0, c, 0);
    panel.put_byte(1, 5, code);
    const Guarded memory = row({1, 1});
    const std::vector<const void*> rows(12, memory.data());
    std::vector<float> sums(12 * kPanel);
    for (const int64_t count : {1, 12}) {
      multiply({rows.data(), count, panel.bytes.data(), 0, 2, sums.data(), false, {}});
      for (int64_t i = 0; i < count * kPanel; ++i)
        EXPECT_EQ(std::isnan(sums[static_cast<size_t>(i)]), i % kPanel == 5) << i;
    }
  }
}

class SimdCodes : public SimdKernels {};

// Row d picks what the panel has at depth d: every code in every place of a group, with scales from the least to the
// largest. Numbers are exact, also those that are subnormal; those beyond f32 are infinite.
TEST_P(SimdCodes, AreKnownInEveryPlaceWithEveryScale) {
  constexpr uint8_t kScales[] = {0, 1, 2, 126, 127, 128, 253, 254};
  constexpr int64_t kDepth = 2 * kGroup;
  Panel panel(format(), kDepth);
  for (int64_t d = 0; d < kDepth; ++d)
    for (int64_t c = 0; c < kPanel; ++c) {
      if (d % kGroup == 0) panel.put_scale(d / kGroup, c, kScales[(c / 3 + d / kGroup) % 8]);
      panel.put_code(d, c, static_cast<uint32_t>(c + d / 2) % 16);
    }
  std::vector<Guarded> memory;
  std::vector<const void*> pointers;
  for (int64_t r = 0; r < kDepth; ++r) {
    std::vector<float> numbers(kDepth, 0.0f);
    numbers[static_cast<size_t>(r)] = 1;
    memory.push_back(row(numbers));
    pointers.push_back(memory.back().data());
  }
  for (const int64_t count : {int64_t{1}, kDepth}) {
    std::vector<float> sums(static_cast<size_t>(kDepth * kPanel));
    for (int64_t r = 0; r < kDepth; r += count)
      multiply({&pointers[static_cast<size_t>(r)],
                count,
                panel.bytes.data(),
                0,
                kDepth,
                &sums[static_cast<size_t>(r * kPanel)],
                false,
                {}});
    for (int64_t r = 0; r < kDepth; ++r)
      for (int64_t c = 0; c < kPanel; ++c)
        ASSERT_EQ(sums[static_cast<size_t>(r * kPanel + c)], static_cast<float>(panel.number(r, c)))
            << "depth " << r << ", column " << c << ", " << count << " rows at a time";
  }
}

INSTANTIATE_TEST_SUITE_P(All, SimdKernels, ::testing::ValuesIn(all_kernels()),
                         [](const auto& one) { return name_of(one.param); });
INSTANTIATE_TEST_SUITE_P(All, SimdBytes, ::testing::ValuesIn(byte_kernels()),
                         [](const auto& one) { return name_of(one.param); });
INSTANTIATE_TEST_SUITE_P(All, SimdCodes, ::testing::ValuesIn(coded_kernels()),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace moert::cpu::testing
