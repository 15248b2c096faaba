// SPDX-License-Identifier: Apache-2.0
#include "cpu/router_rig.hpp"

#include <cmath>
#include <cstring>
#include <moert/sdk/tensor.hpp>
#include <random>
#include <stdexcept>

#include "cpu/rig.hpp"

namespace moert::cpu::testing {
namespace {

const moert_router_t& table_of(const char* candidate) {
  return *static_cast<const moert_router_t*>(feature_table(MOERT_KIND_ROUTER, candidate));
}

// Calls `f` with an error record and throws what it reports.
template <class F>
void must(F f) {
  moert_error_t error{};
  error.struct_size = sizeof error;
  if (f(&error) != MOERT_OK) throw std::runtime_error(error.message);
}

size_t size_of(uint32_t dtype) { return dtype_bytes(dtype, 1); }

}  // namespace

RowsOf RowsOf::row(int64_t index) const {
  const auto bytes_of_row = static_cast<std::ptrdiff_t>(static_cast<size_t>(cols) * size_of(dtype));
  const auto first = bytes.begin() + index * bytes_of_row;
  return {1, cols, dtype, {first, first + bytes_of_row}};
}

void RowsOf::set(int64_t row, int64_t col, double value) {
  unsigned char* to = &bytes[static_cast<size_t>(row * cols + col) * size_of(dtype)];
  if (dtype == MOERT_DTYPE_F64) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  write_f32(*TensorView(to, dtype, {1}).get(), 0, static_cast<float>(value));
}

RowsOf wild_rows(uint64_t seed, uint32_t dtype, int64_t rows, int64_t cols, double sign) {
  RowsOf made{rows, cols, dtype, {}};
  made.bytes.resize(dtype_bytes(dtype, rows * cols));
  std::mt19937_64 random(seed);
  // f16 ends at 2^-14 and 2^16.
  const int most = dtype == MOERT_DTYPE_F16 ? 12 : 20;
  std::uniform_real_distribution<double> mantissa(1, 2);
  double number = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int power = static_cast<int>(random() % static_cast<uint64_t>(2 * most + 1)) - most;
      const double next =
          std::ldexp(random() % 2 == 0 ? mantissa(random) : -mantissa(random), power);
      number = c > 0 && c % 2 == 0 ? sign * number : next;
      made.set(r, c, number);
    }
  }
  return made;
}

moert_routing_t routing_of(const RouterCase& c) {
  moert_routing_t r{};
  r.struct_size = sizeof r;
  r.flags = c.flags;
  r.device = kCpu;
  r.max_tokens = 512;
  r.hidden_size = c.hidden;
  r.num_experts = c.experts;
  r.top_k = c.top_k;
  r.activation_dtype = c.rows;
  r.method = c.method;
  r.scoring = c.scoring;
  r.routed_scale = 1;
  if (c.groups > 0) {
    r.num_groups = c.groups;
    r.top_groups = c.top_groups;
    r.group_score = "top2_sum";
  }
  return r;
}

std::string router_reason(const char* candidate, const moert_routing_t& routing) {
  runtime::HostServices host(1, ignore_log);
  moert_support_t support{};
  support.struct_size = sizeof support;
  must([&](auto* e) { return table_of(candidate).supports(host.table(), &routing, &support, e); });
  return support.verdict != 0 ? "" : support.reason;
}

RouterLayer::RouterLayer(const char* candidate, const RouterCase& c, int32_t threads)
    : case_(c), host_(threads, ignore_log), table_(table_of(candidate)) {
  const moert_routing_t routing = routing_of(case_);
  must([&](auto* e) { return table_.create(host_.table(), &routing, nullptr, 0, &self_, e); });
  RowsOf gate = wild_rows(3, c.gate, c.experts, c.hidden);
  // The first two experts are twins: their logits must be equal, and the lower id goes first.
  if (c.experts > 1)
    std::memcpy(&gate.bytes[gate.bytes.size() / static_cast<size_t>(c.experts)], gate.bytes.data(),
                gate.bytes.size() / static_cast<size_t>(c.experts));
  load(MOERT_ROUTER_GATE_WEIGHT, gate);
  const auto one_row = [](uint64_t seed, int64_t count) {
    return wild_rows(seed, MOERT_DTYPE_F32, 1, count);
  };
  if ((c.flags & MOERT_ROUTING_GATE_BIAS) != 0) load(MOERT_ROUTER_GATE_BIAS, one_row(4, c.experts));
  if ((c.flags & MOERT_ROUTING_SELECTION_BIAS) != 0)
    load(MOERT_ROUTER_SELECTION_BIAS, one_row(5, c.experts));
  if ((c.flags & MOERT_ROUTING_INPUT_NORM) != 0)
    load(MOERT_ROUTER_INPUT_SCALE, one_row(6, c.hidden));
  must([&](auto* e) { return table_.finish(self_, e); });
}

