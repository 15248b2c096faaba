// routed_experts: loading, its order and its errors, and experts that move as bundles.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <thread>

#include "experts.hpp"

namespace moert::conformance {
namespace {

const ExpertsCase kCase = {33, 17, 6, 3, MOERT_DTYPE_F32, MOERT_DTYPE_F32, {}, 0};
const ExpertsCase kBiased = {
    33, 17, 6, 3, MOERT_DTYPE_F32, MOERT_DTYPE_F32, {}, MOERT_PROBLEM_BIAS};

const ExpertsCase kMxfp4 = {64, 96, 6, 3, MOERT_DTYPE_BF16, MOERT_DTYPE_BF16, {}, 0, "none", true};

struct Fresh {
  Fresh(const Feature& feature, const ExpertsCase& c)
      : random(c.name()), rig(feature, c), experts(make_experts(c, random)) {}
  moert_code_t load(int64_t expert, uint32_t part, moert_error_t* e,
                    const moert_tensor_t* tensor = nullptr, uint32_t flags = 0) {
    return rig.load(experts[0], expert, part, MOERT_ROLE_WEIGHT, e, tensor, flags);
  }
  Random random;
  ExpertsRig rig;
  std::vector<Mlp> experts;
};

void duplicates(const Feature& feature) {
  Fresh f(feature, kCase);
  must("load", [&](auto* e) { return f.load(2, MOERT_PART_UP, e); });
  must_fail("the same piece again", {MOERT_ALREADY_EXISTS},
            [&](auto* e) { return f.load(2, MOERT_PART_UP, e); });
  must("another expert's piece", [&](auto* e) { return f.load(3, MOERT_PART_UP, e); });
}

void duplicate_changes_nothing(const Feature& feature) {
  Fresh f(feature, kCase);
  f.rig.load_all(f.experts);
  must_fail("the same piece again, with other numbers", {MOERT_ALREADY_EXISTS},
            [&](auto* e) { return f.load(4, MOERT_PART_DOWN, e); });
  f.rig.finish();
  const Batch batch = make_batch(kCase, f.random, 9);
  expect_experts(kCase, f.experts, batch, f.rig.forward(batch));
}

// Leaves out one piece of one expert at a time: finish must notice each.
void missing(const Feature& feature, const ExpertsCase& c) {
  for (int64_t absent = 0; absent < (c.biased() ? 6 : 3); ++absent) {
    Fresh f(feature, c);
    for (int64_t e = 0; e < c.e; ++e)
      for (int64_t piece = 0; piece < (c.biased() ? 6 : 3); ++piece)
        if (e != c.e - 1 || piece != absent)
          must("load", [&](auto* error) {
            return f.rig.load(f.experts[static_cast<size_t>(e)], e,
                              static_cast<uint32_t>(piece % 3), static_cast<uint32_t>(piece / 3),
                              error);
          });
    must_fail("finish with a piece missing", {MOERT_FAILED_PRECONDITION},
              [&](auto* e) { return f.rig.table().finish(f.rig.self(), e); });
  }
}

void wrong_shapes(const Feature& feature) {
  Fresh f(feature, kCase);
  const Bytes bytes(size_t{4} * 64 * 64, 0);
  const void* data = bytes.data();
  const std::initializer_list<moert_code_t> codes = {MOERT_DATA_LOSS, MOERT_INVALID_ARGUMENT};
  const TensorView transposed(data, MOERT_DTYPE_F32, {33, 17});
  const TensorView longer(data, MOERT_DTYPE_F32, {18, 33});
  const TensorView narrower(data, MOERT_DTYPE_F32, {17, 32});
  const TensorView flat(data, MOERT_DTYPE_F32, {17 * 33});
  const TensorView fused(data, MOERT_DTYPE_F32, {1, 17, 33});
  for (const TensorView& view : {transposed, longer, narrower, flat, fused})
    must_fail("a misshapen weight", codes,
              [&](auto* e) { return f.load(0, MOERT_PART_GATE, e, view); });
  must("the right weight after that", [&](auto* e) { return f.load(0, MOERT_PART_GATE, e); });
}

void wrong_pieces(const Feature& feature) {
  Fresh f(feature, kCase);
  for (const int64_t expert : {int64_t{-1}, kCase.e, int64_t{1} << 40})
    must_fail("an expert that does not exist", {MOERT_INVALID_ARGUMENT, MOERT_OUT_OF_RANGE},
              [&](auto* e) { return f.load(expert, MOERT_PART_UP, e); });
  must_fail("a part that does not exist", {MOERT_INVALID_ARGUMENT, MOERT_UNIMPLEMENTED},
            [&](auto* e) { return f.load(0, 77, e); });
  must_fail("a flag that nobody knows", {MOERT_UNIMPLEMENTED},
            [&](auto* e) { return f.load(0, MOERT_PART_UP, e, nullptr, 1u << 31); });
  must_fail("a bias that the layer does not have", {MOERT_INVALID_ARGUMENT}, [&](auto* e) {
    const std::vector<float> bias(17, 1.0f);
    const TensorView view(static_cast<const void*>(bias.data()), MOERT_DTYPE_F32, {17});
    return f.rig.load(f.experts[0], 0, MOERT_PART_UP, MOERT_ROLE_BIAS, e, view);
  });
}

void order(const Feature& feature) {
  Fresh f(feature, kCase);
  f.rig.load_all(f.experts);
  const Batch batch = make_batch(kCase, f.random, 4);
  f.rig.must_refuse(batch, "forward before finish", {MOERT_FAILED_PRECONDITION}, [](auto&) {});
  f.rig.finish();
  must_fail("finish again", {MOERT_FAILED_PRECONDITION},
            [&](auto* e) { return f.rig.table().finish(f.rig.self(), e); });
  must_fail("load after finish", {MOERT_FAILED_PRECONDITION, MOERT_ALREADY_EXISTS},
            [&](auto* e) { return f.load(0, MOERT_PART_UP, e); });
  expect_experts(kCase, f.experts, batch, f.rig.forward(batch));
}

// A transposed, interleaved source is a strided view of the file.
void strided_sources(const Feature& feature) {
  Fresh f(feature, kCase);
  for (int64_t e = 0; e < kCase.e; ++e) {
    const Mlp& mlp = f.experts[static_cast<size_t>(e)];
    const auto wanted = values_of<float>(mlp.up.bytes);
    std::vector<float> file(static_cast<size_t>(2 * kCase.i * kCase.h), 1e30f);
    for (int64_t r = 0; r < kCase.i; ++r)
      for (int64_t c = 0; c < kCase.h; ++c)
        file[static_cast<size_t>(2 * (c * kCase.i + r))] =
            wanted[static_cast<size_t>(r * kCase.h + c)];
    TensorView view(static_cast<const void*>(file.data()), MOERT_DTYPE_F32, {kCase.i, kCase.h});
    view.set_stride(0, 2, file.size() * sizeof(float));
    view.set_stride(1, 2 * kCase.i, file.size() * sizeof(float));
    must("a strided source", [&](auto* error) {
      return f.rig.load(mlp, e, MOERT_PART_UP, MOERT_ROLE_WEIGHT, error, view);
    });
    for (const uint32_t part : {MOERT_PART_GATE, MOERT_PART_DOWN})
      must("load", [&](auto* error) { return f.rig.load(mlp, e, part, MOERT_ROLE_WEIGHT, error); });
  }
  f.rig.finish();
  const Batch batch = make_batch(kCase, f.random, 5);
  expect_experts(kCase, f.experts, batch, f.rig.forward(batch));
}

void concurrent(const Feature& feature) {
  Fresh f(feature, kBiased);
  if ((f.rig.support().flags & MOERT_SUPPORT_CONCURRENT_LOAD) == 0)
    throw Skip{"does not promise concurrent loading"};
  std::vector<std::thread> threads;
  std::vector<moert_code_t> codes(static_cast<size_t>(kBiased.e), MOERT_OK);
  for (int64_t e = 0; e < kBiased.e; ++e)
    threads.emplace_back([&, e] {
      const auto index = static_cast<size_t>(e);
      for (uint32_t piece = 0; piece < 6 && codes[index] == MOERT_OK; ++piece)
        codes[index] = f.rig.load(f.experts[index], e, piece % 3, piece / 3, nullptr);
    });
  for (std::thread& thread : threads) thread.join();
  for (const moert_code_t code : codes) EXPECT_EQ(code, MOERT_OK);
  f.rig.finish();
  const Batch batch = make_batch(kBiased, f.random, 9);
  expect_experts(kBiased, f.experts, batch, f.rig.forward(batch));
}

// A scale that is no number stands for 32 numbers that are none: neither loaded nor computed with in silence.
void scale_is_nan(const Feature& feature) {
  Fresh f(feature, kMxfp4);
  Mlp spoiled = f.experts[2];
  spoiled.up.bytes.back() = 0xff;
  for (int64_t e = 0; e < kMxfp4.e; ++e)
    if (e != 2) f.rig.load_expert(f.experts[static_cast<size_t>(e)], e);
  for (const uint32_t part : {MOERT_PART_GATE, MOERT_PART_DOWN})
    must("load",
         [&](auto* error) { return f.rig.load(spoiled, 2, part, MOERT_ROLE_WEIGHT, error); });
  ErrorRecord error;
  const moert_code_t code = f.rig.load(spoiled, 2, MOERT_PART_UP, MOERT_ROLE_WEIGHT, error.get());
  if (code != MOERT_OK) {
    error.expect_filled(code);
    EXPECT_EQ(code, MOERT_DATA_LOSS);
    return;
  }
  f.rig.finish();
  Batch batch = make_batch(kMxfp4, f.random, 1);
  batch.ids[0] = 2;
  for (size_t j = 1; j < batch.ids.size(); ++j) batch.ids[j] = -1;
  for (const double number : decoded(kMxfp4.out_dtype, f.rig.forward(batch)))
    EXPECT_TRUE(std::isnan(number)) << "a NaN weight gave " << number;
}

ExpertsCase with_bundles(ExpertsCase c) {
  c.flags |= MOERT_PROBLEM_BUNDLES;
  return c;
}

// Expert 4 of one layer becomes expert 1 of another; the rest stay what they are.
void bundles(const Feature& feature, const ExpertsCase& c) {
  Fresh from(feature, with_bundles(c));
  Fresh to(feature, with_bundles(c));
  std::vector<Mlp> others = make_experts(c, to.random);
  from.rig.load_all(from.experts);
  to.rig.load_all(others);
  from.rig.finish();
  to.rig.finish();
  const moert_routed_experts_t& table = from.rig.table();
  if (table.bundle_bytes == nullptr || table.read_expert == nullptr ||
      table.write_expert == nullptr)
    stop("accepted MOERT_PROBLEM_BUNDLES without the three functions");
  uint64_t bytes = 0;
  must("bundle_bytes", [&](auto* e) { return table.bundle_bytes(from.rig.self(), &bytes, e); });
  Buffer bundle(from.rig.place(), bytes);
  const moert_stream_t* stream = from.rig.place().stream();
  must("read_expert", [&](auto* e) {
    return table.read_expert(from.rig.self(), 4, bundle.data(), bytes, stream, e);
  });
  bundle.expect_guards("the bundle");
  const Bytes content = bundle.read();
  must("write_expert", [&](auto* e) {
    return table.write_expert(to.rig.self(), 1, bundle.data(), bytes, stream, e);
  });
  EXPECT_TRUE(bundle.read() == content) << "write_expert changed the bundle";
  for (size_t e = 0; e < others.size(); ++e)
    others[e] = with_scaled_rows(c, others[e], static_cast<int64_t>(e));
  others[1] = with_scaled_rows(c, from.experts[4], 4);
  const Batch batch = make_batch(c, to.random, 12);
  expect_experts(c, others, batch, to.rig.forward(batch));
  for (const uint64_t wrong : {bytes - 1, bytes + 1, uint64_t{0}})
    must_fail("a bundle of another size", {MOERT_INVALID_ARGUMENT, MOERT_DATA_LOSS}, [&](auto* e) {
      return table.write_expert(to.rig.self(), 1, bundle.data(), wrong, stream, e);
    });
  must_fail("an expert that does not exist", {MOERT_INVALID_ARGUMENT, MOERT_OUT_OF_RANGE},
            [&](auto* e) {
              return table.read_expert(from.rig.self(), c.e, bundle.data(), bytes, stream, e);
            });
}

}  // namespace

void add_experts_load(const Feature& feature) {
  add(feature, "LoadTwice", "", [=] { duplicates(feature); });
  add(feature, "LoadTwiceChangesNothing", "", [=] { duplicate_changes_nothing(feature); });
  add(feature, "MissingPiece", "plain", [=] { missing(feature, kCase); });
  add(feature, "MissingPiece", "bias", [=] { missing(feature, kBiased); });
  add(feature, "WrongShape", "", [=] { wrong_shapes(feature); });
  add(feature, "WrongPiece", "", [=] { wrong_pieces(feature); });
  add(feature, "OrderOfCalls", "", [=] { order(feature); });
  add(feature, "StridedSource", "", [=] { strided_sources(feature); });
  add(feature, "ConcurrentLoad", "", [=] { concurrent(feature); });
  add(feature, "Bundles", "plain", [=] { bundles(feature, kCase); });
  add(feature, "Bundles", "bias", [=] { bundles(feature, kBiased); });
  add(feature, "Bundles", "mxfp4", [=] { bundles(feature, kMxfp4); });
  add(feature, "ScaleIsNan", "mxfp4", [=] { scale_is_nan(feature); });
  ExpertsCase quantised = kCase;
  quantised.act_scheme = "scaled";
  add(feature, "Bundles", "quantised_rows", [=] { bundles(feature, quantised); });
}

}  // namespace moert::conformance
