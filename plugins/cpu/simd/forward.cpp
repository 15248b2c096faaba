// One forward: rows made ready, the first projection with the activation, the second with the sum of slots.
// SPDX-License-Identifier: Apache-2.0
#include "forward.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "rows.hpp"

namespace moert::cpu::simd {
namespace {

// Part of a panel that stays in the cache while many rows pass: half a megabyte.
constexpr int64_t kBytesOfPass = int64_t{512} << 10;
// Rows that pass at once, so that nothing of a panel is read twice.
constexpr int64_t kFewRows = 6;

Rows rows_type(uint32_t dtype) {
  return dtype == MOERT_DTYPE_BF16 ? Rows::bf16 : dtype == MOERT_DTYPE_F16 ? Rows::f16 : Rows::f32;
}

// Whether rows are copied before they are multiplied.
bool converts(const Method& method, const Matrix& hidden) {
  return method.weight_on_input || (!method.pairs && hidden.dtype() != MOERT_DTYPE_F32) ||
         !hidden.contiguous_rows();
}

}  // namespace

Forward::Forward(const Method& method, const PackedWeights& weights, const ExpertsRows& rows,
                 Batch& batch)
    : method_(method),
      weights_(weights),
      layout_(weights.layout()),
      rows_(rows),
      batch_(batch),
      converted_(converts(method, rows.hidden)) {}

// Tasks one by one to whoever is free. The host's ranges would be as good as its guess of what a task takes;
// an expert has one row or hundreds.
template <class Task>
void Forward::each_task(const Host& host, int64_t tasks, Task task) {
  std::atomic<int64_t> next{0};
  host.parallel_for(std::min<int64_t>(host.num_threads(), tasks), 1,
                    [&](int64_t, int64_t, int32_t worker) {
                      const WorkerSpace space = batch_.worker(worker);
                      for (int64_t i = next++; i < tasks; i = next++) task(i, space);
                    });
}

void Forward::run(const Host& host) {
  batch_.sort(rows_);
  if (converted_) {
    const int64_t k = method_.weight_on_input ? batch_.shape().top_k : 1;
    host.parallel_for(rows_.tokens() * k, 1, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) convert(i);
    });
  }
  each_task(host, batch_.groups() * layout_.up_panels,
            [this](int64_t task, const WorkerSpace& space) { first_projection(task, space); });
  each_task(host, batch_.blocks() * layout_.down_panels,
            [this](int64_t task, const WorkerSpace& space) { second_projection(task, space); });
}

// A token's row, or with the weight on the input a slot's.
void Forward::convert(int64_t index) {
  if (method_.pairs)
    return row_to_bf16(rows_.hidden, index, reinterpret_cast<uint16_t*>(batch_.row(index)));
  auto* to = reinterpret_cast<float*>(batch_.row(index));
  if (!method_.weight_on_input) return row_to_f32(rows_.hidden, index, 1.0f, to);
  const int64_t k = batch_.shape().top_k;
  const int64_t t = index / k;
  const int64_t j = index % k;
  if (rows_.ids.integer(t, j) < 0) return;  // nobody reads it
  row_to_f32(rows_.hidden, t, static_cast<float>(rows_.weights.number(t, j)), to);
}

const void* Forward::row_of(int64_t slot) const {
  if (method_.weight_on_input) return batch_.row(slot);
  const int64_t t = slot / batch_.shape().top_k;
  return converted_ ? batch_.row(t) : rows_.hidden.row_at(t);
}

// sums[rows][64] = the rows of `space` times a panel. Many rows pass a part of the panel at a time.
void Forward::multiply(const unsigned char* panel, int64_t depth, int64_t rows,
                       const WorkerSpace& space) {
  const auto index = static_cast<size_t>(layout_.storage);
  const auto product =
      method_.pairs ? method_.kernels->bf16_rows[index] : method_.kernels->f32_rows[index];
  // Codes of four bits stay in the cache however deep they are.
  const bool whole = rows <= kFewRows || layout_.storage == Storage::mxfp4;
  const int64_t pass = whole ? depth : kBytesOfPass / panel_bytes(layout_.storage, 2) * 2;
  for (int64_t first = 0; first < depth; first += pass)
    product({space.rows, rows, panel, first, std::min(pass, depth - first), space.sums, first > 0});
}

