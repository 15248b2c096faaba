// shared_experts: numbers, the sigmoid gate, rows, loading, wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/shared_experts.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "host.hpp"
#include "kinds.hpp"
#include "plain_quant.hpp"
#include "reference.hpp"

namespace moert::conformance {
namespace {

struct Case {
  std::string label;
  int64_t h, i;
  uint32_t flags = 0;  // MOERT_SHARED_*
  uint32_t dtype = MOERT_DTYPE_F32;
  Act act = {};

  bool sigmoid() const { return (flags & MOERT_SHARED_SIGMOID_GATE) != 0; }
  bool gated() const { return (flags & MOERT_SHARED_NON_GATED) == 0; }
  bool biased() const { return (flags & MOERT_SHARED_BIAS) != 0; }
};

std::vector<Case> cases() {
  return {{"one", 1, 1},
          {"odd", 33, 17},
          {"narrow", 33, 1},
          {"wide", 64, 128},
          {"sigmoid", 33, 17, MOERT_SHARED_SIGMOID_GATE},
          {"bf16", 33, 17, MOERT_SHARED_SIGMOID_GATE, MOERT_DTYPE_BF16},
          {"f16", 33, 17, 0, MOERT_DTYPE_F16},
          {"bias", 33, 17, MOERT_SHARED_BIAS},
          {"nongated", 33, 17, MOERT_SHARED_NON_GATED, MOERT_DTYPE_F32, {"relu2"}},
          {"gelu_tanh", 33, 17, 0, MOERT_DTYPE_F32, {"gelu_tanh"}},
          {"relu", 33, 17, 0, MOERT_DTYPE_F32, {"relu"}},
          {"relu_nongated", 33, 17, MOERT_SHARED_NON_GATED, MOERT_DTYPE_F32, {"relu"}},
          {"situ", 33, 17, MOERT_SHARED_SIGMOID_GATE, MOERT_DTYPE_F32, {"situ", 0, 1.5}},
          {"situ_alpha", 33, 17, 0, MOERT_DTYPE_BF16, {"situ", 0.75, 1.5}}};
}

class Rig {
 public:
  static constexpr int64_t kTokens = 6;

