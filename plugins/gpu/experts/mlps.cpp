// Gated MLPs of one shape on a device: their packed weights, and a batch's way through them.
// SPDX-License-Identifier: Apache-2.0
#include "mlps.hpp"

#include <algorithm>

#include "../prepare.hpp"
#include "../tensors.hpp"
#include "activation.hpp"
#include "combine.hpp"

namespace moert::gpu {
namespace {

MlpProblem accepted(const MlpProblem& problem) {
  if (const std::string reason = refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return problem;
}

Treatment treatment_of(const MlpProblem& problem) {
  Treatment treatment;
  treat(problem.weight_scheme, problem.activations, problem.activation_dtype, &treatment);
  return treatment;
}

PackedLayout layout_of(const MlpProblem& problem, const Treatment& treatment) {
  PackedLayout layout;
  PackedLayout::make(remembered_facts(problem.device.ordinal).layout, treatment.format,
                     problem.sizes, &layout);
  return layout;
}

// A view of rows from `first` on.
StridedRows behind(const StridedRows& rows, int64_t first) {
  StridedRows later = rows;
  later.data =
      static_cast<unsigned char*>(rows.data) + first * rows.row_stride * number_bytes(rows.number);
  return later;
}
template <class T>
StridedSlots<T> behind(const StridedSlots<T>& slots, int64_t first) {
  StridedSlots<T> later = slots;
  if (slots.data != nullptr) later.data += first * slots.row_stride;
  return later;
}

}  // namespace

// How one part of a batch is cut for the matrix products.
struct Mlps::Cut {
  int64_t tokens, slots;
  Tiling tiling;
  int64_t rows, items;  // of an item, and most items

