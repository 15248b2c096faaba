// Weights, rows and scales of a case of the matrix kernels, and the plain sums.
// SPDX-License-Identifier: Apache-2.0
#include "gemm_problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <moert/sdk/small_floats.hpp>

namespace moert::gpu {
namespace {

constexpr int64_t kPanel = 16, kChunk = 32;

int64_t scale_bytes(const GemmCase& c, int64_t blocks) {
  switch (c.scales) {
    case ScaleKind::powers: return blocks * kPanel;
    case ScaleKind::per_panel: return blocks * 4;
    case ScaleKind::per_row: return blocks * kPanel * 4;
    default: return 0;
  }
}

}  // namespace

GemmProblem::GemmProblem(const GemmCase& c, LayoutId layout)
    : c_(c), layout_(layout), unit_(unit_shape(layout, c.codec)), random_(20261201) {
  chunks_ = (c.cols + kChunk - 1) / kChunk;
  chunks_ = (chunks_ + unit_.chunks - 1) / unit_.chunks * unit_.chunks;
  blocks_ = c.scales == ScaleKind::powers ? chunks_
            : c.scale_chunks == 0         ? 1
                                          : (chunks_ + c.scale_chunks - 1) / c.scale_chunks;
  halves_ = c.gated ? 2 : 1;
  panels_ = c.rows / kPanel * halves_;
  for (const int64_t n : c.counts) positions_ += n;
  make_weights();
  make_rows();
}

int64_t GemmProblem::padded() const { return chunks_ * kChunk; }

// Codes that have every bit, and no NaN.
double GemmProblem::random_code(unsigned char* to) {
  switch (c_.codec) {
    case Codec::fp8:
      do *to = static_cast<unsigned char>(random_());
      while ((*to & 0x7f) == 0x7f);
      return static_cast<double>(e4m3fn_to_f32(*to));
    case Codec::mxfp4: *to = random_() & 0xf; return static_cast<double>(e2m1_to_f32(*to));
    case Codec::bf16: {
      const uint16_t bits = f32_to_bf16(static_cast<float>(uniform()));
      std::memcpy(to, &bits, 2);
      return static_cast<double>(bf16_to_f32(bits));
    }
    default: {
      const auto number = static_cast<float>(uniform());
      std::memcpy(to, &number, 4);
      return static_cast<double>(number);
    }
  }
}

void GemmProblem::make_panel(int64_t e, int64_t panel) {
  const int64_t number = c_.codec == Codec::f32 ? 4 : c_.codec == Codec::bf16 ? 2 : 1;
  const int64_t half = panel % halves_, first = panel / halves_ * kPanel;
  std::vector<unsigned char> rows(static_cast<size_t>(kPanel * padded() * number));
  for (int64_t r = 0; r < kPanel; ++r)
    for (int64_t k = 0; k < c_.cols; ++k)
      weight(e, half, first + r, k) = random_code(rows.data() + (r * padded() + k) * number);
  const int64_t panel_bytes = chunks_ / unit_.chunks * unit_.bytes;
  pack_panel(layout_, c_.codec, rows.data(), chunks_,
             codes_.host() + (e * panels_ + panel) * panel_bytes);
  const int64_t bytes = scale_bytes(c_, blocks_);
  unsigned char* scales = bytes == 0 ? nullptr : scales_.host() + (e * panels_ + panel) * bytes;
  std::vector<double> of(static_cast<size_t>(kPanel * blocks_), 1.0);
  for (int64_t r = 0; r < kPanel && bytes != 0; ++r)
    for (int64_t b = 0; b < blocks_; ++b) {
      double& scale = of[static_cast<size_t>(r * blocks_ + b)];
      if (c_.scales == ScaleKind::powers) {
        const auto code = static_cast<unsigned char>(120 + random_() % 8);
        scales[b * kPanel + power_place(layout_, static_cast<int32_t>(r))] = code;
        scale = static_cast<double>(e8m0_to_f32(code));
      } else if (c_.scales == ScaleKind::per_panel && r > 0) {
        scale = of[static_cast<size_t>(b)];
      } else {
        const auto number_scale = static_cast<float>(0.01 * (1.5 + uniform()));
        const int64_t at = c_.scales == ScaleKind::per_panel ? b : b * kPanel + r;
        std::memcpy(scales + at * 4, &number_scale, 4);
        scale = static_cast<double>(number_scale);
      }
    }
  const int64_t block_chunks = c_.scales == ScaleKind::powers ? 1
                               : c_.scale_chunks == 0         ? chunks_
                                                              : c_.scale_chunks;
  for (int64_t r = 0; r < kPanel; ++r)
    for (int64_t k = 0; k < c_.cols; ++k)
      weight(e, half, first + r, k) *=
          of[static_cast<size_t>(r * blocks_ + k / kChunk / block_chunks)];
}

void GemmProblem::make_weights() {
  weights_.assign(static_cast<size_t>(experts() * halves_ * c_.rows * padded()), 0.0);
  codes_.resize(experts() * panels_ * (chunks_ / unit_.chunks) * unit_.bytes);
  scales_.resize(experts() * panels_ * scale_bytes(c_, blocks_));
  bias_.resize(c_.bias ? experts() * panels_ * kPanel : 0);
  for (int64_t e = 0; e < experts(); ++e)
    for (int64_t panel = 0; panel < panels_; ++panel) make_panel(e, panel);
  for (int64_t i = 0; i < bias_.size(); ++i) bias_.host()[i] = static_cast<float>(uniform());
  codes_.upload();
  scales_.upload();
  bias_.upload();
}

void GemmProblem::make_rows() {
  const bool f32 = c_.codec == Codec::f32;
  rows_.assign(static_cast<size_t>(positions_ * c_.cols), 0.0);
  row_data_.resize(positions_ * padded() * (f32 ? 4 : 2));
  const int64_t groups = c_.group <= 0 ? 1 : (padded() + c_.group - 1) / c_.group;
  row_scales_.resize(c_.group < 0 ? 0 : positions_ * groups);
  for (int64_t i = 0; i < row_scales_.size(); ++i)
    row_scales_.host()[i] = c_.mx_rows ? e8m0_to_f32(static_cast<uint8_t>(121 + random_() % 8))
                                       : static_cast<float>(0.1 * (1.5 + uniform()));
  for (int64_t p = 0; p < positions_; ++p)
    for (int64_t k = 0; k < c_.cols; ++k) {
      double& number = rows_[static_cast<size_t>(p * c_.cols + k)];
      const float rounded = c_.mx_rows ? e4m3fn_to_f32(static_cast<uint8_t>(random_() % 0x7f))
                                       : static_cast<float>(uniform());
      const uint16_t half = f32_to_bf16(rounded);
      if (f32)
        std::memcpy(row_data_.host() + (p * padded() + k) * 4, &rounded, 4);
      else
        std::memcpy(row_data_.host() + (p * padded() + k) * 2, &half, 2);
      number = static_cast<double>(f32 ? rounded : bf16_to_f32(half));
      if (c_.group >= 0)
        number *= static_cast<double>(
            row_scales_.host()[p * groups + (c_.group == 0 ? 0 : k / c_.group)]);
    }
  row_data_.upload();
  row_scales_.upload();
  out_.resize(positions_ * c_.rows);
}

GemmArgs GemmProblem::args(Tiling tiling) {
  const int64_t most = item_rows(layout_, tiling);
  std::vector<Item> items;
  int32_t first = 0;
  for (int64_t e = 0; e < experts(); ++e)
    for (int64_t left = c_.counts[static_cast<size_t>(e)]; left > 0; left -= most) {
      const auto rows = static_cast<int32_t>(std::min(left, most));
      items.push_back({static_cast<int32_t>(e), first, rows, 0});
      first += rows;
    }
  items_.assign(items);
  n_items_.assign({static_cast<int32_t>(items.size())});
  GemmArgs args;
  args.weights.codes = codes_.device();
  args.weights.codes_per_expert = codes_.size() / experts();
  args.weights.scales = scales_.size() == 0 ? nullptr : scales_.device();
  args.weights.scales_per_expert = scales_.size() / experts();
  args.weights.bias = c_.bias ? bias_.device() : nullptr;
  args.weights.panels = static_cast<int32_t>(panels_);
  args.weights.chunks = static_cast<int32_t>(chunks_);
  args.weights.scale_kind = c_.scales;
  args.weights.scale_blocks = static_cast<int32_t>(blocks_);
  args.weights.scale_chunks = static_cast<int32_t>(c_.scale_chunks);
  args.rows.data = row_data_.device();
  args.rows.stride = padded();
  if (c_.group >= 0) {
    args.rows.scales = row_scales_.device();
    args.rows.group = static_cast<int32_t>(c_.group);
    args.rows.groups = static_cast<int32_t>(row_scales_.size() / positions_);
  }
  args.items = items_.device();
  args.n_items = n_items_.device();
  args.period = sum_period(args.weights, args.rows);
  args.out_rows = static_cast<int32_t>(c_.rows - (c_.bends ? 5 : 0));
  args.gated = c_.gated;
  args.bends = c_.bends;
  args.bend.limit = HUGE_VALF;
  args.out = out_.device();
  args.out_stride = c_.rows;
  out_.poison();
  return args;
}

int64_t GemmProblem::expert_of(int64_t position) const {
  int64_t e = 0;
  for (; position >= c_.counts[static_cast<size_t>(e)]; ++e)
    position -= c_.counts[static_cast<size_t>(e)];
  return e;
}

double GemmProblem::want(int64_t p, int64_t r, double* size) const {
  const int64_t e = expert_of(p);
  double half[2] = {0, 0};
  *size = 0;
  for (int64_t h = 0; h < halves_; ++h) {
    for (int64_t k = 0; k < c_.cols; ++k) {
      const double product = weight(e, h, r, k) * rows_[static_cast<size_t>(p * c_.cols + k)];
      half[h] += product;
      *size += std::abs(product);
    }
    if (c_.bias)
      half[h] += static_cast<double>(
          bias_.host()[(e * panels_ + r / kPanel * halves_ + h) * kPanel + r % kPanel]);
  }
  if (!c_.bends) return half[0];
  if (r >= c_.rows - 5) return 0;
  *size = std::max(*size, 1.0) * std::max(1.0, std::abs(half[1]));
  const double silu = half[0] / (1 + std::exp(-half[0]));
  return c_.gated ? silu * half[1] : silu;
}

}  // namespace moert::gpu
