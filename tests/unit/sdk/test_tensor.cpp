// Views, their checks, and reading and writing elements.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <moert/sdk/tensor.hpp>
#include <vector>

namespace moert {
namespace {

// Message of the PluginError that `body` throws; its code must be `code`.
template <class Body>
std::string thrown(moert_code_t code, Body&& body) {
  try {
    body();
  } catch (const PluginError& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(TensorView, DenseViewsHaveRowMajorStridesAndTheirBytes) {
  float data[24] = {};
  const TensorView view(data, MOERT_DTYPE_F32, {2, 3, 4});
  const moert_tensor_t& t = *view.get();
  EXPECT_EQ(t.struct_size, sizeof t);
  EXPECT_EQ(t.data, data);
  EXPECT_EQ(t.rank, 3u);
  EXPECT_EQ(t.strides[0], 12);
  EXPECT_EQ(t.strides[1], 4);
  EXPECT_EQ(t.strides[2], 1);
  EXPECT_EQ(t.bytes, 96u);
  EXPECT_EQ(t.device.kind, MOERT_DEVICE_CPU);
  EXPECT_EQ(t.quant, nullptr);
  EXPECT_EQ(element_count(t), 24);
  EXPECT_EQ(tensor_text(t), "f32 [2, 3, 4]");
}

TEST(TensorView, ScalarsAndEmptyTensors) {
  double one = 1;
  const TensorView scalar(&one, MOERT_DTYPE_F64, std::initializer_list<int64_t>{});
  EXPECT_EQ(scalar.get()->bytes, 8u);
  EXPECT_EQ(element_count(*scalar.get()), 1);
  const TensorView empty(static_cast<void*>(nullptr), MOERT_DTYPE_BF16, {0, 7});
  EXPECT_EQ(empty.get()->bytes, 0u);
  EXPECT_EQ(element_count(*empty.get()), 0);
}

// A copy must not point into the view that it was made from.
TEST(TensorView, CopiesStandOnTheirOwn) {
  float data[6] = {};
  std::vector<TensorView> views;
  {
    TensorView first(data, MOERT_DTYPE_F32, {2, 3});
    views.push_back(first);
    first.set_stride(0, 99, 1);
  }
  TensorView second(data, MOERT_DTYPE_F32, {6});
  second = views[0];
  views.clear();
  views.shrink_to_fit();
  EXPECT_EQ(tensor_text(*second.get()), "f32 [2, 3]");
  EXPECT_EQ(second.get()->strides[0], 3);
  EXPECT_EQ(second.get()->bytes, 24u);
}

TEST(TensorView, ConstMemoryIsMarkedReadOnly) {
  const float data[2] = {1, 2};
  const TensorView view(static_cast<const void*>(data), MOERT_DTYPE_F32, {2});
  EXPECT_NE(view.get()->flags & MOERT_TENSOR_READ_ONLY, 0u);
}

TEST(TensorView, RanksAboveEightAreRefused) {
  const int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  float x = 0;
  thrown(MOERT_INVALID_ARGUMENT,
         [&] { TensorView(static_cast<void*>(&x), MOERT_DTYPE_F32, shape, 9, 0); });
  const TensorView fits(static_cast<void*>(&x), MOERT_DTYPE_F32, shape, 8, 0);
  EXPECT_EQ(fits.get()->rank, 8u);
}

TEST(ExpectTensor, NamesWhatWasFoundAndWhatWasExpected) {
  float data[6] = {};
  const TensorView view(data, MOERT_DTYPE_F32, {2, 3});
  EXPECT_EQ(&expect_tensor(view, "x", MOERT_DTYPE_F32, {2, 3}), view.get());
  EXPECT_EQ(&expect_tensor(view, "x", MOERT_DTYPE_F32, {-1, 3}), view.get());
  const std::string shape =
      thrown(MOERT_INVALID_ARGUMENT, [&] { expect_tensor(view, "x", MOERT_DTYPE_F32, {2, 4}); });
  EXPECT_EQ(shape, "x is f32 [2, 3], expected f32 [2, 4]");
  thrown(MOERT_INVALID_ARGUMENT, [&] { expect_tensor(view, "x", MOERT_DTYPE_BF16, {2, 3}); });
  thrown(MOERT_INVALID_ARGUMENT, [&] { expect_tensor(view, "x", MOERT_DTYPE_F32, {6}); });
  const std::string missing =
      thrown(MOERT_INVALID_ARGUMENT, [&] { expect_tensor(nullptr, "x", MOERT_DTYPE_F32, {2}); });
  EXPECT_EQ(missing, "x is missing");
}

TEST(ExpectContiguousRows, OnlyTheLastStrideCounts) {
  float data[64] = {};
  TensorView view(data, MOERT_DTYPE_F32, {2, 3});
  view.set_stride(0, 30, sizeof data);
  EXPECT_NO_THROW(expect_contiguous_rows(*view.get(), "x"));
  EXPECT_EQ(row_of<float>(*view.get(), 1), data + 30);
  view.set_stride(1, 2, sizeof data);
  thrown(MOERT_INVALID_ARGUMENT, [&] { expect_contiguous_rows(*view.get(), "x"); });
  TensorView column(data, MOERT_DTYPE_F32, {2, 1});
  column.set_stride(1, 5, sizeof data);  // a single column has no gap in it
  EXPECT_NO_THROW(expect_contiguous_rows(*column.get(), "x"));
}

TEST(Elements, PlainFloatsGoThereAndBack) {
  for (const uint32_t dtype :
       {MOERT_DTYPE_F64, MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16}) {
    alignas(8) unsigned char memory[64];
    std::memset(memory, 0xff, sizeof memory);
    const TensorView view(memory, dtype, {3});
    write_f32(*view.get(), 1, -1.5f);
    EXPECT_EQ(read_f32(*view.get(), 1), -1.5f) << dtype_name(dtype);
    EXPECT_TRUE(std::isnan(read_f32(*view.get(), 0))) << "a neighbour was written";
    EXPECT_TRUE(std::isnan(read_f32(*view.get(), 2))) << "a neighbour was written";
  }
}

TEST(Elements, OtherTypesAreNoPlainFloats) {
  unsigned char memory[8] = {};
  for (const uint32_t dtype : {MOERT_DTYPE_F8_E4M3FN, MOERT_DTYPE_I32, MOERT_DTYPE_F4_E2M1}) {
    const TensorView view(memory, dtype, {1});
    EXPECT_NE(thrown(MOERT_INVALID_ARGUMENT, [&] { (void)read_f32(*view.get(), 0); }), "");
    EXPECT_NE(thrown(MOERT_INVALID_ARGUMENT, [&] { write_f32(*view.get(), 0, 0); }), "");
  }
}

}  // namespace
}  // namespace moert