// The oracle's function in place, for curves that the kernels do not have.
void Forward::bend(int64_t rows, const float* bias, float* sums) const {
  const auto biased = [bias](const float* row, int64_t c) {
    return static_cast<double>(bias == nullptr ? row[c] : row[c] + bias[c]);
  };
  for (int64_t r = 0; r < rows; ++r) {
    float* row = sums + r * kPanel;
    for (int64_t c = 0; c < layout_.width; ++c)
      row[c] = static_cast<float>(
          method_.bend.gated ? method_.exact->gated(biased(row, c), biased(row, kPanel / 2 + c))
                             : method_.exact->plain(biased(row, c)));
  }
}

// A group's rows through one panel of gate and up, and the activation.
void Forward::first_projection(int64_t task, const WorkerSpace& space) {
  const Group& group = batch_.group(task / layout_.up_panels);
  const int64_t panel = task % layout_.up_panels;
  const unsigned char* expert = weights_.of(group.expert);
  for (int64_t r = 0; r < group.rows; ++r) space.rows[r] = row_of(batch_.slot(group.first + r));
  multiply(expert + layout_.up_panel(panel), layout_.shape.hidden, group.rows, space);
  const float* bias = layout_.shape.biased
                          ? reinterpret_cast<const float*>(expert + layout_.up_bias(panel))
                          : nullptr;
  const bool exact = method_.exact != nullptr;
  if (exact) bend(group.rows, bias, space.sums);
  const int64_t size = method_.pairs ? 2 : 4;
  method_.kernels->middle({space.sums, group.rows, exact ? nullptr : bias, method_.bend,
                           method_.pairs, batch_.middle(group.first) + panel * layout_.width * size,
                           layout_.middle()});
}

// One panel of down for a block of tokens: all experts, then token by token the sum of its slots.
void Forward::second_projection(int64_t task, const WorkerSpace& space) {
  const int64_t block = task / layout_.down_panels;
  const int64_t panel = task % layout_.down_panels;
  const int64_t first_slot = batch_.first_token(block) * batch_.shape().top_k;
  for (int64_t g = batch_.first_group(block); g < batch_.first_group(block + 1); ++g)
    down(batch_.group(g), panel, first_slot, space);
  for (int64_t t = batch_.first_token(block); t < batch_.end_token(block); ++t)
    combine(t, panel, first_slot, space);
}

void Forward::down(const Group& group, int64_t panel, int64_t first_slot,
                   const WorkerSpace& space) {
  const int64_t k = batch_.shape().top_k;
  for (int64_t r = 0; r < group.rows; ++r) {
    const int64_t slot = batch_.slot(group.first + r);
    space.rows[r] = batch_.middle(group.first + r);
    space.to[r] = space.terms + (slot - first_slot) * kPanel;
    space.factors[r] = method_.weight_on_input
                           ? 1.0f
                           : static_cast<float>(rows_.weights.number(slot / k, slot % k));
  }
  const unsigned char* expert = weights_.of(group.expert);
  multiply(expert + layout_.down_panel(panel), layout_.shape.intermediate, group.rows, space);
  const float* bias = layout_.shape.biased
                          ? reinterpret_cast<const float*>(expert + layout_.down_bias(panel))
                          : nullptr;
  method_.kernels->weigh({space.sums, group.rows, bias, space.factors, space.to});
}

void Forward::combine(int64_t token, int64_t panel, int64_t first_slot, const WorkerSpace& space) {
  const int64_t k = batch_.shape().top_k;
  int64_t count = 0;
  for (int64_t j = 0; j < k; ++j)
    if (rows_.ids.integer(token, j) >= 0)
      space.chosen[count++] = space.terms + (token * k + j - first_slot) * kPanel;
  const int64_t column = panel * kPanel;
  const int64_t columns = std::min(kPanel, layout_.shape.hidden - column);
  const Matrix& out = rows_.out;
  if (out.contiguous_rows()) {
    const Rows type = rows_type(out.dtype());
    unsigned char* to = out.row_at(token) + column * (type == Rows::f32 ? 4 : 2);
    return method_.kernels->combine({space.chosen, count, type, to, columns});
  }
  float numbers[kPanel];
  method_.kernels->combine({space.chosen, count, Rows::f32, numbers, columns});
  for (int64_t c = 0; c < columns; ++c) out.set(token, column + c, static_cast<double>(numbers[c]));
}

}  // namespace moert::cpu::simd
