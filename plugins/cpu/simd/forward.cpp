// One forward: rows made ready, the first projection with the activation, the second with the sum of slots.
// SPDX-License-Identifier: Apache-2.0
#include "forward.hpp"

#include <algorithm>
#include <cstring>

#include "phases.hpp"
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

// Rows that one task copies.
constexpr int64_t kRowsOfCopy = 8;

// Whether rows are copied before they are multiplied.
bool converts(const Method& method, bool quantises, const Matrix& hidden) {
  return method.weight_on_input || quantises ||
         (!method.pairs && hidden.dtype() != MOERT_DTYPE_F32) || !hidden.contiguous_rows();
}

// Groups of a panel for each scale of a row.
int64_t step_of(const Method& method, const PanelFormat& format) {
  if (!method.codes) return 1;
  if (method.codes->group == 0 || format.group == 0) return INT64_MAX;
  return method.codes->group / format.group;
}

}  // namespace

int64_t Method::row_bytes(int64_t numbers) const {
  const int64_t group = !codes ? 0 : codes->group == 0 ? numbers : codes->group;
  const int64_t scales = group == 0 ? 0 : (numbers + group - 1) / group;
  return (scales_first(numbers) + scales * 4 + 63) / 64 * 64;
}

Forward::Forward(const Method& method, const PackedWeights& weights, const ExpertsRows& rows,
                 Batch& batch)
    : method_(method),
      weights_(weights),
      layout_(weights.layout()),
      rows_(rows),
      batch_(batch),
      quantises_(weights.rows_are() != PackedWeights::RowsAre::plain),
      row_scale_step_(step_of(method, layout_.format)),
      converted_(converts(method, quantises_, rows.hidden)) {}

void Forward::run(const Host& host) {
  batch_.sort(rows_);
  const int64_t rows = rows_.tokens() * batch_.shape().rows_of_token;
  const int64_t copies = converted_ ? (rows + kRowsOfCopy - 1) / kRowsOfCopy : 0;
  Phases<3> phases({copies, batch_.groups() * layout_.up_panels,
                    batch_.blocks() * layout_.down_panels * batch_.slices()});
  phases.run(host, [this](size_t phase, int64_t task, int32_t worker) {
    if (phase == 0) return convert_rows(task);
    const WorkerSpace space = batch_.worker(worker);
    return phase == 1 ? first_projection(task, space) : second_projection(task, space);
  });
}

void Forward::convert_rows(int64_t task) {
  const int64_t rows = rows_.tokens() * batch_.shape().rows_of_token;
  const int64_t end = std::min((task + 1) * kRowsOfCopy, rows);
  for (int64_t i = task * kRowsOfCopy; i < end; ++i) convert(i);
}

// A token's row, or a slot's one or two.
void Forward::convert(int64_t index) {
  const int64_t of_token = batch_.shape().rows_of_token;
  const int64_t t = index / of_token;
  if (method_.pairs && !method_.codes)
    return row_to_bf16(rows_.hidden, t, reinterpret_cast<uint16_t*>(batch_.row(index)));
  auto* to = reinterpret_cast<float*>(batch_.row(index));
  const int64_t j = index % of_token * batch_.shape().top_k / of_token;
  const int32_t expert = of_token == 1 ? 0 : rows_.ids.integer(t, j);
  if (expert < 0) return;  // nobody reads it
  const double factor = method_.weight_on_input ? rows_.weights.number(t, j) : 1;
  row_to_f32(rows_.hidden, t, static_cast<float>(factor), to);
  if (!quantises_) return;
  const bool gate = layout_.shape.gated && method_.rows_by_expert && index % 2 == 0;
  quantise(weights_.row_quant(expert, gate ? MOERT_PART_GATE : MOERT_PART_UP), batch_.row(index),
           layout_.shape.hidden, layout_.shape.hidden);
}

// A row of f32, with room for `numbers` of them.
void Forward::quantise(const RowQuant& by, unsigned char* row, int64_t depth,
                       int64_t numbers) const {
  auto* values = reinterpret_cast<float*>(row);
  if (!method_.codes) {
    if (by.changes()) by.apply(values, depth);
    return;
  }
  const int64_t group = method_.codes->group == 0 ? depth : method_.codes->group;
  method_.kernels->code_rows({values, depth, group, method_.codes->rule, row,
                              reinterpret_cast<float*>(row + method_.scales_first(numbers))});
}

// The rows that the second projection reads, when the last of their panels is there.
void Forward::quantise_middle(int64_t group) const {
  const Group& all = batch_.group(group);
  for (int64_t r = 0; r < all.rows; ++r)
    quantise(weights_.row_quant(all.expert, MOERT_PART_DOWN), batch_.middle(all.first + r),
             layout_.shape.intermediate, layout_.middle());
}

const void* Forward::row_of(int64_t slot, bool of_up) const {
  if (method_.rows_by_expert) return batch_.row(2 * slot + (of_up ? 1 : 0));
  if (method_.weight_on_input) return batch_.row(slot);
  const int64_t t = slot / batch_.shape().top_k;
  return converted_ ? batch_.row(t) : rows_.hidden.row_at(t);
}

const float* Forward::scales_of(const void* row, int64_t numbers) const {
  if (!method_.codes) return nullptr;
  return reinterpret_cast<const float*>(static_cast<const unsigned char*>(row) +
                                        method_.scales_first(numbers));
}