  Cut(const Mlps& of, int64_t count)
      : tokens(count),
        slots(count * of.top_k_),
        tiling(choose_tiling(of.layout_.layout, of.treatment_.format.codec, slots, of.experts_,
                             tokens)),
        rows(item_rows(of.layout_.layout, tiling)),
        items(max_items(slots, of.experts_, rows)) {}
};

Mlps::Mlps(const MlpProblem& problem)
    : device_(accepted(problem).device),
      sizes_(problem.sizes),
      experts_(problem.experts),
      top_k_(problem.top_k),
      on_input_(problem.weight_on_input),
      treatment_(treatment_of(problem)),
      layout_(layout_of(problem, treatment_)),
      gemm_(problem.gemm),
      bend_(bend_of(problem.activation)),
      warp_(remembered_facts(device_.ordinal).warp),
      multiprocessors_(remembered_facts(device_.ordinal).multiprocessors),
      fault_(prepare_device(device_.ordinal)),
      pieces_(problem.sizes, problem.experts) {
  const CurrentDevice current(device_.ordinal);
  weights_.emplace(layout_, sizes_, experts_);
  scales_.emplace(treatment_.rule, experts_, sizes_.gated);
}

Mlps::~Mlps() {
  try {
    const CurrentDevice current(device_.ordinal);
    weights_.reset();
    scales_.reset();
  } catch (const PluginError&) {  // a device that is lost: nothing is left to give back
  }
}

void Mlps::load(const moert_piece_t& piece) {
  const std::string title = pieces_.expect(piece);
  const CurrentDevice current(device_.ordinal);
  if (piece.role == MOERT_ROLE_BIAS)
    matrix(piece.tensor, title.c_str(), {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16}, 1,
           piece.part == MOERT_PART_DOWN ? sizes_.hidden : sizes_.intermediate, kCpu,
           MOERT_DATA_LOSS);
  weights_->load(piece, title);
  if (piece.role == MOERT_ROLE_WEIGHT) scales_->load(piece, title);
  pieces_.take(piece);
}

void Mlps::finish() {
  const CurrentDevice current(device_.ordinal);
  scales_->finish();
}

int64_t Mlps::most_tokens() const { return std::max<int64_t>(kMostSlots / top_k_, 1); }

Mlps::Memory Mlps::take(Arena& arena, int64_t tokens) const {
  const int64_t slots = tokens * top_k_, row_count = rows_by_slot() ? slots : tokens;
  const int64_t bytes = element_bytes(treatment_.element);
  const auto array = [&](int64_t rows, int64_t cols) {
    return arena.take_bytes(static_cast<uint64_t>(rows * cols * bytes));
  };
  const auto scales = [&](int64_t rows, int64_t cols) {
    return treatment_.codes ? arena.take<float>(rows * row_groups(treatment_.rule, cols)) : nullptr;
  };
  Memory memory;
  memory.plan = PlanMemory::of(arena, {tokens, top_k_, experts_});
  memory.rows = array(row_count, layout_.up.padded_cols());
  memory.row_scales = scales(row_count, layout_.up.padded_cols());
  memory.middle = array(slots, middle_cols());
  memory.middle_scales = scales(slots, middle_cols());
  const int64_t wide = treatment_.codes ? std::max(middle_cols(), out_cols()) : out_cols();
  memory.sums = arena.take<float>(slots * wide);
  return memory;
}

uint64_t Mlps::workspace(int64_t tokens) const {
  if (tokens <= 0) return 0;
  Arena arena;
  take(arena, std::min(tokens, most_tokens()));
  return arena.used();
}

void Mlps::forward(const MlpBatch& batch, void* workspace, Stream stream) const {
  for (int64_t first = 0; first < batch.tokens; first += most_tokens()) {
    MlpBatch some = batch;
    some.tokens = std::min(most_tokens(), batch.tokens - first);
    some.hidden = behind(batch.hidden, first);
    some.out = behind(batch.out, first);
    some.ids = behind(batch.ids, first);
    some.weights = behind(batch.weights, first);
    part(some, first, workspace, stream);
  }
}

void Mlps::part(const MlpBatch& batch, int64_t first, void* workspace, Stream stream) const {
  Arena arena(workspace);
  const Memory memory = take(arena, batch.tokens);
  const Cut cut(*this, batch.tokens);
  const PlanView sorted = plan(batch, first, memory, cut, stream);
  const RowsView up_rows = rows(batch, memory, sorted, stream);
  const RowsView down_rows = middle(up_rows, memory, sorted, cut, stream);

  GemmArgs down;
  down.weights = weights_->down();
  down.rows = down_rows;
  down.items = sorted.items;
  down.n_items = sorted.n_items;
  down.period = sum_period(down.weights, down_rows);
  down.out_rows = static_cast<int32_t>(sizes_.hidden);
  down.out = memory.sums;
  down.out_stride = out_cols();
  launch_gemm(layout_.layout, treatment_.format.codec, cut.tiling, down, cut.items,
              multiprocessors_, stream, gemm_);

  CombineArgs combine;
  combine.rows = memory.sums;
  combine.stride = out_cols();
  combine.places = sorted.places;
  if (!on_input_) combine.weights = batch.weights;
  combine.tokens = batch.tokens;
  combine.cols = sizes_.hidden;
  combine.top_k = static_cast<int32_t>(top_k_);
  combine.out = batch.out;
  launch_combine(combine, stream);
}

PlanView Mlps::plan(const MlpBatch& batch, int64_t first, const Memory& memory, const Cut& cut,
                    Stream stream) const {
  const auto item = static_cast<int32_t>(cut.rows);
  PlanView view = memory.plan.view;
  if (batch.ids.data == nullptr) {
    view.slots = view.places = nullptr;  // a slot's place is itself
    launch_plan_of_one(batch.tokens, item, view, stream);
    return view;
  }
  const PlanArgs args = {
      {batch.tokens, top_k_, experts_}, batch.ids, item, memory.plan, fault_, first};
  launch_plan(args, warp_, stream);
  return view;
}

// Whether the matrix product can read rows where they are.
bool Mlps::readable(const StridedRows& hidden) const {
  const int64_t bytes = number_bytes(hidden.number);
  const bool same =
      hidden.number == (treatment_.element == Element::bf16 ? Number::bf16 : Number::f32);
  return same && !on_input_ && !treatment_.rule.quantises() && hidden.col_stride == 1 &&
         sizes_.hidden == layout_.up.padded_cols() && hidden.row_stride * bytes % 16 == 0 &&
         reinterpret_cast<uintptr_t>(hidden.data) % 16 == 0;
}

RowsArgs Mlps::quantised(const StridedRows& from, int64_t count, int64_t cols,
                         int64_t padded) const {
  RowsArgs args;
  args.from = from;
  args.rows = count;
  args.cols = cols;
  args.padded = padded;
  args.rule = treatment_.rule;
  args.top_k = static_cast<int32_t>(top_k_);
  args.experts = static_cast<int32_t>(experts_);
  args.element = treatment_.element;
  args.groups = row_groups(treatment_.rule, padded);
  return args;
}

RowsView Mlps::rows(const MlpBatch& batch, const Memory& memory, const PlanView& plan,
                    Stream stream) const {
  const bool by_slot = rows_by_slot();
  RowsView view;
  view.slots = by_slot ? nullptr : plan.slots;
  view.divisor = static_cast<int32_t>(top_k_);
  if (readable(batch.hidden)) {
    view.data = batch.hidden.data;
    view.stride = batch.hidden.row_stride;
    return view;
  }
  const int64_t padded = layout_.up.padded_cols();
  const int64_t count = by_slot ? batch.tokens * top_k_ : batch.tokens;
  RowsArgs args = quantised(batch.hidden, count, sizes_.hidden, padded);
  args.by_position = by_slot;
  args.plan = plan;
  if (on_input_) args.weights = batch.weights;
  args.input_scales = scales_->of_rows();
  args.to = memory.rows;
  args.scales = memory.row_scales;
  launch_rows(args, warp_, stream);
  view.data = memory.rows;
  view.stride = padded;
  if (!treatment_.codes) return view;
  view.scales = args.scales;
  view.groups = args.groups;
  view.group = treatment_.rule.group;
  return view;
}

// The up projection with the activation, and what becomes of its result before the down projection reads it.
RowsView Mlps::middle(const RowsView& rows, const Memory& memory, const PlanView& plan,
                      const Cut& cut, Stream stream) const {
  const bool codes = treatment_.codes;
  GemmArgs up;
  up.weights = weights_->up();
  up.rows = rows;
  up.items = plan.items;
  up.n_items = plan.n_items;
  up.period = sum_period(up.weights, rows);
  up.out_rows = static_cast<int32_t>(sizes_.intermediate);
  up.bends = true;
  up.gated = sizes_.gated;
  up.bend = bend_;
  up.out = codes ? memory.sums : memory.middle;
  up.out_stride = middle_cols();
  up.out_element = codes ? Element::f32 : treatment_.element;
  launch_gemm(layout_.layout, treatment_.format.codec, cut.tiling, up, cut.items, multiprocessors_,
              stream, gemm_);

  RowsView view;
  view.data = memory.middle;
  view.stride = middle_cols();
  if (!treatment_.rule.quantises()) return view;
  RowsArgs args = quantised({up.out, middle_cols(), 1, Number::f32}, cut.slots, sizes_.intermediate,
                            middle_cols());
  args.by_position = true;
  args.plan = plan;
  args.plan.slots = nullptr;
  args.input_scales = scales_->of_middles();
  args.to = memory.middle;
  args.scales = memory.middle_scales;
  launch_rows(args, warp_, stream);
  if (!codes) return view;
  view.scales = args.scales;
  view.groups = args.groups;
  view.group = treatment_.rule.group;
  return view;
}

uint64_t Mlps::bundle_bytes() const {
  return weights_->bundle_bytes() +
         (treatment_.rule.by_weight() ? InputScales::kBundleBytes : uint64_t{0});
}

void Mlps::read(int64_t expert, void* bundle, Stream stream) const {
  const CurrentDevice current(device_.ordinal);
  weights_->read(expert, bundle, stream);
  if (treatment_.rule.by_weight())
    scales_->read(expert, static_cast<unsigned char*>(bundle) + weights_->bundle_bytes(), stream);
}

void Mlps::write(int64_t expert, const void* bundle, Stream stream) {
  const CurrentDevice current(device_.ordinal);
  weights_->write(expert, bundle, stream);
  if (treatment_.rule.by_weight())
    scales_->write(expert, static_cast<const unsigned char*>(bundle) + weights_->bundle_bytes(),
                   stream);
}

}  // namespace moert::gpu