void RouterLayer::load(uint32_t which, const RowsOf& values) const {
  const void* data = values.bytes.data();
  const TensorView view = values.rows == 1 && which != MOERT_ROUTER_GATE_WEIGHT
                              ? TensorView(data, values.dtype, {values.cols})
                              : TensorView(data, values.dtype, {values.rows, values.cols});
  must([&](auto* e) { return table_.load(self_, which, view, e); });
}

// Memory of before must not matter: it is full of NaN.
std::vector<unsigned char> RouterLayer::workspace(int64_t tokens, void** base,
                                                  uint64_t* bytes) const {
  must([&](auto* e) { return table_.workspace(self_, tokens, bytes, e); });
  std::vector<unsigned char> memory(*bytes + 64, 0xff);
  *base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  return memory;
}

std::vector<uint32_t> RouterLayer::logits(const RowsOf& hidden, int64_t gap) const {
  const int64_t step = gap + 1;
  const size_t size = size_of(hidden.dtype);
  std::vector<unsigned char> in(hidden.bytes.size() * static_cast<size_t>(step), 0xff);
  for (size_t i = 0; i < hidden.bytes.size() / size; ++i)
    std::memcpy(&in[i * size * static_cast<size_t>(step)], &hidden.bytes[i * size], size);
  const int64_t e = case_.experts;
  const auto count = static_cast<size_t>(hidden.rows * e);
  std::vector<uint32_t> out(count * static_cast<size_t>(step), 0xffffffffu);
  moert_tensor_t views[] = {*TensorView(in.data(), hidden.dtype, {hidden.rows, hidden.cols * step}),
                            *TensorView(out.data(), MOERT_DTYPE_F32, {hidden.rows, e * step})};
  const int64_t shapes[][2] = {{hidden.rows, hidden.cols}, {hidden.rows, e}};
  const int64_t strides[][2] = {{hidden.cols * step, step}, {e * step, step}};
  for (int i = 0; i < 2; ++i) {
    views[i].shape = shapes[i];
    views[i].strides = strides[i];
  }
  moert_router_args_t args{};
  args.struct_size = sizeof args;
  args.hidden = &views[0];
  args.logits = &views[1];
  const auto memory = workspace(hidden.rows, &args.workspace, &args.workspace_bytes);
  must([&](auto* error) { return table_.logits(self_, &args, error); });
  std::vector<uint32_t> dense(count);
  for (size_t i = 0; i < count; ++i) dense[i] = out[i * static_cast<size_t>(step)];
  return dense;
}

Decisions RouterLayer::route(const std::vector<uint32_t>& logits) const {
  const int64_t tokens = static_cast<int64_t>(logits.size()) / case_.experts;
  const auto slots = static_cast<size_t>(tokens * case_.top_k);
  Decisions made{std::vector<int32_t>(slots), std::vector<float>(slots),
                 std::vector<float>(static_cast<size_t>(tokens))};
  const TensorView in(static_cast<const void*>(logits.data()), MOERT_DTYPE_F32,
                      {tokens, case_.experts});
  const TensorView ids(made.ids.data(), MOERT_DTYPE_I32, {tokens, case_.top_k});
  const TensorView weights(made.weights.data(), MOERT_DTYPE_F32, {tokens, case_.top_k});
  const TensorView margins(made.margins.data(), MOERT_DTYPE_F32, {tokens});
  moert_router_args_t args{};
  args.struct_size = sizeof args;
  args.logits = in;
  args.ids = ids;
  args.weights = weights;
  args.margins = margins;
  const auto memory = workspace(tokens, &args.workspace, &args.workspace_bytes);
  must([&](auto* error) { return table_.route(self_, &args, error); });
  return made;
}

}  // namespace moert::cpu::testing