// sums[rows][64] = the rows of `space` times a panel. Many rows pass a part of the panel at a time.
void Forward::multiply(const unsigned char* panel, int64_t depth, int64_t rows,
                       const WorkerSpace& space, float* sums) {
  const auto index = static_cast<size_t>(layout_.format.storage);
  const auto product =
      method_.pairs ? method_.kernels->bf16_rows[index] : method_.kernels->f32_rows[index];
  // Codes stay in the cache however deep they are.
  const bool whole = rows <= kFewRows || layout_.format.storage == Storage::mxfp4 ||
                     is_bytes(layout_.format.storage);
  const float* const* scales = method_.codes ? space.scales : nullptr;
  const int64_t pass = whole ? depth : kBytesOfPass / panel_bytes(layout_.format, 2) * 2;
  for (int64_t first = 0; first < depth; first += pass)
    product({space.rows, rows, panel, first, std::min(pass, depth - first), sums, first > 0,
             layout_.format, scales, row_scale_step_});
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

void Forward::multiply_up(const Group& group, int64_t panel, bool of_up, const WorkerSpace& space,
                          float* sums) {
  for (int64_t r = 0; r < group.rows; ++r) {
    space.rows[r] = row_of(batch_.slot(group.first + r), of_up);
    space.scales[r] = scales_of(space.rows[r], layout_.shape.hidden);
  }
  multiply(weights_.of(group.expert) + layout_.up_panel(panel), layout_.shape.hidden, group.rows,
           space, sums);
}

// A group's rows through one panel of gate and up, and the activation.
void Forward::first_projection(int64_t task, const WorkerSpace& space) {
  const Group& group = batch_.group(task / layout_.up_panels);
  const int64_t panel = task % layout_.up_panels;
  const unsigned char* expert = weights_.of(group.expert);
  multiply_up(group, panel, !layout_.shape.gated, space, space.sums);
  if (method_.rows_by_expert && layout_.shape.gated) {
    multiply_up(group, panel, true, space, space.up_sums);
    for (int64_t r = 0; r < group.rows; ++r)
      std::copy_n(space.up_sums + r * kPanel + layout_.width, layout_.width,
                  space.sums + r * kPanel + layout_.width);
  }
  const float* bias = layout_.shape.biased
                          ? reinterpret_cast<const float*>(expert + layout_.up_bias(panel))
                          : nullptr;
  const bool exact = method_.exact != nullptr;
  if (exact) bend(group.rows, bias, space.sums);
  const int64_t size = method_.number_bytes();
  method_.kernels->middle({space.sums, group.rows, exact ? nullptr : bias, method_.bend, size == 2,
                           batch_.middle(group.first) + panel * layout_.width * size,
                           batch_.shape().middle_bytes / size});
  if (quantises_ && batch_.last_up(task / layout_.up_panels))
    quantise_middle(task / layout_.up_panels);
}

// A slice of the experts for one panel of down and a block of tokens; behind the last one, token by token the sum of
// its slots.
void Forward::second_projection(int64_t task, const WorkerSpace& space) {
  const int64_t slice = task % batch_.slices();
  const int64_t panel = task / batch_.slices() % layout_.down_panels;
  const int64_t block = task / batch_.slices() / layout_.down_panels;
  const DownTask down_task = {panel, batch_.first_token(block) * batch_.shape().top_k,
                              batch_.terms(block, panel, space)};
  for (int64_t g = batch_.slice_group(block, slice); g < batch_.slice_group(block, slice + 1); ++g)
    down(batch_.group(g), down_task, space);
  if (batch_.slices() > 1 && !batch_.last_slice(block, panel)) return;
  for (int64_t t = batch_.first_token(block); t < batch_.end_token(block); ++t)
    combine(t, down_task, space);
}

void Forward::down(const Group& group, const DownTask& task, const WorkerSpace& space) {
  const int64_t k = batch_.shape().top_k;
  for (int64_t r = 0; r < group.rows; ++r) {
    const int64_t slot = batch_.slot(group.first + r);
    space.rows[r] = batch_.middle(group.first + r);
    space.scales[r] = scales_of(space.rows[r], layout_.middle());
    space.to[r] = task.terms + (slot - task.first_slot) * kPanel;
    space.factors[r] = method_.weight_on_input
                           ? 1.0f
                           : static_cast<float>(rows_.weights.number(slot / k, slot % k));
  }
  const unsigned char* expert = weights_.of(group.expert);
  multiply(expert + layout_.down_panel(task.panel), layout_.shape.intermediate, group.rows, space,
           space.sums);
  const float* bias = layout_.shape.biased
                          ? reinterpret_cast<const float*>(expert + layout_.down_bias(task.panel))
                          : nullptr;
  method_.kernels->weigh({space.sums, group.rows, bias, space.factors, space.to});
}

void Forward::combine(int64_t token, const DownTask& task, const WorkerSpace& space) {
  const int64_t k = batch_.shape().top_k;
  int64_t count = 0;
  for (int64_t j = 0; j < k; ++j)
    if (rows_.ids.integer(token, j) >= 0)
      space.chosen[count++] = task.terms + (token * k + j - task.first_slot) * kPanel;
  const int64_t column = task.panel * kPanel;
  const int64_t columns = std::min(kPanel, layout_.shape.hidden - column);
  const Matrix& out = rows_.out;
  const Rows type = rows_type(out.dtype());
  const int64_t size = type == Rows::f32 ? 4 : 2;
  if (out.contiguous_rows())
    return method_.kernels->combine(
        {space.chosen, count, type, out.row_at(token) + column * size, columns});
  // The same bits, one by one to where they go.
  unsigned char numbers[kPanel * 4];
  method_.kernels->combine({space.chosen, count, type, numbers, columns});
  for (int64_t c = 0; c < columns; ++c)
    std::memcpy(out.row_at(token) + (column + c) * out.col_stride() * size, numbers + c * size,
                static_cast<size_t>(size));
}

}  // namespace moert::cpu::simd