  Rig(const Feature& feature, const Case& c, uint32_t more_flags = 0)
      : c_(c),
        table(feature.table<moert_shared_experts_t>()),
        host(settings().seed),
        place(feature.device),
        random(c.label),
        mlp(make_mlp(random, c.h, c.i, c.gated(), c.biased(), c.act, c.dtype)) {
    const moert_activation_t activation = {sizeof activation, 0,          c.act.name,
                                           c.act.alpha,       c.act.beta, c.act.limit};
    moert_shared_problem_t problem{};
    problem.struct_size = sizeof problem;
    problem.flags = c.flags | more_flags;
    problem.device = place.id();
    problem.max_tokens = 16;
    problem.hidden_size = c.h;
    problem.intermediate_size = c.i;
    problem.activation_dtype = problem.output_dtype = c.dtype;
    problem.weight_scheme = dtype_name(c.dtype).data();
    problem.activation = &activation;
    problem.tp_size = 1;
    support.struct_size = sizeof support;
    must("supports", [&](auto* e) { return table.supports(host.table(), &problem, &support, e); });
    if (support.verdict == 0) {
      EXPECT_NE(support.reason[0], '\0') << "a verdict of no without a reason";
      throw Skip{support.reason};
    }
    must("create",
         [&](auto* e) { return table.create(host.table(), &problem, nullptr, 0, &self, e); });
    std::vector<double> numbers(static_cast<size_t>(c.h));
    for (double& x : numbers) x = random.uniform();
    gate = rounded(c.dtype, numbers);
    numbers.resize(static_cast<size_t>(kTokens * c.h));
    for (double& x : numbers) x = random.uniform();
    hidden = rounded(c.dtype, numbers);
  }
  ~Rig() {
    if (self != nullptr) table.destroy(self);
    EXPECT_EQ(host.live(), 0u) << "destroy left host memory behind";
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  moert_code_t load(uint32_t part, uint32_t role, const moert_tensor_t* tensor, moert_error_t* e) {
    moert_piece_t piece{};
    piece.struct_size = sizeof piece;
    piece.part = part;
    piece.role = role;
    piece.tensor = tensor;
    piece.quant = &plain_quant();
    return table.load(self, &piece, e);
  }
  moert_code_t load(uint32_t part, uint32_t role, moert_error_t* e) {
    const bool weight = role == MOERT_ROLE_WEIGHT;
    const int64_t rows = part == MOERT_PART_DOWN ? c_.h : c_.i;
    const int64_t cols = part == MOERT_PART_DOWN ? c_.i : c_.h;
    const Values* values = part == MOERT_PART_GATE ? (weight ? &mlp.gate : &mlp.gate_bias)
                           : part == MOERT_PART_UP ? (weight ? &mlp.up : &mlp.up_bias)
                                                   : (weight ? &mlp.down : &mlp.down_bias);
    const void* data = values->bytes.data();
    if (weight) return load(part, role, TensorView(data, c_.dtype, {rows, cols}), e);
    return load(part, role, TensorView(data, MOERT_DTYPE_F32, {rows}), e);
  }
  void load_mlp() {
    for (uint32_t role : {MOERT_ROLE_WEIGHT, MOERT_ROLE_BIAS})
      for (uint32_t part : {MOERT_PART_GATE, MOERT_PART_UP, MOERT_PART_DOWN})
        if ((part != MOERT_PART_GATE || c_.gated()) && (role == MOERT_ROLE_WEIGHT || c_.biased()))
          must("load", [&](auto* e) { return load(part, role, e); });
  }
  void load_gate(bool matrix) {
    const void* data = gate.bytes.data();
    const TensorView flat(data, c_.dtype, {c_.h});
    const TensorView row(data, c_.dtype, {1, c_.h});
    must("load the sigmoid gate", [&](auto* e) {
      return load(MOERT_PART_SIGMOID_GATE, MOERT_ROLE_WEIGHT, matrix ? row : flat, e);
    });
  }
  void finish() {
    must("finish", [&](auto* e) { return table.finish(self, e); });
  }
  Bytes forward(const Values& rows, int64_t tokens) {
    Tensor in(place, c_.dtype, {tokens, c_.h}, rows.bytes);
    Tensor out(place, c_.dtype, {tokens, c_.h});
    uint64_t bytes = 0;
    must("workspace", [&](auto* e) { return table.workspace(self, tokens, &bytes, e); });
    const Buffer workspace(place, bytes);
    const moert_shared_args_t args = {sizeof args,      0,    place.stream(), in.get(), out.get(),
                                      workspace.data(), bytes};
    must("forward", [&](auto* e) { return table.forward(self, &args, e); });
    Bytes result = out.read();
    out.buffer().expect_guards("out");
    workspace.expect_guards("the workspace");
    EXPECT_TRUE(in.read() == rows.bytes) << "forward changed hidden";
    return result;
  }
  Expected reference(const Values& rows) const {
    Expected all;
    for (int64_t t = 0; t < kTokens; ++t) {
      const double* x = &rows.number[static_cast<size_t>(t * c_.h)];
      Expected row = mlp_row(mlp, x, 0, c_.dtype);
      double factor = 1;
      if (c_.sigmoid()) {
        double sum = 0;
        for (int64_t h = 0; h < c_.h; ++h) sum += gate.number[static_cast<size_t>(h)] * x[h];
        factor = 1 / (1 + std::exp(-sum));
      }
      for (size_t h = 0; h < row.value.size(); ++h) {
        // The factor and the row may both have been rounded to the rows' dtype before they met.
        row.tolerance[h] =
            factor * row.tolerance[h] + factor * std::fabs(row.value[h]) *
                                            (c_.sigmoid() ? 3 * roundoff(c_.dtype) + 0x1p-20 : 0.0);
        row.value[h] *= factor;
      }
      add_rounding(row, c_.dtype);
      all.value.insert(all.value.end(), row.value.begin(), row.value.end());
      all.tolerance.insert(all.tolerance.end(), row.tolerance.begin(), row.tolerance.end());
    }
    return all;
  }
  void expect_reference(const Values& rows, const Bytes& out) const {
    expect_near(decoded(c_.dtype, out), reference(rows), c_.h,
                std::vector<std::string>(kTokens, "shared"));
  }
  void expect_reference() { expect_reference(hidden, forward(hidden, kTokens)); }
  void ready() {
    load_mlp();
    if (c_.sigmoid()) load_gate(true);
    finish();
  }

 private:
  const Case c_;

 public:
  const moert_shared_experts_t& table;
  TestHost host;
  Place place;
  Random random;
  Mlp mlp;
  Values gate, hidden;
  moert_support_t support{};
  void* self = nullptr;
};

const Case kSigmoid = {"rules", 33, 17, MOERT_SHARED_SIGMOID_GATE};

void rows(const Feature& feature, const Case& c) {
  Rig rig(feature, c);
  rig.ready();
  EXPECT_TRUE(rig.forward({}, 0).empty());
  const Bytes clean = rig.forward(rig.hidden, Rig::kTokens);
  rig.host.set_schedule(Schedule::threaded);
  const size_t row = clean.size() / Rig::kTokens;
  if ((rig.support.flags & MOERT_SUPPORT_DETERMINISTIC) != 0)
    expect_same_rows(clean, rig.forward(rig.hidden, Rig::kTokens), row, "again, on threads");
  std::vector<double> numbers = rig.hidden.number;
  for (int64_t h = 0; h < c.h; ++h) {
    numbers[static_cast<size_t>(c.h + h)] = std::numeric_limits<double>::quiet_NaN();
    numbers[static_cast<size_t>(4 * c.h + h)] = std::numeric_limits<double>::infinity();
  }
  const Bytes dirty = rig.forward(rounded(c.dtype, numbers), Rig::kTokens);
  for (const size_t t : {size_t{0}, size_t{2}, size_t{3}, size_t{5}})
    EXPECT_EQ(std::memcmp(&dirty[t * row], &clean[t * row], row), 0)
        << "row " << t << " changed when rows 1 and 4 became NaN and Inf";
}

// One recording, of the first forward, launched for other rows in the same buffers.
void graph(const Feature& feature, const Case& c) {
  Rig rig(feature, c);
  if ((rig.support.flags & MOERT_SUPPORT_GRAPH_SAFE) == 0) throw Skip{"promises no graphs"};
  if (rig.place.device()->graph_begin == nullptr) throw Skip{"the device has no graphs"};
  rig.ready();
  std::vector<double> numbers = rig.hidden.number;
  std::reverse(numbers.begin(), numbers.end());
  const Values batches[] = {rig.hidden, rounded(c.dtype, numbers)};
  Tensor in(rig.place, c.dtype, {Rig::kTokens, c.h}), out(rig.place, c.dtype, {Rig::kTokens, c.h});
  uint64_t bytes = 0;
  must("workspace",
       [&](auto* e) { return rig.table.workspace(rig.self, Rig::kTokens, &bytes, e); });
  const Buffer workspace(rig.place, bytes);
  const moert_shared_args_t args = {sizeof args,      0,    rig.place.stream(), in.get(), out.get(),
                                    workspace.data(), bytes};
  Recording recording(rig.place, [&] {
    must("forward", [&](auto* e) { return rig.table.forward(rig.self, &args, e); });
  });
  const Bytes want[] = {rig.forward(batches[0], Rig::kTokens),
                        rig.forward(batches[1], Rig::kTokens)};
  EXPECT_FALSE(want[0] == want[1]);
  const bool same_bits = (rig.support.flags & MOERT_SUPPORT_DETERMINISTIC) != 0;
  for (const size_t i : {size_t{0}, size_t{1}, size_t{0}}) {
    in.buffer().write(batches[i].bytes);
    out.buffer().write(Bytes(want[i].size(), 0xff));
    recording.launch();
    const Bytes got = out.read();
    rig.expect_reference(batches[i], got);
    EXPECT_TRUE(got == want[i] || !same_bits) << "a launch for rows " << i << " gives other bits";
  }
  workspace.expect_guards("the workspace");
}

// The gate halves at 0, closes far below it, and may come as a vector or as a row.
void sigmoid_gate(const Feature& feature) {
  for (const bool matrix : {false, true}) {
    Rig rig(feature, kSigmoid);
    rig.load_mlp();
    rig.load_gate(matrix);
    rig.finish();
    rig.expect_reference();
  }
  Rig half(feature, kSigmoid);
  half.gate = rounded(MOERT_DTYPE_F32, std::vector<double>(33, 0.0));
  half.ready();
  half.expect_reference();
  Rig closed(feature, kSigmoid);
  closed.gate = rounded(MOERT_DTYPE_F32, std::vector<double>(33, -100.0));
  closed.hidden = rounded(MOERT_DTYPE_F32, std::vector<double>(33 * Rig::kTokens, 1.0));
  closed.ready();
  for (const double y : decoded(MOERT_DTYPE_F32, closed.forward(closed.hidden, Rig::kTokens)))
    EXPECT_TRUE(std::fabs(y) <= 1e-30) << "a closed gate let " << y << " through";
}

void loading(const Feature& feature) {
  Rig rig(feature, kSigmoid);
  const auto finish = [&](auto* e) { return rig.table.finish(rig.self, e); };
  for (const uint32_t part : std::initializer_list<uint32_t>{
           MOERT_PART_GATE, MOERT_PART_UP, MOERT_PART_DOWN, MOERT_PART_SIGMOID_GATE}) {
    must_fail("finish with a piece missing", {MOERT_FAILED_PRECONDITION}, finish);
    if (part == MOERT_PART_SIGMOID_GATE)
      rig.load_gate(false);
    else
      must("load", [&](auto* e) { return rig.load(part, MOERT_ROLE_WEIGHT, e); });
    const TensorView gate(static_cast<const void*>(rig.gate.bytes.data()), MOERT_DTYPE_F32, {33});
    must_fail("the same piece again", {MOERT_ALREADY_EXISTS}, [&](auto* e) {
      return part == MOERT_PART_SIGMOID_GATE ? rig.load(part, MOERT_ROLE_WEIGHT, gate, e)
                                             : rig.load(part, MOERT_ROLE_WEIGHT, e);
    });
  }
  must("finish", finish);
  must_fail("finish again", {MOERT_FAILED_PRECONDITION}, finish);
  rig.expect_reference();
}

void wrong(const Feature& feature) {
  Rig rig(feature, kSigmoid);
  const Bytes bytes(4096, 0);
  const void* data = bytes.data();
  const std::initializer_list<moert_code_t> shape = {MOERT_DATA_LOSS, MOERT_INVALID_ARGUMENT};
  const TensorView transposed(data, MOERT_DTYPE_F32, {33, 17});
  const TensorView longer(data, MOERT_DTYPE_F32, {34});
  must_fail("a transposed weight", shape,
            [&](auto* e) { return rig.load(MOERT_PART_UP, MOERT_ROLE_WEIGHT, transposed, e); });
  must_fail("a sigmoid gate that is too long", shape, [&](auto* e) {
    return rig.load(MOERT_PART_SIGMOID_GATE, MOERT_ROLE_WEIGHT, longer, e);
  });
  Tensor in(rig.place, MOERT_DTYPE_F32, {4, 33});
  Tensor out(rig.place, MOERT_DTYPE_F32, {4, 33});
  Tensor three(rig.place, MOERT_DTYPE_F32, {3, 33});
  uint64_t size = 0;
  must("workspace", [&](auto* e) { return rig.table.workspace(rig.self, 4, &size, e); });
  const Buffer workspace(rig.place, size);
  moert_shared_args_t args = {sizeof args,      0,   rig.place.stream(), in.get(), out.get(),
                              workspace.data(), size};
  const auto forward = [&](auto* e) { return rig.table.forward(rig.self, &args, e); };
  must_fail("forward before finish", {MOERT_FAILED_PRECONDITION}, forward);
  rig.ready();
  args.flags = 1u << 31;
  must_fail("a flag that nobody knows", {MOERT_UNIMPLEMENTED}, forward);
  args.flags = 0;
  args.out = three.get();
  must_fail("an output of fewer tokens", {MOERT_INVALID_ARGUMENT}, forward);
  args.out = out.get();
  args.hidden = nullptr;
  must_fail("no rows", {MOERT_INVALID_ARGUMENT}, forward);
  EXPECT_TRUE(out.read() == Bytes(out.buffer().bytes(), 0xff)) << "the output was written";
}

void unknown_flag(const Feature& feature) {
  Rig plain(feature, kSigmoid);
  try {
    Rig rig(feature, kSigmoid, 1u << 31);
    ADD_FAILURE() << "a flag that nobody knows was accepted";
  } catch (const Skip&) {
  }
}

void accepts_something(const Feature& feature) {
  for (const Case& c : cases()) {
    try {
      Rig rig(feature, c);
      return;
    } catch (const Skip&) {
    }
  }
  ADD_FAILURE() << "every case of the suite is declined";
}

}  // namespace

void add_shared_tests(const Feature& feature) {
  for (const Case& c : cases()) {
    add(feature, "Numbers", c.label, [=] {
      Rig rig(feature, c);
      rig.ready();
      rig.expect_reference();
    });
    add(feature, "Rows", c.label, [=] { rows(feature, c); });
    const bool on_device = feature.device != nullptr && feature.device->kind != MOERT_DEVICE_CPU;
    if (on_device) add(feature, "Graph", c.label, [=] { graph(feature, c); });
  }
  add(feature, "AcceptsSomething", "", [=] { accepts_something(feature); });
  add(feature, "SigmoidGate", "", [=] { sigmoid_gate(feature); });
  add(feature, "Loading", "", [=] { loading(feature); });
  add(feature, "Wrong", "", [=] { wrong(feature); });
  add(feature, "UnknownFlag", "", [=] { unknown_flag(feature); });
}

}  // namespace moert::conformance
